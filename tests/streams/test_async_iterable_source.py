"""Sources of asynchronous iterables: pulled one at a time, closed at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from streams import Sink, Source
from streams.testkit import TestSink, elapse, run_in_virtual_time, settle


class Numbers:
    """Counts, with a record of what is done to it."""

    def __init__(self, seconds: float = 0.0, fail_at: int = -1, end_at: int = -1) -> None:
        self.pulled = 0
        self.closed = 0
        self._seconds = seconds
        self._fail_at = fail_at
        self._end_at = end_at

    async def __call__(self) -> AsyncIterator[int]:
        try:
            while self.pulled != self._end_at:
                self.pulled += 1
                if self._seconds:
                    await elapse(self._seconds)
                if self.pulled == self._fail_at:
                    raise OSError("broken")
                yield self.pulled
        finally:
            await asyncio.sleep(0)
            self.closed += 1


def test_elements_are_pulled_one_at_a_time_and_only_when_they_are_wanted() -> None:
    numbers = Numbers()

    async def main() -> None:
        sink = TestSink[int]()
        running = Source.from_async_iterable(numbers).to(sink).run()
        await sink.expect_no_message()
        assert numbers.pulled == 0
        sink.request(2)
        await sink.expect_next(1, 2)
        await settle()
        assert numbers.pulled == 2
        sink.cancel()
        await running
        assert numbers.closed == 1

    run_in_virtual_time(main())


@pytest.mark.parametrize("end", ["complete", "take", "fail", "cancel while waiting", "cancel while idle"])
def test_the_iterable_is_closed_whatever_way_the_stream_ends(end: str) -> None:
    numbers = Numbers(seconds=1, fail_at=3 if end == "fail" else -1, end_at=3 if end == "complete" else -1)
    source = Source.from_async_iterable(numbers)

    async def main() -> None:
        if end == "complete":
            assert await source.to(Sink.collect()).run() == [1, 2, 3]
        elif end == "take":
            assert await source.take(2).to(Sink.collect()).run() == [1, 2]
        elif end == "fail":
            with pytest.raises(OSError, match="broken"):
                await source.to(Sink.collect()).run()
        else:
            sink = TestSink[int]()
            running = source.to(sink).run()
            sink.request(1)
            await elapse(0.5 if end == "cancel while waiting" else 2)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        assert numbers.closed == 1

    run_in_virtual_time(main())


def test_an_iterable_that_never_suspends_leaves_the_loop_its_turns() -> None:
    async def main() -> None:
        running = Source.from_async_iterable(Numbers()).to(Sink.ignore()).run()
        for _ in range(5):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run_in_virtual_time(main())


def test_an_asynchronous_iterable_without_a_factory_will_do() -> None:
    async def main() -> None:
        assert await Source.from_async_iterable(Numbers(end_at=2)()).to(Sink.collect()).run() == [1, 2]

    run_in_virtual_time(main())


def test_a_none_fails_the_stream_rule_2_13() -> None:
    async def nothing() -> AsyncIterator[Any]:
        yield None

    async def main() -> None:
        with pytest.raises(TypeError, match=r"2\.13"):
            await Source.from_async_iterable(nothing).to(Sink.collect()).run()

    run_in_virtual_time(main())


def test_an_iterable_that_is_cancelled_from_within_fails_the_stream() -> None:
    async def cancelled() -> AsyncIterator[int]:
        yield 1
        raise asyncio.CancelledError

    async def main() -> None:
        sink = TestSink[int]()
        running = Source.from_async_iterable(cancelled).to(sink).run()
        sink.request(2)
        await sink.expect_next(1)
        await sink.expect_error(asyncio.CancelledError)
        with pytest.raises(asyncio.CancelledError):
            await running

    run_in_virtual_time(main())


def test_an_iterable_that_fails_while_it_is_closed_is_reported(loop_reports: list[str]) -> None:
    async def careless() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            raise KeyError("in finally")

    async def main() -> None:
        assert await Source.from_async_iterable(careless).take(1).to(Sink.collect()).run() == [1]

    run_in_virtual_time(main())
    assert "in finally" in loop_reports[0]
