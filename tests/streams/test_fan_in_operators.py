"""Every operator that joins sources, against lists and by hand: order, ends, failures, demand, and what is forgotten."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams import UNBOUNDED, Flow, Keep, Sink, Source, Subscriber, Subscription
from streams.stages.concat import ConcatInputs
from streams.stages.fan_in import FAN_IN_PREFETCH, FanIn
from streams.stages.merges import Interleave, Merge, MergePreferred, MergePrioritized, MergeSorted
from streams.stages.zips import MergeLatest, Zip, ZipAll, ZipLatest, ZipLatestWith, ZipWith
from streams.testkit import TestSink, TestSource, run_in_virtual_time, settle
from tests.streams.catalogue.case import FlowCase
from tests.streams.catalogue.fan_in import FLOWS

HUBS: list[Callable[[], FanIn[Any]]] = [
    lambda: Merge(2),
    lambda: MergePreferred(2),
    lambda: MergePrioritized((1, 2)),
    lambda: MergeSorted(2),
    lambda: MergeLatest(2, False),
    lambda: Interleave(2, 1),
    lambda: ConcatInputs(2),
    lambda: Zip(2),
    lambda: ZipWith(2, lambda a, b: a + b),
    lambda: ZipAll((0, 0)),
    lambda: ZipLatest(2, True),
    lambda: ZipLatestWith(2, lambda a, b: a + b, True),
]
each_hub = pytest.mark.parametrize("make", HUBS, ids=[hub().name for hub in HUBS])
each_case = pytest.mark.parametrize("case", FLOWS, ids=[case.name for case in FLOWS])
JOINS: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("merge", lambda a, b: a.merge(b)),
    ("merge_preferred", lambda a, b: a.merge_preferred(b)),
    ("merge_prioritized", lambda a, b: a.merge_prioritized(b, 1, 1)),
    ("merge_sorted", lambda a, b: a.merge_sorted(b)),
    ("merge_latest", lambda a, b: a.merge_latest(b)),
    ("interleave", lambda a, b: a.interleave(b, 1)),
    ("zip", lambda a, b: a.zip(b)),
    ("zip_with", lambda a, b: a.zip_with(b, lambda x, y: x + y)),
    ("zip_all", lambda a, b: a.zip_all(b, 0, 0)),
    ("zip_latest", lambda a, b: a.zip_latest(b)),
    ("zip_latest_with", lambda a, b: a.zip_latest_with(b, lambda x, y: x + y)),
]
each_join = pytest.mark.parametrize("join", [join for _, join in JOINS], ids=[name for name, _ in JOINS])


def collected(source: Source[Any]) -> list[Any]:
    return source.to(Sink.collect()).run_blocking()


class Upstream(Subscription):
    """Records what is asked of it."""

    def __init__(self) -> None:
        self.requested = 0
        self.cancelled = 0

    def request(self, n: int) -> None:
        self.requested += n

    def cancel(self) -> None:
        self.cancelled += 1


class Downstream(Subscriber[Any]):
    """Records what it is told."""

    def __init__(self, demand: int = 0) -> None:
        self.demand = demand
        self.seen: list[Any] = []
        self.subscription: Subscription | None = None

    def on_subscribe(self, subscription: Subscription) -> None:
        self.subscription = subscription
        if self.demand:
            subscription.request(self.demand)

    def on_next(self, element: Any) -> None:
        self.seen.append(element)

    def on_error(self, error: BaseException) -> None:
        self.seen.append(error)

    def on_complete(self) -> None:
        self.seen.append("end")


# Against lists


@pytest.mark.parametrize("case", [case for case in FLOWS if case.model], ids=lambda case: case.name)
@settings(deadline=None, max_examples=15)
@given(numbers=st.lists(st.integers(0, 9), max_size=40))
def test_what_comes_out_is_what_the_catalogue_says(case: FlowCase, numbers: list[int]) -> None:
    async def main() -> None:
        seen = await Source.from_iterable(numbers).via(case.flow()).take(100).to(Sink.collect()).run()
        assert case.model is not None
        assert seen == case.model(numbers)

    run_in_virtual_time(main(), io_grace=0)


@each_case
@settings(deadline=None, max_examples=10)
@given(requests=st.lists(st.integers(1, 7), min_size=1, max_size=20))
def test_upstream_gives_no_more_than_ratio_and_ahead_allow(case: FlowCase, requests: list[int]) -> None:
    async def main() -> None:
        given: list[int] = []
        source = Source.from_iterable(range(10**9)).map(lambda n: given.append(n) or n)  # type: ignore[func-returns-value]
        sink = TestSink[Any](timeout=1e6)
        source.via(case.flow()).to(sink).run()
        asked = 0
        for n in requests:
            sink.request(n)
            asked += n
            await settle()
            assert case.ahead is not None
            assert len(given) <= max(case.ratio, 1) * asked + case.ahead
        assert sink.violations == []
        sink.cancel()

    run_in_virtual_time(main(), io_grace=0)


@given(st.lists(st.lists(st.integers(0, 30), max_size=30), min_size=2, max_size=2))
def test_merge_sorted_makes_one_sorted_stream_of_two(lists: list[list[int]]) -> None:
    a, b = (sorted(each) for each in lists)
    merged = collected(
        Source.from_iterable([(n, 0) for n in a]).merge_sorted(Source.from_iterable([(n, 1) for n in b]))
    )
    assert merged == sorted([(n, 0) for n in a] + [(n, 1) for n in b])
    by_key = Source.from_iterable([(n, "a") for n in a]).merge_sorted(
        Source.from_iterable([(n, "b") for n in b]), key=lambda pair: pair[0]
    )
    assert collected(by_key) == merged_by_first(a, b)


def merged_by_first(a: list[int], b: list[int]) -> list[tuple[int, str]]:
    return sorted([(n, "a") for n in a] + [(n, "b") for n in b], key=lambda pair: pair[0])


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 5), st.booleans())
def test_interleave_takes_segments_in_turn(a: int, b: int, segment: int, eager: bool) -> None:
    mine, others = [(0, n) for n in range(a)], [(1, n) for n in range(b)]
    expected: list[Any] = []
    turn, lists = 0, (list(mine), list(others))
    while lists[0] or lists[1]:
        if eager and len(lists[turn]) < segment:
            expected += lists[turn]
            break
        expected += lists[turn][:segment]
        del lists[turn][:segment]
        turn = 1 - turn
    both = Source.from_iterable(mine).interleave(Source.from_iterable(others), segment, eager_close=eager)
    assert collected(both) == expected


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_zip_of_three_ends_with_the_shortest(a: int, b: int, c: int) -> None:
    one, two, three = (Source.from_iterable(range(n)) for n in (a, b, c))
    assert collected(one.zip(two, three)) == [(n, n, n) for n in range(min(a, b, c))]
    assert collected(one.zip_with(two, three, lambda x, y, z: x + y + z)) == [3 * n for n in range(min(a, b, c))]


def test_prepend_puts_the_others_first_in_their_order() -> None:
    assert collected(Source.of(5).prepend(Source.of(1, 2), Source.of(3))) == [1, 2, 3, 5]


def test_or_else_takes_the_other_only_if_there_was_no_element() -> None:
    def created() -> Any:
        raise AssertionError("created")

    assert collected(Source.of(1).or_else(Source.from_publisher(created))) == [1]
    assert collected(Source.of(1).filter(lambda _: False).or_else(Source.of(2))) == [2]
    assert collected(Source.empty().or_else(Source.empty())) == []


# By hand


def test_merge_preferred_serves_the_other_first_and_then_its_own() -> None:
    async def main() -> None:
        a, b, sink = TestSource[str](), TestSource[str](), TestSink[str]()
        a.merge_preferred(b).to(sink).run()
        sink.request(1)
        a.probe.send_next("a1")
        a.probe.send_next("a2", "a3")
        b.probe.send_next("b1", "b2")
        sink.request(4)
        await sink.expect_next("a1", "b1", "b2", "a2", "a3")

    run_in_virtual_time(main())


def test_merge_prioritized_serves_waiting_inputs_by_their_weights() -> None:
    async def main() -> None:
        a, b, sink = TestSource[str](), TestSource[str](), TestSink[str]()
        a.merge_prioritized(b, 3, 1).to(sink).run()
        sink.request(1)
        a.probe.send_next(*"aaaaaaaaaa")
        b.probe.send_next(*"bbbb")
        sink.request(8)
        seen = "".join(await sink.expect_n(9))
        assert seen.count("a") == 7
        assert seen[1:].count("b") == 2
        assert "bb" not in seen

    run_in_virtual_time(main())


def test_an_eager_merge_ends_with_the_first_input_when_what_waits_has_gone_out() -> None:
    async def main() -> None:
        a, b, sink = TestSource[int](), TestSource[int](), TestSink[int]()
        a.merge(b, eager_complete=True).to(sink).run()
        sink.request(1)
        b.probe.send_next(1, 2, 3)
        a.probe.send_complete()
        await b.probe.expect_cancellation()
        await sink.expect_next(1)
        await sink.expect_no_message()
        sink.request(9)
        await sink.expect_next(2, 3)
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_latest_emits_after_each_element_once_every_input_has_had_one() -> None:
    async def main() -> None:
        a, b, sink = TestSource[int](), TestSource[int](), TestSink[list[int]]()
        a.merge_latest(b).to(sink).run()
        sink.request(9)
        a.probe.send_next(1, 2)
        await sink.expect_no_message()
        b.probe.send_next(10)
        a.probe.send_next(3)
        await sink.expect_next([2, 10], [3, 10])
        a.probe.send_complete()
        b.probe.send_next(11)
        await sink.expect_next([3, 11])
        b.probe.send_complete()
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_zip_latest_ends_with_the_first_input_and_emits_what_came_before() -> None:
    async def main() -> None:
        a, b, sink = TestSource[int](), TestSource[int](), TestSink[Any]()
        a.zip_latest(b).to(sink).run()
        sink.request(1)
        a.probe.send_next(1)
        b.probe.send_next(10, 11)
        a.probe.send_complete()
        assert b.probe.cancelled
        sink.request(5)
        await sink.expect_next((1, 10), (1, 11))
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_zip_latest_combines_a_source_of_one_element_that_has_ended() -> None:
    async def main() -> None:
        a, b, sink = TestSource[int](), TestSource[int](), TestSink[Any]()
        a.zip_latest(b).to(sink).run()
        sink.request(5)
        a.probe.send_next(1)
        a.probe.send_complete()
        assert not b.probe.cancelled
        b.probe.send_next(10)
        await sink.expect_next((1, 10))
        await sink.expect_complete()
        assert b.probe.cancelled

    run_in_virtual_time(main())


@pytest.mark.parametrize("operator", ["merge_latest", "zip_latest"])
def test_an_input_is_not_asked_for_more_while_another_has_had_nothing(operator: str) -> None:
    async def main() -> None:
        a, b, sink = TestSource[int](), TestSource[int](), TestSink[Any]()
        getattr(a, operator)(b).to(sink).run()
        sink.request(1)
        await a.probe.expect_request(FAN_IN_PREFETCH)
        a.probe.send_next(*range(FAN_IN_PREFETCH))
        await a.probe.expect_no_request()
        b.probe.send_next(-1)
        assert tuple(await sink.expect_next()) == (FAN_IN_PREFETCH - 1, -1)
        assert a.probe.demand.outstanding == FAN_IN_PREFETCH

    run_in_virtual_time(main())


def test_merge_latest_ends_at_once_when_an_input_ends_without_an_element() -> None:
    async def main() -> None:
        a, b, sink = TestSource[int](), TestSource[int](), TestSink[Any]()
        a.merge_latest(b).to(sink).run()
        sink.request(1)
        a.probe.send_next(1)
        b.probe.send_complete()
        await sink.expect_complete()
        assert a.probe.cancelled

    run_in_virtual_time(main())


def test_zip_all_waits_for_both_and_fills_up_for_the_one_that_has_ended() -> None:
    async def main() -> None:
        a, b, sink = TestSource[int](), TestSource[int](), TestSink[Any]()
        a.zip_all(b, -1, -2).to(sink).run()
        sink.request(9)
        a.probe.send_next(1, 2)
        await sink.expect_no_message()
        b.probe.send_next(10)
        b.probe.send_complete()
        await sink.expect_next((1, 10), (2, -2))
        a.probe.send_next(3)
        a.probe.send_complete()
        await sink.expect_next((3, -2))
        await sink.expect_complete()

    run_in_virtual_time(main())


# Failures and ends


@each_join
@pytest.mark.parametrize("failing", [0, 1])
def test_a_failure_of_either_input_fails_the_whole_and_cancels_the_other(join: Any, failing: int) -> None:
    async def main() -> None:
        inputs, sink = (TestSource[int](), TestSource[int]()), TestSink[Any]()
        running = join(*inputs).to(sink).run()
        sink.request(9)
        inputs[failing].probe.send_error(OSError("broken"))
        await sink.expect_error(OSError)
        await inputs[1 - failing].probe.expect_cancellation()
        inputs[failing].probe.send_error(OSError("again"))
        await sink.expect_no_message()
        with pytest.raises(OSError, match="broken"):
            await running

    run_in_virtual_time(main())


@each_join
def test_cancelling_cancels_both_inputs_and_nothing_comes_after(join: Any) -> None:
    async def main() -> None:
        a, b, sink = TestSource[int](), TestSource[int](), TestSink[Any]()
        join(a, b).to(sink).run()
        sink.request(3)
        a.probe.send_next(1)
        sink.cancel()
        assert a.probe.cancelled
        assert b.probe.cancelled
        a.probe.subscriber.on_next(2)
        b.probe.subscriber.on_next(2)
        assert [signal for signal in sink._signals if getattr(signal, "element", 1) == 2] == []
        assert sink.violations == []

    run_in_virtual_time(main())


@pytest.mark.parametrize("operator", ["zip_with", "zip_latest_with"])
def test_a_function_that_fails_ends_the_stream_and_is_named(operator: str) -> None:
    def burst(a: int, b: int) -> int:
        raise KeyError(a + b)

    with pytest.raises(KeyError) as caught:
        collected(getattr(Source.of(1), operator)(Source.of(2), burst))
    assert any(f"in the stage {operator}(" in note and "burst" in note for note in caught.value.__notes__)
    with pytest.raises(TypeError, match="None is not an element"):
        collected(getattr(Source.of(1), operator)(Source.of(2), lambda a, b: None))


def test_a_key_that_fails_and_elements_that_cannot_be_compared_end_merge_sorted() -> None:
    with pytest.raises(ZeroDivisionError):
        collected(Source.of(0).merge_sorted(Source.of(1), key=lambda n: 1 // n))
    with pytest.raises(TypeError, match="'<' not supported") as caught:
        collected(Source.of(0).merge_sorted(Source.of("a")))
    assert any("merge_sorted" in note for note in caught.value.__notes__)


@each_hub
def test_signals_against_the_contract_are_refused(make: Callable[[], FanIn[Any]]) -> None:
    hub = make()
    downstream = Downstream()
    hub.subscribe(downstream)
    for inlet in hub.inlets:
        with pytest.raises(TypeError):
            inlet.on_subscribe(None)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            inlet.on_next(None)
        with pytest.raises(TypeError):
            inlet.on_error(None)  # type: ignore[arg-type]
        first, second = Upstream(), Upstream()
        inlet.on_subscribe(first)
        inlet.on_subscribe(second)
        assert (first.cancelled, second.cancelled) == (0, 1)
    with pytest.raises(TypeError):
        hub.subscribe(None)  # type: ignore[arg-type]
    other = Downstream()
    hub.subscribe(other)
    assert "one subscriber" in str(other.seen[0])
    assert downstream.seen == []


@each_hub
def test_inputs_and_output_are_joined_in_any_order(make: Callable[[], FanIn[Any]]) -> None:
    def run(late: bool) -> tuple[list[Any], list[int]]:
        hub, downstream, upstreams = make(), Downstream(UNBOUNDED), [Upstream(), Upstream()]
        if not late:
            hub.subscribe(downstream)
        for inlet, upstream in zip(hub.inlets, upstreams, strict=True):
            inlet.on_subscribe(upstream)
        if late:
            hub.subscribe(downstream)
        asked = [upstream.requested for upstream in upstreams]
        for inlet in hub.inlets:
            inlet.on_next(1)
            inlet.on_complete()
        return downstream.seen, asked

    seen, asked = run(late=False)
    assert (seen, asked) == run(late=True)
    assert seen[-1] == "end"
    assert asked[0] in {FAN_IN_PREFETCH, UNBOUNDED}


@each_hub
def test_an_input_that_has_ended_is_asked_for_nothing_rule_2_4(make: Callable[[], FanIn[Any]]) -> None:
    hub, downstream, upstreams = make(), Downstream(), [Upstream(), Upstream()]
    for inlet, upstream in zip(hub.inlets, upstreams, strict=True):
        inlet.on_subscribe(upstream)
    hub.inlets[0].on_complete()
    hub.subscribe(downstream)
    if not hub.done:
        assert downstream.subscription is not None
        downstream.subscription.request(5)
    assert (upstreams[0].requested, upstreams[0].cancelled) == (0, 0)


@each_hub
def test_an_input_that_fails_is_not_cancelled_and_the_others_are_rule_2_3(make: Callable[[], FanIn[Any]]) -> None:
    hub, downstream, upstreams = make(), Downstream(1), [Upstream(), Upstream()]
    hub.subscribe(downstream)
    for inlet, upstream in zip(hub.inlets, upstreams, strict=True):
        inlet.on_subscribe(upstream)
    broken = OSError("broken")
    hub.inlets[0].on_error(broken)
    assert [upstream.cancelled for upstream in upstreams] == [0, 1]
    assert downstream.seen == [broken]


@each_hub
def test_an_end_or_a_failure_before_the_subscriber_is_told_to_it(make: Callable[[], FanIn[Any]]) -> None:
    ended, failed = make(), make()
    for inlet in ended.inlets:
        inlet.on_complete()
    broken = OSError("broken")
    failed.inlets[0].on_error(broken)
    seen = Downstream(), Downstream()
    ended.subscribe(seen[0])
    failed.subscribe(seen[1])
    assert [downstream.seen for downstream in seen] == [["end"], [broken]]
    late = Upstream()
    failed.inlets[1].on_subscribe(late)
    assert late.cancelled == 1


@each_hub
def test_after_cancelling_nothing_of_downstream_is_held_rule_3_13(make: Callable[[], FanIn[Any]]) -> None:
    hub, downstream = make(), Downstream()
    hub.subscribe(downstream)
    upstreams = [Upstream() for _ in hub.inlets]
    for inlet, upstream in zip(hub.inlets, upstreams, strict=True):
        inlet.on_subscribe(upstream)
    assert downstream.subscription is not None
    downstream.subscription.cancel()
    downstream.subscription.cancel()
    assert [upstream.cancelled for upstream in upstreams] == [1, 1]
    gone = weakref.ref(downstream)
    del downstream
    gc.collect()
    assert gone() is None


def test_concat_holds_nothing_of_downstream_after_cancelling_rule_3_13() -> None:
    async def main() -> None:
        source = TestSource[int]()
        sink = TestSink[int]()
        running = source.concat(Source.of(1)).to(sink).run()
        await settle()
        sink.cancel()
        await running
        gone = weakref.ref(sink)
        del sink, running
        await settle()
        gc.collect()
        assert gone() is None
        assert source.probe.cancelled

    run_in_virtual_time(main())


@each_hub
@settings(deadline=None, max_examples=60)
@given(
    script=st.lists(
        st.one_of(
            st.tuples(st.just("request"), st.integers(1, 5)),
            st.tuples(st.just("next"), st.integers(0, 1)),
            st.tuples(st.just("complete"), st.integers(0, 1)),
            st.tuples(st.just("cancel"), st.just(0)),
        ),
        max_size=60,
    )
)
def test_any_order_of_signals_keeps_to_demand_and_to_one_end(
    make: Callable[[], FanIn[Any]], script: list[tuple[str, int]]
) -> None:
    hub, downstream, upstreams = make(), Downstream(), [Upstream(), Upstream()]
    hub.subscribe(downstream)
    for inlet, upstream in zip(hub.inlets, upstreams, strict=True):
        inlet.on_subscribe(upstream)
    sent, over, asked, cancelled = [0, 0], [False, False], 0, False
    for number, (what, n) in enumerate(script):
        assert downstream.subscription is not None
        if what == "request":
            asked += n
            downstream.subscription.request(n)
        elif what == "cancel":
            cancelled = True
            downstream.subscription.cancel()
            seen_by_then = len(downstream.seen)
        elif over[n] or upstreams[n].cancelled:
            continue
        elif what == "complete":
            over[n] = True
            hub.inlets[n].on_complete()
        elif sent[n] < upstreams[n].requested:
            sent[n] += 1
            hub.inlets[n].on_next(number)
        assert all(len(inlet.waiting) <= FAN_IN_PREFETCH for inlet in hub.inlets)
    elements = [signal for signal in downstream.seen if signal != "end"]
    assert len(elements) <= asked
    assert downstream.seen.count("end") <= 1
    assert downstream.seen == [*elements, *downstream.seen[len(elements) :]]
    if cancelled:
        assert len(downstream.seen) == seen_by_then
    else:
        assert downstream.subscription is not None
        downstream.subscription.request(UNBOUNDED)
        for inlet in hub.inlets:
            inlet.on_complete()
        assert downstream.seen[-1] == "end"
    assert not any(inlet.waiting for inlet in hub.inlets)


# Values and arguments


def test_the_value_of_another_source_is_kept_where_the_stream_has_none() -> None:
    async def main() -> None:
        running = Source.of(1).merge(Source.queue(4)).to(Sink.collect()).run()
        running.value.offer(2)
        running.value.complete()
        assert sorted(await running) == [1, 2]
        both = Source.queue(4).merge(Source.queue(4)).to(Sink.collect(), Keep.both).run()
        both.value[0].complete()
        both.cancel()
        with pytest.raises(asyncio.CancelledError):
            await both

    run_in_virtual_time(main())


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda s: s.merge(print), TypeError),
        (lambda s: s.concat(Sink.ignore()), TypeError),
        (lambda s: s.prepend([1]), TypeError),
        (lambda s: s.or_else(1), TypeError),
        (lambda s: s.zip_with(Source.of(1)), TypeError),
        (lambda s: s.zip_with(print), TypeError),
        (lambda s: s.zip_latest_with(Source.of(1), 7), TypeError),
        (lambda s: s.interleave(Source.of(1), 0), ValueError),
        (lambda s: s.merge_prioritized(Source.of(1), 0, 1), ValueError),
        (lambda s: s.merge_prioritized(Source.of(1), 1, -1), ValueError),
    ],
)
def test_wrong_arguments_are_refused_when_the_graph_is_described(wrong: Any, error: type[Exception]) -> None:
    for begin in (Source.of(1), Flow[int, int].identity()):
        with pytest.raises(error):
            wrong(begin)
