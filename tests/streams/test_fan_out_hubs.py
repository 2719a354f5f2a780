"""The hubs behind broadcast, balance, partition and unzip, by hand: who cancels what, what is told whom, and what is forgotten."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.stages.fan_out import Balance, Broadcast, FanOut, Partition, UnzipWith
from tests.examples_tried import tried
from tests.streams.junction_probes import Downstream, Upstream

Make = Callable[[bool], FanOut[Any]]
HUBS: list[Make] = [
    lambda eager: Broadcast(2, eager),
    lambda eager: Balance(2, False, eager),
    lambda eager: Balance(2, True, eager),
    lambda eager: Partition(2, lambda n: n % 2, eager),
    lambda eager: UnzipWith(2, lambda n: (n, n), eager),
]
each_hub = pytest.mark.parametrize(
    "make", HUBS, ids=["broadcast", "balance", "balance, wait for all", "partition", "unzip_with"]
)


def joined(hub: FanOut[Any], *demands: int) -> tuple[Upstream, list[Downstream]]:
    upstream, sinks = Upstream(), [Downstream(demand) for demand in demands]
    for sink, outlet in zip(sinks, hub.outlets, strict=True):
        outlet.subscribe(sink)
    hub.on_subscribe(upstream)
    return upstream, sinks


def cancel(sink: Downstream) -> None:
    assert sink.subscription is not None
    sink.subscription.cancel()


@each_hub
def test_the_last_output_that_cancels_ends_the_whole(make: Make) -> None:
    upstream, sinks = joined(make(False), 3, 3)
    cancel(sinks[0])
    cancel(sinks[0])
    assert upstream.cancelled == 0
    cancel(sinks[1])
    assert upstream.cancelled == 1
    assert [sink.seen for sink in sinks] == [[], []]


@each_hub
def test_an_eager_hub_ends_with_the_first_output_that_cancels(make: Make) -> None:
    upstream, sinks = joined(make(True), 3, 3)
    cancel(sinks[1])
    assert upstream.cancelled == 1
    assert [sink.seen for sink in sinks] == [["end"], []]


def test_an_eager_broadcast_gives_every_output_the_element_at_which_one_cancels() -> None:
    class First(Downstream):
        def on_next(self, element: Any) -> None:
            super().on_next(element)
            cancel(self)

    hub, upstream = Broadcast[int](2, eager_cancel=True), Upstream()
    first, second = First(5), Downstream(5)
    hub.outlets[0].subscribe(first)
    hub.outlets[1].subscribe(second)
    hub.on_subscribe(upstream)
    hub.on_next(7)
    assert (first.seen, second.seen, upstream.cancelled) == ([7], [7, "end"], 1)


@each_hub
@pytest.mark.parametrize("error", [None, OSError("broken")])
def test_an_output_that_is_subscribed_after_the_end_learns_how_it_ended(
    make: Make, error: BaseException | None
) -> None:
    hub = make(False)
    hub.on_subscribe(Upstream())
    if error is None:
        hub.on_complete()
    else:
        hub.on_error(error)
        hub.on_error(OSError("again"))
    for outlet in hub.outlets:
        late = Downstream()
        outlet.subscribe(late)
        assert late.seen == ["end" if error is None else error]


@each_hub
def test_signals_against_the_contract_are_refused(make: Make) -> None:
    hub = make(False)
    upstream, sinks = joined(hub, 1, 1)
    for refused in (
        lambda: hub.on_next(None),
        lambda: hub.on_error(None),  # type: ignore[arg-type]
        lambda: hub.on_subscribe(None),  # type: ignore[arg-type]
        lambda: hub.outlets[0].subscribe(None),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError):
            refused()
    second, other = Upstream(), Downstream()
    hub.on_subscribe(second)
    hub.outlets[0].subscribe(other)
    assert (upstream.cancelled, second.cancelled) == (0, 1)
    assert "one subscriber" in str(other.seen[0])
    assert [sink.seen for sink in sinks] == [[], []]


@each_hub
def test_an_output_that_has_cancelled_is_forgotten_rule_3_13(make: Make) -> None:
    hub = make(False)
    _, sinks = joined(hub, 1, 1)
    gone = weakref.ref(sinks[0])
    cancel(sinks[0])
    del sinks[0]
    gc.collect()
    assert gone() is None
    gone = weakref.ref(sinks[0])
    hub.on_complete()
    del sinks
    gc.collect()
    assert gone() is None


def test_an_upstream_that_has_ended_is_not_used_any_more_rule_2_4() -> None:
    hub = Partition[int](2, lambda n: n % 2)
    upstream, sinks = joined(hub, 1, 0)
    hub.on_next(1)
    hub.on_complete()
    asked = upstream.requested
    assert sinks[0].subscription is not None
    sinks[0].subscription.request(5)
    cancel(sinks[0])
    cancel(sinks[1])
    assert (upstream.requested, upstream.cancelled) == (asked, 0)


def test_balance_that_waits_for_all_asks_when_the_last_output_has_asked_or_left() -> None:
    upstream, sinks = joined(Balance(3, wait_for_all=True), 2, 0, 0)
    assert upstream.requested == 0
    assert sinks[1].subscription is not None
    sinks[1].subscription.request(1)
    assert upstream.requested == 0
    cancel(sinks[2])
    assert upstream.requested == 3


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (lambda n: (n,), ValueError, "1 parts came for 2 outputs"),
        (lambda n: (n, None), TypeError, "None is not an element"),
        (lambda n: 1 // n, ZeroDivisionError, "division"),
        (lambda n: n, TypeError, "has no len"),
    ],
)
def test_parts_that_do_not_fit_end_unzip_and_name_it(f: Any, error: type[Exception], message: str) -> None:
    hub = UnzipWith(2, f)
    upstream, sinks = joined(hub, 1, 1)
    hub.on_next(0)
    assert upstream.cancelled == 1
    assert sinks[0].seen == sinks[1].seen
    assert isinstance(sinks[0].seen[0], error)
    assert message in str(sinks[0].seen[0])
    assert "unzip_with" in sinks[0].seen[0].__notes__[0]


@each_hub
@settings(deadline=None, max_examples=tried(60))
@given(
    eager=st.booleans(),
    script=st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["request", "cancel"]), st.integers(0, 1), st.integers(1, 4)),
            st.tuples(st.just("next"), st.just(0), st.integers(1, 5)),
            st.tuples(st.sampled_from(["complete", "error"]), st.just(0), st.just(0)),
        ),
        max_size=40,
    ),
)
def test_any_order_of_signals_keeps_to_demand_and_to_one_end(
    make: Make, eager: bool, script: list[tuple[str, int, int]]
) -> None:
    hub = make(eager)
    upstream, sinks = joined(hub, 0, 0)
    asked, sent, over = [0, 0], 0, False
    counts: dict[int, int] = {}
    for what, which, n in script:
        subscription = sinks[which].subscription
        assert subscription is not None
        if what == "request":
            asked[which] += n
            subscription.request(n)
        elif what == "cancel":
            subscription.cancel()
            counts.setdefault(which, len(sinks[which].seen))
        elif over or upstream.cancelled:
            continue
        elif what == "next":
            for _ in range(min(n, upstream.requested - sent)):
                if not upstream.cancelled:
                    sent += 1
                    hub.on_next(sent)
        elif what == "complete":
            over = True
            hub.on_complete()
        else:
            over = True
            hub.on_error(OSError("broken"))
    for which, sink in enumerate(sinks):
        ends = [signal for signal in sink.seen if not isinstance(signal, int)]
        elements = [signal for signal in sink.seen if isinstance(signal, int)]
        assert len(elements) <= asked[which]
        assert sink.seen == elements + ends
        assert len(ends) <= 1
        assert elements == sorted(elements)
        assert len(sink.seen) == counts.get(which, len(sink.seen))
    if len(counts) == 2 or (eager and counts):
        assert over or upstream.cancelled
