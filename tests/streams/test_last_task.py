"""A run that the program has cancelled says its last word, though its event loop shuts down meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from streams import Materialization, Publisher, Sink, Source
from streams import materialize as materialize_module
from streams.last_task import LastTask
from streams.publishers.never import NeverPublisher

ENOUGH = 20
"""Turns of the loop that the last work takes."""


def with_last_work(said: list[bool], work: Callable[[], Any]) -> Source[Any]:
    """A source that has something to say at the end of its run, and notes whether the program has cancelled that."""

    def start(m: Materialization) -> tuple[Publisher[Any], None]:
        async def finish() -> None:
            await work()
            said.append(m.cancelled)

        m.on_end(finish, "the last work")
        return NeverPublisher(m), None

    return Source(start)


async def some_turns() -> None:
    for _ in range(ENOUGH):
        await asyncio.sleep(0)


async def cancel_when_running(task: asyncio.Task[Any] | None) -> None:
    for _ in range(3):
        await asyncio.sleep(0)
    assert task is not None
    task.cancel()


async def by_gather(source: Source[Any]) -> None:
    canceller = asyncio.create_task(cancel_when_running(asyncio.current_task()))
    await asyncio.gather(source.to(Sink.ignore()).run(), asyncio.Event().wait())
    await canceller


async def by_gather_of_coroutines(source: Source[Any]) -> None:
    async def work() -> None:
        await source.to(Sink.ignore()).run()

    canceller = asyncio.create_task(cancel_when_running(asyncio.current_task()))
    await asyncio.gather(work(), asyncio.Event().wait())
    await canceller


async def by_cancel_and_leaving(source: Source[Any]) -> None:
    running = source.to(Sink.ignore()).run()
    await asyncio.sleep(0)
    running.cancel()
    raise asyncio.CancelledError


async def by_cancel_and_leaving_later(source: Source[Any]) -> None:
    running = source.to(Sink.ignore()).run()
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    raise asyncio.CancelledError


@pytest.mark.event_loop
@pytest.mark.parametrize(
    "way", [by_gather, by_gather_of_coroutines, by_cancel_and_leaving, by_cancel_and_leaving_later]
)
def test_a_cancelled_run_does_its_last_work_whole_while_the_loop_shuts_down(way: Any) -> None:
    said: list[bool] = []
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(way(with_last_work(said, some_turns)))
    assert said == [True], "the last work was done, and knows that the program has cancelled the run"


@pytest.mark.event_loop
def test_last_work_that_hangs_does_not_keep_a_loop_from_shutting_down(
    monkeypatch: pytest.MonkeyPatch, loop_reports: list[str]
) -> None:
    monkeypatch.setattr(materialize_module, "STOP_TIMEOUT", 0.01)
    said: list[bool] = []
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(by_gather(with_last_work(said, asyncio.Event().wait)))
    assert said == []
    assert "on_end callbacks of a stream have not ended" in loop_reports[0]


@pytest.mark.event_loop
def test_a_last_task_is_cancelled_when_its_time_is_over_and_not_when_the_loop_shuts_down() -> None:
    loop = asyncio.new_event_loop()
    try:
        task = LastTask(asyncio.Event().wait(), loop=loop)
        assert task.cancel()
        loop.run_until_complete(some_turns())
        assert not task.done()
        task.release()
        loop.run_until_complete(some_turns())
        assert task.cancelled()
        assert not task.cancel()
    finally:
        loop.close()


@pytest.mark.event_loop
@pytest.mark.parametrize("interrupted", [True, False], ids=["while the loop shuts down", "while it goes on"])
def test_a_timeout_in_the_last_work_holds(interrupted: bool) -> None:
    late: list[bool] = []

    async def work() -> None:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            late.append(True)

    async def main() -> None:
        running = with_last_work([], work).to(Sink.ignore()).run()
        await asyncio.sleep(0)
        running.cancel()
        if not interrupted:
            with suppress(asyncio.CancelledError):
                await running

    asyncio.run(main())
    assert late == [True]
