"""Sinks beside a stream under demand: whose pace holds, and what is refused."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams import Flow, Keep, Materialization, Sink, Source, StreamClosedError
from streams.testkit import TestSink, TestSource, TestSubscriber, run_in_virtual_time, settle
from tests.streams.beside import beside, every_kind


@every_kind
def test_a_request_of_the_side_sink_for_less_than_one_fails_it_and_the_run_rule_3_9(kind: str) -> None:
    async def main() -> None:
        source, here, there = TestSource[int](), TestSink[int](), TestSink[int]()
        running = beside(kind, source, there).to(here).run()
        await there.expect_subscription()
        there.request(0)
        await there.expect_error(ValueError)
        await here.expect_error(ValueError)
        assert source.probe.cancelled
        with pytest.raises(ValueError, match=r"3\.9"):
            await running

    run_in_virtual_time(main())


@every_kind
def test_a_request_of_downstream_for_less_than_one_fails_both_rule_3_9(kind: str) -> None:
    async def main() -> None:
        source, here, there = TestSource[int](), TestSink[int](), TestSink[int]()
        running = beside(kind, source, there).to(here).run()
        await here.expect_subscription()
        here.request(-1)
        await here.expect_error(ValueError)
        await there.expect_error(ValueError)
        assert source.probe.cancelled
        with pytest.raises(ValueError, match=r"3\.9"):
            await running

    run_in_virtual_time(main())


@every_kind
def test_a_second_subscriber_is_refused_rule_1_9(kind: str) -> None:
    async def main() -> None:
        m = Materialization(asyncio.get_running_loop())
        flow: Flow[int, int] = beside(kind, Flow.identity(), Sink.ignore())
        publisher = flow.attach_flow(TestSource[int]().probe, m)
        first, second = TestSubscriber[int](), TestSubscriber[int]()
        publisher.subscribe(first)
        publisher.subscribe(second)
        await second.expect_error(StreamClosedError)
        await first.expect_no_message()
        first.cancel()
        await m._settle()

    run_in_virtual_time(main())


@every_kind
def test_a_subscriber_that_has_cancelled_is_not_kept_alive_rule_3_13(kind: str) -> None:
    async def main() -> None:
        m = Materialization(asyncio.get_running_loop())
        source = TestSource[int]()
        flow: Flow[int, int] = beside(kind, Flow.identity(), Sink.ignore())
        publisher = flow.attach_flow(source.probe, m)
        subscriber = TestSubscriber[int]()
        publisher.subscribe(subscriber)
        subscriber.request(3)
        source.probe.send_next(0)
        subscriber.cancel()
        kept = weakref.ref(subscriber)
        del subscriber
        source.probe._subscriber = None
        gc.collect()
        assert kept() is None, "held by what the run keeps of its side sink"
        await m._settle()

    run_in_virtual_time(main())


def test_also_to_moves_at_the_pace_of_the_slower() -> None:
    async def main() -> None:
        source, here, there = TestSource[int](), TestSink[int](), TestSink[int]()
        running = source.also_to(there).to(here).run()
        here.request(5)
        await source.probe.expect_no_request()
        there.request(2)
        await source.probe.expect_request(2)
        source.probe.send_next(1, 2)
        await here.expect_next(1, 2)
        await there.expect_next(1, 2)
        there.request(9)
        await source.probe.expect_request(3)
        source.probe.send_complete()
        await here.expect_complete()
        await there.expect_complete()
        await running

    run_in_virtual_time(main())


def test_with_also_to_both_get_the_element_at_which_either_has_enough() -> None:
    async def main() -> None:
        ours = Source.from_iterable(range(9)).also_to(Sink.collect(), Keep.right).take(2).to(Sink.collect()).run()
        assert await ours == [0, 1]
        assert await ours.value == [0, 1]
        theirs: Sink[int, list[int]] = Flow[int, int].identity().take(2).to(Sink.collect())
        other = Source.from_iterable(range(9)).also_to(theirs, Keep.right).to(Sink.collect()).run()
        assert await other == [0, 1]
        assert await other.value == [0, 1]

    run_in_virtual_time(main())


def test_an_element_to_be_diverted_waits_for_the_side_sink_and_holds_up_the_rest() -> None:
    async def main() -> None:
        source, here, there = TestSource[int](), TestSink[int](), TestSink[int]()
        running = source.divert_to(there, lambda n: n % 2).to(here).run()
        here.request(9)
        await source.probe.expect_request(1)
        source.probe.send_next(2)
        await here.expect_next(2)
        await source.probe.expect_request(1)
        source.probe.send_next(3)
        await source.probe.expect_no_request()
        await here.expect_no_message()
        source.probe.send_complete()
        await here.expect_no_message()
        there.request(1)
        await there.expect_next(3)
        await there.expect_complete()
        await here.expect_complete()
        await running

    run_in_virtual_time(main())


def test_divert_to_asks_without_bound_where_both_do() -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = source.divert_to(Sink.collect(), lambda n: n % 2, Keep.right).to(Sink.collect()).run()
        await source.probe.expect_request()
        source.probe.send_next(*range(100))
        source.probe.send_complete()
        assert await running == list(range(0, 100, 2))
        assert await running.value == list(range(1, 100, 2))

    run_in_virtual_time(main())


def test_a_predicate_of_divert_to_that_fails_fails_both() -> None:
    async def main() -> None:
        running = Source.of(0).divert_to(Sink.collect(), lambda n: 1 // n, Keep.right).to(Sink.collect()).run()
        with pytest.raises(ZeroDivisionError) as failure:
            await running
        assert any("divert_to" in note for note in failure.value.__notes__)
        assert isinstance(running.value.exception(), ZeroDivisionError)

    run_in_virtual_time(main())


def test_a_tap_never_holds_up_the_stream_and_the_youngest_element_waits_for_it() -> None:
    async def main() -> None:
        source, here, tap = TestSource[int](), TestSink[int](), TestSink[int]()
        running = source.wire_tap(tap).to(here).run()
        here.request(5)
        await source.probe.expect_request(5)
        tap.request(1)
        source.probe.send_next(1, 2, 3)
        await here.expect_next(1, 2, 3)
        await tap.expect_next(1)
        await tap.expect_no_message()
        tap.request(2)
        await tap.expect_next(3)
        source.probe.send_next(4, 5)
        await tap.expect_next(4)
        await here.expect_next(4, 5)
        source.probe.send_complete()
        await tap.expect_complete()
        await here.expect_complete()
        await running

    run_in_virtual_time(main())


def test_a_function_can_be_a_tap() -> None:
    seen: list[int] = []
    assert Source.of(1, 2).wire_tap(seen.append).to(Sink.collect()).run_blocking() == [1, 2]
    assert seen == [1, 2]


def test_a_function_that_taps_and_fails_fails_the_stream() -> None:
    with pytest.raises(ZeroDivisionError) as failure:
        Source.of(0).wire_tap(lambda n: 1 // n).to(Sink.collect()).run_blocking()
    assert any("wire_tap" in note for note in failure.value.__notes__)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Source.of(1).also_to(Flow.identity()),  # type: ignore[call-overload]
        lambda: Source.of(1).divert_to(3, bool),  # type: ignore[call-overload]
        lambda: Source.of(1).wire_tap(3),  # type: ignore[call-overload]
    ],
)
def test_what_is_no_sink_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(TypeError, match="takes a sink"):
        make()


@every_kind
def test_none_is_refused_rule_2_13(kind: str) -> None:
    async def main() -> None:
        source: TestSource[Any] = TestSource()
        running = beside(kind, source, Sink.ignore()).to(Sink.ignore()).run()
        await source.probe.expect_request()
        with pytest.raises(TypeError, match=r"2\.13"):
            source.probe.send_next(None)
        running.abandon()

    run_in_virtual_time(main())


@every_kind
@given(
    count=st.integers(0, 40),
    script=st.lists(st.tuples(st.booleans(), st.integers(1, 9)), max_size=20),
    leave=st.none() | st.integers(0, 19),
)
def test_nothing_is_lost_or_sent_unasked_whoever_asks_when(
    kind: str, count: int, script: list[tuple[bool, int]], leave: int | None
) -> None:
    """The probes fail on elements not asked for. Downstream may leave in the middle."""

    async def main() -> None:
        here, there = TestSink[int](), TestSink[int]()
        running = beside(kind, Source.from_iterable(range(count)), there).to(here).run()
        left = False
        for step, (ours, n) in enumerate(script):
            await settle()
            if step == leave and not left:
                left = True
                here.cancel()
            if not (ours and left):
                (here if ours else there).request(n)
        await settle()
        there.request(count + 1)
        if not left:
            here.request(count + 1)
        await running
        assert here.violations == there.violations == []
        mine = [signal.element for signal in here._signals if hasattr(signal, "element")]
        theirs = [signal.element for signal in there._signals if hasattr(signal, "element")]
        whole = list(range(count))
        ours_in_all = whole[::2] if kind == "divert_to" else whole
        theirs_in_all = whole[1::2] if kind == "divert_to" else whole
        assert mine == (ours_in_all[: len(mine)] if left else ours_in_all)
        if kind == "wire_tap":
            assert theirs == sorted(set(theirs) & set(whole))
        else:
            assert theirs == (theirs_in_all[: len(theirs)] if left else theirs_in_all)
        if kind == "also_to":
            assert len(theirs) == len(mine)

    run_in_virtual_time(main())
