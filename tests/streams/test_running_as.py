"""A run where asyncio asks for a coroutine, as a block, and stopped."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from streams import Keep, Sink, Source, SourceQueue, StreamClosedError
from streams.testkit import elapse, run_in_virtual_time, settle
from tests.streams.generated.resources import Resource


def slow(count: int) -> Source[int]:
    return Source.range(count).map_async(1, _later)


async def _later(n: int) -> int:
    await elapse(1)
    return n


def test_a_task_group_takes_runs_as_it_takes_coroutines() -> None:
    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(slow(2).to(Sink.collect()).run())
            second = group.create_task(slow(3).to(Sink.fold(0, int.__add__)).run(), name="sum")
        assert first.result() == [0, 1]
        assert second.result() == 3
        assert "sum" in repr(second)

    run_in_virtual_time(main())


def test_a_failure_in_the_group_cancels_the_run_and_waits_for_its_clean_up() -> None:
    resource = Resource()

    async def main() -> None:
        async def both() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(resource.source().to(Sink.ignore()).run())
                group.create_task(Source.of(1).map(lambda _: 1 // 0).to(Sink.ignore()).run())

        with pytest.raises(ExceptionGroup) as raised:
            await both()
        assert [type(error) for error in raised.value.exceptions] == [ZeroDivisionError]
        assert resource.opened == resource.closed

    run_in_virtual_time(main())


def test_any_number_of_tasks_may_have_the_same_run() -> None:
    async def main() -> None:
        running = slow(2).to(Sink.collect()).run()
        tasks = [asyncio.create_task(running) for _ in range(3)]
        waited = asyncio.ensure_future(running)
        assert await running == [0, 1]
        assert await asyncio.gather(*tasks, waited) == [[0, 1]] * 4
        assert await asyncio.wait_for(running, 1) == [0, 1]
        assert await asyncio.create_task(running) == [0, 1]

    run_in_virtual_time(main())


@pytest.mark.parametrize("begun", [False, True])
def test_cancelling_the_task_of_a_run_cancels_the_run(begun: bool) -> None:
    async def main() -> None:
        running = Source.never().to(Sink.ignore()).run()
        task = asyncio.create_task(running)
        if begun:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert running.done()

    run_in_virtual_time(main())


def test_a_block_waits_for_the_end_of_its_run() -> None:
    async def main() -> None:
        collected: Any
        async with Source.queue(4, of=int).run_with(Sink.collect(), Keep.left) as collected:
            queue = collected.materialized(SourceQueue[int])
            await queue.offer_wait(1)
            queue.complete()
        assert collected.done()
        assert await collected == [1]

    run_in_virtual_time(main())


def test_a_block_that_fails_leaves_no_run_behind() -> None:
    resource = Resource()

    async def main() -> None:
        running = resource.source().to(Sink.ignore()).run()

        async def block() -> None:
            async with running:
                await elapse(1)
                raise KeyError("between run and await")

        with pytest.raises(KeyError):
            await block()
        assert running.done()
        assert resource.opened == resource.closed == 1

    run_in_virtual_time(main())


def test_a_block_raises_the_failure_of_its_run() -> None:
    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            async with Source.of(1).map(lambda _: 1 // 0).to(Sink.ignore()).run():
                await elapse(1)

    run_in_virtual_time(main())


@pytest.mark.parametrize("awaited", [False, True])
def test_a_failure_that_made_its_block_fail_is_not_lost(awaited: bool, loop_reports: list[str]) -> None:
    async def main() -> None:
        async def block() -> None:
            async with Source.queue(4, of=int).map(lambda n: 1 // n).to(Sink.ignore()).run() as running:
                queue = running.materialized(SourceQueue[int])
                await queue.offer_wait(0)
                await settle()
                if awaited:
                    await running
                await queue.offer_wait(1)

        with pytest.raises(ZeroDivisionError if awaited else StreamClosedError):
            await block()
        gc.collect()
        await settle()

    run_in_virtual_time(main())
    assert ["ZeroDivisionError" in report for report in loop_reports] == ([] if awaited else [True])


@pytest.mark.parametrize("how", ["cancel", "stop"])
def test_a_run_that_is_ended_within_its_block_has_ended_as_it_should(how: str) -> None:
    async def main() -> None:
        async with Source.never().to(Sink.ignore()).run() as running:
            if how == "cancel":
                running.cancel()
            else:
                await running.stop()
        assert running.done()

    run_in_virtual_time(main())


def test_a_task_that_is_cancelled_while_its_block_waits_is_cancelled() -> None:
    async def main() -> None:
        async def block() -> None:
            async with Source.never().to(Sink.ignore()).run():
                pass

        task = asyncio.create_task(block())
        await elapse(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_in_virtual_time(main())


def test_stop_waits_and_tells_no_failure(loop_reports: list[str]) -> None:
    async def main() -> None:
        running = Source.of(1).map(lambda _: 1 // 0).to(Sink.ignore()).run()
        await settle()
        await running.stop()
        await running.stop()
        with pytest.raises(ZeroDivisionError):
            await running

    run_in_virtual_time(main())
    assert loop_reports == []
