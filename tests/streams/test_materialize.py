"""One run: its handle, its tasks, its end. A handle that is done has left nothing behind."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from streams import Flow, Materialization, Publisher, Sink, Source, StreamClosedError
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time, settle


def other_tasks() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]


def reports() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: found.append(context))
    return found


async def forever(_element: object) -> int:
    await asyncio.Event().wait()
    return 1


def test_awaiting_the_handle_gives_the_sinks_result() -> None:
    async def main() -> None:
        running = Source.of(1, 2, 3).to(Sink.collect()).run()
        assert not running.done()
        assert await running == [1, 2, 3]
        assert await running == [1, 2, 3]
        assert running.done()
        assert not other_tasks()

    run_in_virtual_time(main())


def test_nothing_moves_before_the_whole_graph_is_together() -> None:
    async def main() -> None:
        seen: list[int] = []
        running = Source.of(1).to(Sink.foreach(seen.append)).run()
        assert seen == []
        await running
        assert seen == [1]

    run_in_virtual_time(main())


def test_a_failure_is_raised_with_its_traceback_and_the_stage_that_it_came_from() -> None:
    def burst(element: int) -> int:
        raise KeyError(element)

    async def main() -> None:
        with pytest.raises(KeyError) as caught:
            await Source.of(7).map(burst).to(Sink.ignore()).run()
        notes = caught.value.__notes__
        assert "map(" in notes[0]
        assert "burst" in notes[0]
        assert any("iterable -> map -> ignore" in note for note in notes)
        assert any(entry.name == "burst" for entry in caught.traceback)
        assert not other_tasks()

    run_in_virtual_time(main())


def test_cancelling_the_handle_cancels_the_source_and_awaiting_it_raises() -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = source.map(str).to(Sink.collect()).run()
        await source.probe.expect_request()
        running.cancel()
        assert source.probe.cancelled
        with pytest.raises(asyncio.CancelledError):
            await running
        running.cancel()
        assert not other_tasks()

    run_in_virtual_time(main())


def test_cancelling_a_task_that_awaits_the_handle_cancels_the_stream() -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = source.map_async(2, forever).to(Sink.collect()).run()

        async def wait() -> None:
            await running

        task = asyncio.create_task(wait())
        await source.probe.expect_request(2)
        source.probe.send_next(1, 2)
        await settle()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert source.probe.cancelled
        assert running.done()
        assert not other_tasks()

    run_in_virtual_time(main())


def test_a_timeout_around_the_handle_cancels_the_stream() -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await Source.tick(1).map_async(1, forever).to(Sink.ignore()).run()
        assert asyncio.get_running_loop().time() == 5
        assert not other_tasks()

    run_in_virtual_time(main())


@pytest.mark.parametrize("end", ["complete", "fail", "cancel"])
def test_no_task_or_timer_is_left_whatever_way_a_run_ends(end: str) -> None:
    async def endless() -> Any:
        while True:
            await elapse(1)
            yield 1

    async def main() -> None:
        source = TestSource[int]()
        busy = (
            source.merge(Source.tick(1.0), Source.from_async_iterable(endless))
            .grouped_within(1000, 1e6)
            .map_async_unordered(3, forever)
        )
        sink = TestSink[Any]()
        running = busy.to(sink).run()
        sink.request(5)
        await settle(3)
        if end == "fail":
            source.probe.send_error(OSError("broken"))
            with pytest.raises(OSError, match="broken"):
                await running
        elif end == "cancel":
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        else:
            sink.cancel()
            await running
        assert source.probe.cancelled or end == "fail"
        assert not other_tasks()
        pending = [handle for handle in asyncio.get_running_loop()._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
        assert pending == []

    run_in_virtual_time(main())


def test_a_failure_that_nobody_awaits_is_reported_to_the_loop() -> None:
    async def main() -> None:
        found = reports()
        Source.failed(OSError("unseen")).to(Sink.ignore()).run()
        await settle()
        gc.collect()
        assert [str(context["exception"]) for context in found] == ["unseen"]

    run_in_virtual_time(main())


def test_a_failure_that_somebody_awaits_is_not_reported() -> None:
    async def main() -> None:
        found = reports()
        with pytest.raises(OSError, match="seen"):
            await Source.failed(OSError("seen")).to(Sink.ignore()).run()
        gc.collect()
        await settle()
        assert found == []

    run_in_virtual_time(main())


def test_a_running_stream_is_not_garbage_collected() -> None:
    async def main() -> None:
        seen: list[int] = []
        ended = asyncio.Event()
        Source.tick(1.0).take(3).watch_termination(lambda _error: ended.set()).to(Sink.foreach(seen.append)).run()
        gc.collect()
        async with asyncio.timeout(10):
            await ended.wait()
        assert seen == [0, 1, 2]

    run_in_virtual_time(main())


def test_streams_end_with_the_loop_they_run_on() -> None:
    ends: list[BaseException | None] = []

    async def main() -> None:
        Source.tick(1.0).watch_termination(ends.append).to(Sink.ignore()).run()
        await settle()

    run_in_virtual_time(main())
    assert [type(end) for end in ends] == [asyncio.CancelledError]


def test_the_handle_carries_what_the_first_part_that_has_a_value_materialized() -> None:
    async def main() -> None:
        running = Source.queue(1).map(str).to(Sink.collect()).run()
        assert running.value.offer(1)
        running.value.complete()
        assert await running == ["1"]
        other = Source.of(1).to(Sink.collect()).run()
        assert await other.value == await other == [1]

    run_in_virtual_time(main())


def test_a_spawned_task_that_fails_fails_the_run() -> None:
    async def crash() -> None:
        raise OSError("spawned")

    def attach(publisher: Publisher[int], m: Materialization) -> Publisher[int]:
        m.spawn(crash(), "crash")
        return publisher

    async def main() -> None:
        source = TestSource[int]()
        with pytest.raises(OSError, match="spawned"):
            await source.via(Flow(attach)).to(Sink.ignore()).run()
        assert source.probe.cancelled
        assert not other_tasks()

    run_in_virtual_time(main())


def test_the_handle_waits_for_the_tasks_and_then_for_the_last_work() -> None:
    steps: list[str] = []

    async def background() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await elapse(2)
            steps.append("task")

    async def last_work() -> None:
        await elapse(3)
        steps.append("last work")

    def attach(publisher: Publisher[int], m: Materialization) -> Publisher[int]:
        m.on_end(last_work)
        m.on_end(lambda: steps.append("plain"))
        m.spawn(background(), "background")
        return publisher

    async def main() -> None:
        await Source.tick(1).take(1).via(Flow(attach)).to(Sink.ignore()).run()
        assert steps == ["task", "plain", "last work"]
        assert asyncio.get_running_loop().time() == 5
        assert not other_tasks()

    run_in_virtual_time(main())


def test_a_task_that_does_not_stop_is_reported_and_left_behind_at_the_deadline() -> None:
    released = asyncio.Event()

    async def stubborn() -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    def attach(publisher: Publisher[int], m: Materialization) -> Publisher[int]:
        m.spawn(stubborn(), "the stubborn one")
        return publisher

    async def main() -> None:
        found = reports()
        await Source.tick(1).take(1).via(Flow(attach)).to(Sink.ignore()).run()
        assert asyncio.get_running_loop().time() == 10
        assert "the stubborn one" in str(found[0]["exception"])
        released.set()
        await settle()

    run_in_virtual_time(main())


def test_last_work_that_fails_is_reported_and_the_result_stands() -> None:
    async def last_work() -> None:
        raise OSError("too late")

    def attach(publisher: Publisher[int], m: Materialization) -> Publisher[int]:
        m.on_end(last_work)
        return publisher

    async def main() -> None:
        found = reports()
        assert await Source.of(1).via(Flow(attach)).to(Sink.collect()).run() == [1]
        assert [str(context["exception"]) for context in found] == ["too late"]

    run_in_virtual_time(main())


def test_a_graph_that_cannot_be_put_together_leaves_nothing_behind() -> None:
    ended: list[str] = []

    def attach(publisher: Publisher[int], m: Materialization) -> Publisher[int]:
        m.spawn(asyncio.Event().wait(), "waits for ever")
        m.on_end(lambda: ended.append("end"))
        raise OSError("no such device")

    async def main() -> None:
        with pytest.raises(OSError, match="no such device"):
            Source.of(1).via(Flow(attach)).to(Sink.ignore()).run()
        await settle()
        assert ended == ["end"]
        assert not other_tasks()

    run_in_virtual_time(main())


def test_nothing_can_be_started_in_a_run_that_has_ended() -> None:
    runs: list[Materialization] = []

    def attach(publisher: Publisher[int], m: Materialization) -> Publisher[int]:
        runs.append(m)
        return publisher

    async def main() -> None:
        await Source.of(1).via(Flow(attach)).to(Sink.ignore()).run()
        with pytest.raises(StreamClosedError):
            runs[0].spawn(elapse(1), "late")
        runs[0].fail(OSError("late"))

    run_in_virtual_time(main())


def test_a_function_that_raises_stop_iteration_fails_the_stream_and_does_not_end_it() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="StopIteration"):
            await Source.of(1).map(lambda _: next(iter(()))).to(Sink.collect()).run()

    run_in_virtual_time(main())


def test_cancel_hooks_that_fail_do_not_keep_others_from_running() -> None:
    stopped: list[str] = []

    def attach(publisher: Publisher[int], m: Materialization) -> Publisher[int]:
        m.on_cancel(lambda: 1 / 0)  # type: ignore[arg-type,return-value]  # raises before it returns
        m.on_cancel(lambda: stopped.append("second"))
        return publisher

    async def main() -> None:
        found = reports()
        running = Source.tick(1).via(Flow(attach)).to(Sink.ignore()).run()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert stopped == ["second"]
        assert isinstance(found[0]["exception"], ZeroDivisionError)

    run_in_virtual_time(main())
