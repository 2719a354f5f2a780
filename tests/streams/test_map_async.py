"""map_async, ordered and unordered, and the sink of the same kind."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams import Sink, Source
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time, settle


def later(delays: dict[int, float]) -> Any:
    async def f(element: int) -> int:
        await elapse(delays[element])
        return element

    return f


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(0, 30))
def test_results_come_in_order_however_long_each_takes(seed: int, parallelism: int, count: int) -> None:
    chance = random.Random(seed)
    delays = {n: chance.choice([0, 0.5, 1, 3]) for n in range(count)}

    async def main() -> None:
        running = Source.from_iterable(range(count)).map_async(parallelism, later(delays)).to(Sink.collect()).run()
        assert await running == list(range(count))
        assert asyncio.get_running_loop().time() <= sum(delays.values()) + 1e-6

    run_in_virtual_time(main())


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(0, 30))
def test_no_more_than_parallelism_are_asked_for_or_worked_on(seed: int, parallelism: int, count: int) -> None:
    chance = random.Random(seed)
    working = most = 0

    async def f(element: int) -> int:
        nonlocal working, most
        working += 1
        most = max(most, working)
        await elapse(chance.random())
        working -= 1
        return element

    async def main() -> None:
        source = Source.from_iterable(range(count))
        assert sorted(await source.map_async_unordered(parallelism, f).to(Sink.collect()).run()) == list(range(count))
        assert most == min(parallelism, count)

    run_in_virtual_time(main())


def test_unordered_results_come_as_they_are_done() -> None:
    async def main() -> None:
        running = Source.of(3, 1, 2).map_async_unordered(3, later({1: 1, 2: 2, 3: 3})).to(Sink.collect()).run()
        assert await running == [1, 2, 3]
        assert asyncio.get_running_loop().time() == 3

    run_in_virtual_time(main())


@pytest.mark.parametrize("operator", ["map_async", "map_async_unordered"])
def test_results_that_nobody_asks_for_hold_up_upstream(operator: str) -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        getattr(source, operator)(2, later(dict.fromkeys(range(9), 1))).to(sink).run()
        await source.probe.expect_no_request()
        sink.request(1)
        await source.probe.expect_request(2)
        source.probe.send_next(0, 1)
        await sink.expect_next(0)
        await source.probe.expect_request(1)
        source.probe.send_next(2)
        await source.probe.expect_no_request(5)
        await sink.expect_no_message()
        await sink.request_next(1)
        await source.probe.expect_request(1)
        source.probe.send_complete()
        await sink.request_next(2)
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_a_failure_takes_its_elements_place_in_the_order() -> None:
    stopped: list[int] = []

    async def f(element: int) -> int:
        if element == 2:
            raise KeyError(element)
        try:
            await elapse(element)
        except asyncio.CancelledError:
            stopped.append(element)
            raise
        return element

    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int](timeout=10)
        running = source.map_async(4, f).to(sink).run()
        sink.request(9)
        source.probe.send_next(4, 1, 2, 9)
        await sink.expect_next(4, 1)
        error = await sink.expect_error(KeyError)
        assert "map_async(" in error.__notes__[0]
        assert source.probe.cancelled
        with pytest.raises(KeyError):
            await running
        assert stopped == [9]

    run_in_virtual_time(main())


def test_an_unordered_failure_ends_the_stream_as_soon_as_it_is_known() -> None:
    async def f(element: int) -> int:
        await elapse(element)
        if element == 1:
            raise KeyError(element)
        return element

    async def main() -> None:
        with pytest.raises(KeyError):
            await Source.of(9, 1).map_async_unordered(2, f).to(Sink.collect()).run()
        assert asyncio.get_running_loop().time() == 1

    run_in_virtual_time(main())


@pytest.mark.parametrize("operator", ["map_async", "map_async_unordered"])
@pytest.mark.parametrize("wrong", [lambda _: 1 / 0, lambda _: 5])
def test_a_function_that_gives_nothing_to_await_fails_the_stream(operator: str, wrong: Any) -> None:
    async def main() -> None:
        with pytest.raises((ZeroDivisionError, TypeError)):
            await getattr(Source.of(1, 2, 3), operator)(2, wrong).to(Sink.ignore()).run()
        await settle()

    run_in_virtual_time(main())


@pytest.mark.parametrize("operator", ["map_async", "map_async_unordered"])
def test_a_function_that_returns_none_fails_the_stream_and_says_so(operator: str) -> None:
    async def forgetful(_element: int) -> None:
        await asyncio.sleep(0)

    async def main() -> None:
        with pytest.raises(TypeError, match="returned None"):
            await getattr(Source.of(1), operator)(2, forgetful).to(Sink.ignore()).run()

    run_in_virtual_time(main())


@pytest.mark.parametrize("operator", ["map_async", "map_async_unordered"])
def test_any_awaitable_will_do_and_a_cancelled_one_is_a_failure(operator: str) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in range(3)]
        running = getattr(Source.of(0, 1, 2), operator)(3, lambda n: futures[n]).to(Sink.collect()).run()
        await settle()
        futures[0].set_result("a")
        futures[1].set_result("b")
        futures[2].cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run_in_virtual_time(main())


@pytest.mark.parametrize("operator", ["map_async", "map_async_unordered"])
def test_cancelling_the_stream_cancels_the_work_under_way(operator: str) -> None:
    stopped: list[int] = []

    async def f(element: int) -> int:
        try:
            return await asyncio.Event().wait()
        finally:
            stopped.append(element)

    async def main() -> None:
        running = getattr(Source.of(1, 2, 3), operator)(2, f).to(Sink.ignore()).run()
        await settle()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert sorted(stopped) == [1, 2]

    run_in_virtual_time(main())


def test_foreach_async_awaits_its_function_and_counts() -> None:
    seen: list[int] = []

    async def f(element: int) -> None:
        await elapse(1)
        seen.append(element)

    async def main() -> None:
        assert await Source.from_iterable(range(10)).to(Sink.foreach_async(5, f)).run() == 10
        assert sorted(seen) == list(range(10))
        assert asyncio.get_running_loop().time() == 2

    run_in_virtual_time(main())
    with pytest.raises(ValueError, match="parallelism"):
        Sink.foreach_async(0, f)
