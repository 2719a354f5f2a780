"""Flows and sinks that begin again when they fail."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams import Flow, RestartFlow, RestartSettings, RestartSink, Sink, Source
from streams.stages.feed import FEED_WINDOW
from streams.testkit import TestSink, TestSource, run_in_virtual_time, settle
from tests.streams.restarting import EXACT, ONCE, Made, failing, now

# Flows


def test_a_flow_begins_again_when_it_fails_and_loses_what_was_inside() -> None:
    def burst(n: int) -> int:
        if n == 3:
            raise OSError("broken")
        return n

    made = Made(lambda _n: Flow[int, int].identity().grouped(2).map_concat(lambda pair: pair).map(burst))

    async def main() -> None:
        flow: Flow[int, int] = RestartFlow.with_backoff(EXACT, made)
        assert await Source.from_iterable(range(8)).via(flow).run_with(Sink.collect()) == [0, 1, 2, 4, 5, 6, 7]
        assert made.times == [0, 1]

    run_in_virtual_time(main())


def test_what_comes_in_a_pause_is_kept_for_the_next_flow_and_no_more_than_the_window_of_it() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int](timeout=10)
        made = Made(lambda n: Flow[int, int].identity().map(lambda x: x // (x if n == 1 else 1)))
        source.via(RestartFlow.with_backoff(EXACT, made)).to(sink).run()
        sink.request(1000)
        await source.probe.expect_request(FEED_WINDOW)
        source.probe.send_next(0)
        source.probe.send_next(*range(2, FEED_WINDOW + 1))
        await source.probe.expect_no_request(0.5)
        await sink.expect_next(*range(2, FEED_WINDOW + 1))
        assert now() == 1
        await source.probe.expect_request(FEED_WINDOW)
        sink.cancel()
        await source.probe.expect_cancellation()

    run_in_virtual_time(main())


def test_a_flow_asks_for_no_more_than_the_one_inside_it() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.via(RestartFlow.with_backoff(EXACT, lambda: Flow[int, int].identity().map(abs))).to(sink).run()
        await source.probe.expect_no_request()
        sink.request(1)
        await source.probe.expect_request(1)
        source.probe.send_next(-1)
        await sink.expect_next(1)
        await source.probe.expect_no_request()
        sink.cancel()

    run_in_virtual_time(main())


def test_a_flow_ends_when_upstream_has_and_what_is_inside_is_out() -> None:
    async def main() -> None:
        flow: Flow[int, Any] = RestartFlow.with_backoff(EXACT, lambda: Flow[int, int].identity().grouped(2))
        assert await Source.of(1, 2, 3).via(flow).run_with(Sink.collect()) == [[1, 2], [3]]
        assert now() == 0

    run_in_virtual_time(main())


def test_a_failure_of_upstream_goes_through_the_flow_and_ends_the_stream() -> None:
    async def main() -> None:
        seen: list[str] = []
        with pytest.raises(OSError, match="broken"):
            await failing().via(RestartFlow.with_backoff(EXACT, Flow.identity)).run_with(Sink.ignore())
        recovering: Flow[Any, Any] = RestartFlow.with_backoff(EXACT, lambda: Flow.identity().recover(str))
        await failing().via(recovering).run_with(Sink.foreach(seen.append))
        assert seen == ["broken"]
        assert now() == 0

    run_in_virtual_time(main())


@pytest.mark.parametrize("end", ["completes", "fails"])
def test_upstream_that_ends_in_a_pause_with_nothing_held_ends_the_stream(end: str) -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        flow: Flow[int, int] = RestartFlow.with_backoff(EXACT, lambda: Flow[int, int].identity().map(lambda x: 1 // x))
        running = source.via(flow).to(sink).run()
        sink.request(1)
        await source.probe.expect_request(1)
        source.probe.send_next(0)
        await settle(0.5)
        if end == "completes":
            source.probe.send_complete()
            await sink.expect_complete()
            await running
        else:
            source.probe.send_error(OSError("upstream"))
            await sink.expect_error(OSError)
            with pytest.raises(OSError, match="upstream"):
                await running
        assert now() == 0.5

    run_in_virtual_time(main())


def test_a_flow_that_completes_early_begins_again_or_on_failures_only_is_the_end() -> None:
    async def main() -> None:
        numbers = Source.from_iterable(range(6))
        again: Flow[int, int] = RestartFlow.with_backoff(EXACT, lambda: Flow[int, int].identity().take(2))
        assert await numbers.via(again).run_with(Sink.collect()) == [0, 1, 2, 3, 4, 5]
        assert now() > 0
        source = TestSource[int]()
        once: Flow[int, int] = RestartFlow.on_failures_with_backoff(EXACT, lambda: Flow[int, int].identity().take(2))
        running = source.via(once).run_with(Sink.collect())
        await source.probe.expect_request(2)
        source.probe.send_next(1, 2)
        assert await running == [1, 2]
        assert source.probe.cancelled

    run_in_virtual_time(main())


@settings(deadline=None)
@given(st.lists(st.integers(0, 9)), st.integers(1, 20), st.booleans())
def test_elements_that_do_not_fail_come_out_once_and_in_order_whatever_fails_between_them(
    elements: list[int], demand: int, keep_asking: bool
) -> None:
    def burst(n: int) -> int:
        if n == 0:
            raise OSError("zero")
        return n

    async def main() -> None:
        flow: Flow[int, int] = RestartFlow.with_backoff(EXACT, lambda: Flow[int, int].identity().map(burst))
        graph = Source.from_iterable(elements).via(flow)
        expected = [n for n in elements if n]
        if keep_asking:
            assert await graph.run_with(Sink.collect()) == expected
            return
        sink = TestSink[int](timeout=1e4)
        graph.to(sink).run()
        sink.request(demand)
        assert await sink.expect_n(min(demand, len(expected))) == expected[:demand]
        sink.cancel()

    run_in_virtual_time(main())


# Sinks


def test_a_sink_begins_again_when_it_fails_and_the_result_is_that_of_the_last() -> None:
    seen: list[int] = []

    def store(n: int) -> None:
        if n == 3:
            raise OSError("broken")
        seen.append(n)

    made = Made(lambda _n: Sink.foreach(store))

    async def main() -> None:
        assert await Source.from_iterable(range(6)).run_with(RestartSink.with_backoff(EXACT, made)) == 2
        assert seen == [0, 1, 2, 4, 5]
        assert made.times == [0, 1]

    run_in_virtual_time(main())


def test_a_sink_that_has_enough_is_followed_by_another_or_on_failures_only_is_the_end() -> None:
    made = Made(lambda _n: Sink.head())

    async def main() -> None:
        settings_ = RestartSettings(1, 8, 0, max_restarts=2)
        assert await Source.from_iterable(range(9)).run_with(RestartSink.with_backoff(settings_, made)) == 2
        assert made.times == [0, 1, 3]
        source = TestSource[int]()
        running = source.run_with(RestartSink.on_failures_with_backoff(EXACT, made))
        await source.probe.expect_request(1)
        source.probe.send_next(7)
        assert await running == 7
        assert source.probe.cancelled

    run_in_virtual_time(main())


@pytest.mark.parametrize("end", ["completes", "fails"])
def test_upstream_that_ends_in_a_pause_ends_a_sink_with_one_more_or_at_once(end: str) -> None:
    made = Made(lambda n: Sink.fold(n, lambda total, element: 1 // element))

    async def main() -> None:
        source = TestSource[int]()
        running = source.run_with(RestartSink.with_backoff(EXACT, made))
        await source.probe.expect_request(FEED_WINDOW)
        source.probe.send_next(0)
        await settle(0.5)
        if end == "completes":
            source.probe.send_complete()
            assert await running == 2
            assert now() == 1
        else:
            source.probe.send_error(OSError("upstream"))
            with pytest.raises(OSError, match="upstream"):
                await running
            assert now() == 0.5

    run_in_virtual_time(main())


def test_a_sink_that_cannot_be_made_is_tried_again_until_no_restart_is_left() -> None:
    def refuse(n: int) -> Sink[int, int]:
        raise ConnectionRefusedError(n)

    async def main() -> None:
        source = TestSource[int]()
        with pytest.raises(ConnectionRefusedError, match="2"):
            await source.run_with(RestartSink.with_backoff(ONCE, Made(refuse)))
        assert source.probe.cancelled
        assert now() == 1

    run_in_virtual_time(main())


def test_cancelling_the_run_cancels_the_sink_of_now_or_the_pause() -> None:
    async def stay(_element: int) -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        for sink in (Sink.foreach_async(1, stay), Sink.foreach(lambda _: 1 / 0)):
            source = TestSource[int]()
            running = source.run_with(RestartSink.with_backoff(EXACT, lambda sink=sink: sink))
            await source.probe.expect_request()
            source.probe.send_next(1)
            await settle()
            running.cancel()
            assert source.probe.cancelled
            with pytest.raises(asyncio.CancelledError):
                await running
            assert asyncio.all_tasks() == {asyncio.current_task()}
        await settle(100)

    run_in_virtual_time(main())
