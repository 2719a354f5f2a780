"""Operators of several inputs, signal by signal: failures, cancellation, demand, and the rules."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams import UNBOUNDED, Source
from streams.stages.concat import ConcatInputs
from streams.stages.fan_in import FAN_IN_PREFETCH, FanIn
from streams.stages.merges import Interleave, Merge, MergePreferred, MergePrioritized, MergeSorted
from streams.stages.zips import MergeLatest, Zip, ZipAll, ZipLatest, ZipLatestWith, ZipWith
from streams.testkit import TestSink, TestSource, run_in_virtual_time, settle
from tests.examples_tried import tried
from tests.streams.collected import collected
from tests.streams.junction_probes import Downstream, Upstream

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
@settings(deadline=None, max_examples=tried(60))
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
