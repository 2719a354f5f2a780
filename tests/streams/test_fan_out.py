"""broadcast, balance and partition: who gets what, and what holds up whom."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams import UNBOUNDED, RunnableGraph, Sink, Source
from streams.stages.fan_out import BALANCE_PREFETCH
from streams.testkit import TestSink, TestSource, TestSubscriber, run_in_virtual_time, settle
from tests.examples_tried import tried

FanOut = Callable[..., RunnableGraph[list[Any]]]


def fan_out(kind: str, source: Any, *sinks: Any) -> RunnableGraph[list[Any]]:
    if kind == "partition":
        graph: RunnableGraph[list[Any]] = source.partition(lambda n: n % len(sinks), *sinks)
    else:
        graph = getattr(source, kind)(*sinks)
    return graph


every_kind = pytest.mark.parametrize("kind", ["broadcast", "balance", "partition"])


def test_results_are_those_of_the_sinks_in_their_order() -> None:
    source = Source.of(1, 2, 3, 4)
    assert source.broadcast(Sink.collect(), Sink.fold(0, int.__add__)).run_blocking() == [[1, 2, 3, 4], 10]
    assert source.balance(Sink.collect(), Sink.collect()).run_blocking() == [[1, 3], [2, 4]]
    halves = source.partition(lambda n: n > 2, Sink.collect(), Sink.collect())
    assert halves.run_blocking() == [[1, 2], [3, 4]]


def test_a_broadcast_element_moves_only_when_every_sink_has_asked() -> None:
    async def main() -> None:
        source, a, b = TestSource[int](), TestSink[int](), TestSink[int]()
        source.broadcast(a, b).run()
        a.request(5)
        await source.probe.expect_no_request()
        b.request(2)
        await source.probe.expect_request(2)
        source.probe.send_next(1, 2)
        await a.expect_next(1, 2)
        await b.expect_next(1, 2)
        b.request(9)
        await source.probe.expect_request(3)
        source.probe.send_complete()
        await a.expect_complete()
        await b.expect_complete()

    run_in_virtual_time(main())


def test_a_broadcast_sink_that_cancels_no_longer_holds_up_the_others() -> None:
    async def main() -> None:
        source, a, b = TestSource[int](), TestSink[int](), TestSink[int]()
        running = source.broadcast(a, b).run()
        a.request(3)
        await source.probe.expect_no_request()
        b.cancel()
        await source.probe.expect_request(3)
        source.probe.send_next(1)
        await a.expect_next(1)
        await b.expect_no_message()
        assert not source.probe.cancelled
        a.cancel()
        await source.probe.expect_cancellation()
        await running

    run_in_virtual_time(main())


def test_broadcast_to_sinks_without_bound_asks_once() -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = source.broadcast(Sink.ignore(), Sink.collect()).run()
        await source.probe.expect_request(UNBOUNDED)
        source.probe.send_next(*range(100))
        await source.probe.expect_no_request()
        source.probe.send_complete()
        assert await running == [None, list(range(100))]

    run_in_virtual_time(main())


def test_a_sink_that_has_enough_leaves_the_others_to_finish() -> None:
    assert Source.of(1, 2, 3).broadcast(Sink.head(), Sink.collect()).run_blocking() == [1, [1, 2, 3]]


@every_kind
def test_a_sink_that_fails_fails_the_run_and_stops_the_others(kind: str) -> None:
    async def main() -> None:
        source, other = TestSource[int](), TestSink[int]()
        running = fan_out(kind, source, Sink.foreach(lambda n: 1 // n), other).run()
        await settle()
        other.request(4)
        await settle()
        source.probe.send_next(0)
        with pytest.raises(ZeroDivisionError):
            await running
        assert source.probe.cancelled

    run_in_virtual_time(main())


@every_kind
def test_cancelling_the_run_cancels_upstream_once_for_all_sinks(kind: str) -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = fan_out(kind, source, Sink.ignore(), Sink.ignore()).run()
        await source.probe.expect_request()
        running.cancel()
        assert source.probe.cancelled
        with pytest.raises(asyncio.CancelledError):
            await running

    run_in_virtual_time(main())


@every_kind
def test_a_failure_upstream_reaches_every_sink(kind: str) -> None:
    async def main() -> None:
        source, a, b = TestSource[int](), TestSink[int](), TestSink[int]()
        running = fan_out(kind, source, a, b).run()
        source.probe.send_error(OSError("broken"))
        await a.expect_error(OSError)
        await b.expect_error(OSError)
        with pytest.raises(OSError, match="broken"):
            await running

    run_in_virtual_time(main())


@every_kind
def test_a_request_for_less_than_one_fails_the_run_rule_3_9(kind: str) -> None:
    async def main() -> None:
        source, a, b = TestSource[int](), TestSink[int](), TestSink[int]()
        running = fan_out(kind, source, a, b).run()
        a.request(0)
        await a.expect_error(ValueError)
        assert source.probe.cancelled
        with pytest.raises(ValueError, match=r"3\.9"):
            await running

    run_in_virtual_time(main())


def test_balance_gives_each_element_to_a_sink_that_asks_and_skips_one_that_does_not() -> None:
    async def main() -> None:
        source, a, b = TestSource[int](), TestSink[int](), TestSink[int]()
        source.balance(a, b).run()
        a.request(3)
        await source.probe.expect_request(3)
        source.probe.send_next(1)
        await a.expect_next(1)
        b.request(1)
        source.probe.send_next(2, 3)
        await b.expect_next(2)
        await a.expect_next(3)
        a.cancel()
        b.cancel()
        await source.probe.expect_cancellation()

    run_in_virtual_time(main())


def test_elements_asked_for_by_a_balance_sink_that_cancels_go_to_another_and_are_bounded() -> None:
    async def main() -> None:
        source, a, b = TestSource[int](), TestSink[int](), TestSink[int]()
        running = source.balance(a, b).run()
        a.request(10_000)
        await source.probe.expect_request(BALANCE_PREFETCH)
        a.cancel()
        source.probe.send_next(*range(BALANCE_PREFETCH))
        await source.probe.expect_no_request()
        source.probe.send_complete()
        await b.expect_no_message()
        b.request(BALANCE_PREFETCH)
        assert await b.expect_n(BALANCE_PREFETCH) == list(range(BALANCE_PREFETCH))
        await b.expect_complete()
        await running

    run_in_virtual_time(main())


def test_an_element_for_a_sink_that_has_not_asked_waits_and_holds_up_the_rest() -> None:
    async def main() -> None:
        source, even, odd = TestSource[int](), TestSink[int](), TestSink[int]()
        source.partition(lambda n: n % 2, even, odd).run()
        even.request(9)
        await source.probe.expect_request(1)
        source.probe.send_next(2)
        await even.expect_next(2)
        await source.probe.expect_request(1)
        source.probe.send_next(3)
        await source.probe.expect_no_request()
        source.probe.send_complete()
        await even.expect_no_message()
        odd.request(1)
        await odd.expect_next(3)
        await even.expect_complete()
        await odd.expect_complete()

    run_in_virtual_time(main())


def test_elements_for_a_partition_sink_that_has_cancelled_are_dropped() -> None:
    source = Source.from_iterable(range(6))
    assert source.partition(lambda n: n % 2, Sink.head(), Sink.collect()).run_blocking() == [0, [1, 3, 5]]


@pytest.mark.parametrize("index", [2, -1])
def test_an_index_that_names_no_sink_fails_the_run(index: int) -> None:
    with pytest.raises(IndexError, match="one of 2 sinks"):
        Source.of(1).partition(lambda _: index, Sink.ignore(), Sink.ignore()).run_blocking()


def test_a_fan_out_needs_a_sink() -> None:
    with pytest.raises(ValueError, match="at least one sink"):
        Source.of(1).broadcast()


@every_kind
@settings(deadline=None, max_examples=tried(50))
@given(
    count=st.integers(0, 150),
    script=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 40)), max_size=20),
    leaver=st.one_of(st.none(), st.tuples(st.integers(0, 2), st.integers(0, 20))),
)
def test_no_sink_gets_more_than_its_demand_and_nothing_is_lost(
    kind: str, count: int, script: list[tuple[int, int]], leaver: tuple[int, int] | None
) -> None:
    """The probes fail on elements not asked for. One sink may leave in the middle."""

    async def main() -> None:
        sinks = [TestSink[int]() for _ in range(3)]
        running = fan_out(kind, Source.from_iterable(range(count)), *sinks).run()
        left = None
        for step, (index, n) in enumerate(script):
            if leaver is not None and leaver[1] == step:
                left = leaver[0]
                sinks[left].cancel()
            if index != left:
                sinks[index].request(n)
            await settle()
        for index, sink in enumerate(sinks):
            if index != left:
                sink.request(count + 1)
        await running
        seen = [[signal.element for signal in sink._signals if hasattr(signal, "element")] for sink in sinks]
        assert all(sink.violations == [] for sink in sinks)
        for index, elements in enumerate(seen):
            assert elements == sorted(elements)
            if index != left and kind == "broadcast":
                assert elements == list(range(count))
            if index != left and kind == "partition":
                assert elements == list(range(index, count, 3))
        if kind == "balance":
            assert sorted(element for elements in seen for element in elements) == list(range(count))

    run_in_virtual_time(main())


@pytest.mark.parametrize("second_too", [False, True])
def test_the_failure_of_a_second_sink_is_reported(second_too: bool, loop_reports: list[str]) -> None:
    """The first is the stream's; a failure of upstream, which comes to both, is one."""

    async def main() -> None:
        def fail(n: int) -> None:
            raise KeyError("the first")

        if second_too:
            second: Sink[Any, Any] = Sink(_failing_when_cancelled, "failing")
            graph = Source.of(1).broadcast(Sink.foreach(fail), second)
            with pytest.raises(KeyError, match="the first"):
                await graph.run()
        else:
            with pytest.raises(KeyError, match="above"):
                await Source.failed(KeyError("above")).broadcast(Sink.ignore(), Sink.collect()).run()

    run_in_virtual_time(main())
    assert [("the second" in report) for report in loop_reports] == [True] * second_too


def _failing_when_cancelled(publisher: Any, m: Any) -> asyncio.Future[None]:
    """A sink that fails where it is to be stopped."""
    future: asyncio.Future[None] = m.loop.create_future()
    m.on_cancel(lambda: future.done() or future.set_exception(OSError("the second")))
    subscriber: TestSubscriber[Any] = TestSubscriber()
    publisher.subscribe(subscriber)
    subscriber.request(2)
    return future
