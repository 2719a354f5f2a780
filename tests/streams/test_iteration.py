"""async for over a source, under back-pressure."""

from __future__ import annotations

import asyncio
import contextlib
import gc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams import Sink, Source
from streams.subscribers.iterate import ITERATION_PREFETCH
from streams.testkit import TestSource, run_in_virtual_time, settle


@settings(deadline=None)
@given(st.integers(0, 60), st.integers(1, 20))
def test_async_for_sees_every_element_in_order(count: int, prefetch: int) -> None:
    async def main() -> None:
        assert [n async for n in Source.from_iterable(range(count)).iterate(prefetch)] == list(range(count))

    run_in_virtual_time(main())


def test_no_more_than_the_prefetch_is_asked_for_ahead_of_the_body() -> None:
    async def main() -> None:
        source = TestSource[int]()
        loop = aiter(source)
        first = asyncio.create_task(anext(loop))
        await source.probe.expect_request(ITERATION_PREFETCH)
        source.probe.send_next(*range(ITERATION_PREFETCH))
        assert await first == 0
        await source.probe.expect_no_request(100)
        for n in range(1, ITERATION_PREFETCH // 2):
            assert await anext(loop) == n
        await source.probe.expect_request(ITERATION_PREFETCH // 2)
        await loop.aclose()

    run_in_virtual_time(main())


def test_leaving_the_loop_cancels_upstream() -> None:
    async def main() -> None:
        stopped = asyncio.Event()
        async for n in Source.repeat(1).scan(0, int.__add__).watch_termination(lambda _: stopped.set()):
            if n == 3:
                break
        gc.collect()
        async with asyncio.timeout(1):
            assert await stopped.wait()

    run_in_virtual_time(main())


def test_aclosing_cancels_upstream_before_the_block_is_left() -> None:
    async def main() -> None:
        source = TestSource[int]()
        async with contextlib.aclosing(source.iterate()) as elements:
            first = asyncio.create_task(anext(elements))
            await source.probe.expect_request()
            source.probe.send_next(1)
            assert await first == 1
            assert not source.probe.cancelled
        assert source.probe.cancelled
        await settle()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_in_virtual_time(main())


def test_a_failure_is_raised_after_the_elements_before_it() -> None:
    async def main() -> None:
        elements = Source.of(2, 1, 0).map(lambda n: 2 // n).iterate()
        assert [await anext(elements), await anext(elements)] == [1, 2]
        with pytest.raises(ZeroDivisionError):
            await anext(elements)

    run_in_virtual_time(main())


def test_a_failure_after_the_loop_was_left_is_not_reported_as_lost(loop_reports: list[str]) -> None:
    async def main() -> None:
        source = Source.of(2, 1, 0).map(lambda n: 2 // n)
        async with contextlib.aclosing(source.iterate()) as elements:
            assert await anext(elements) == 1
            await settle()
        gc.collect()

    run_in_virtual_time(main())
    assert loop_reports == []


def test_cancelling_the_task_in_the_loop_cancels_upstream() -> None:
    async def main() -> None:
        source = TestSource[int]()

        async def body() -> None:
            async for _ in source:
                pass

        task = asyncio.create_task(body())
        await source.probe.expect_request()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await source.probe.expect_cancellation()

    run_in_virtual_time(main())


def test_a_prefetch_below_one_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="prefetch"):
        Source.of(1).iterate(0)


def test_run_with_is_to_and_run() -> None:
    async def main() -> None:
        assert await Source.of(1, 2).run_with(Sink.collect()) == [1, 2]

    run_in_virtual_time(main())
