"""Chains of reactivex's operators at random: under demand as in reactivex, whatever is asked for and whenever it is cancelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import reactivex
from hypothesis import given, settings
from hypothesis import strategies as st
from reactivex import operators as ops
from reactivex.subject import Subject

from streams import Flow
from streams.testkit import TestSink, TestSource, run_in_virtual_time, settle
from tests.examples_tried import tried
from tests.streams.rx.drive import plain, under_demand

Made = Callable[[], Callable[[Any], Any]]


class BurstError(Exception):
    """Raised by a function in a chain."""


def weight(value: Any) -> int:
    return value if isinstance(value, int) else len(str(value))


def burst_at(limit: int) -> Callable[[Any], Any]:
    def f(value: Any) -> Any:
        if weight(value) == limit:
            raise BurstError(limit)
        return value

    return f


PLAIN: list[tuple[str, Made]] = [
    ("map", lambda: ops.map(weight)),
    ("filter", lambda: ops.filter(lambda x: weight(x) % 2)),
    ("filter none", lambda: ops.filter(lambda _: False)),
    ("pairwise", ops.pairwise),
    ("scan", lambda: ops.scan(lambda state, x: state + weight(x), 0)),
    ("take_while", lambda: ops.take_while(lambda x: weight(x) % 5 != 4)),
    ("distinct_until_changed", ops.distinct_until_changed),
    ("distinct", ops.distinct),
    ("count", ops.count),
    ("map_indexed", lambda: ops.map_indexed(lambda x, i: weight(x) + i)),
    ("materialize and back", lambda: reactivex.compose(ops.materialize(), ops.dematerialize())),
    ("default_if_empty", lambda: ops.default_if_empty(7)),
    ("start_with", lambda: ops.start_with(1, 2)),
    ("flat_map", lambda: ops.flat_map(lambda x: [x] * (weight(x) % 3))),
    ("flat_map of observables", lambda: ops.flat_map(lambda x: reactivex.of(x, 1).pipe(ops.take(weight(x) % 3)))),
    ("flat_map_indexed", lambda: ops.flat_map_indexed(lambda x, i: [x] * (i % 3))),
    ("first_or_default", lambda: ops.first_or_default(None, 5)),
    ("last", ops.last),
    ("ignore_elements", ops.ignore_elements),
]
SIZED: list[tuple[str, Callable[[int], Callable[[Any], Any]]]] = [
    ("take", ops.take),
    ("skip", ops.skip),
    ("take_last", ops.take_last),
    ("skip_last", ops.skip_last),
    ("buffer_with_count", lambda n: ops.buffer_with_count(n + 1)),
    ("sliding buffer", lambda n: ops.buffer_with_count(n + 1, 1)),
    ("element_at_or_default", lambda n: ops.element_at_or_default(n, 9)),
    ("burst", lambda n: ops.map(burst_at(n))),
]


class Named(list[tuple[str, Made]]):
    """Shows a failing chain by its operators' names."""

    def __repr__(self) -> str:
        return " -> ".join(name for name, _ in self) or "nothing"

    def made(self) -> list[Callable[[Any], Any]]:
        return [make() for _, make in self]


operators = st.one_of(
    st.sampled_from(PLAIN),
    st.builds(lambda named, n: (f"{named[0]}({n})", lambda: named[1](n)), st.sampled_from(SIZED), st.integers(0, 5)),
)
chains = st.lists(operators, max_size=5).map(Named)
errors = st.sampled_from([None, KeyError("upstream")])


@settings(deadline=None, max_examples=tried(300))
@given(chains, st.lists(st.integers(0, 20), max_size=15), errors, st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_a_chain_does_under_demand_what_it_does_in_reactivex(
    chain: Named, values: list[int], error: Exception | None, requests: list[int]
) -> None:
    assert under_demand(Flow.rx(*chain.made()), values, error, tuple(requests)) == plain(chain.made(), values, error)


@settings(deadline=None, max_examples=tried(150))
@given(chains, st.integers(0, 5), st.lists(st.integers(0, 20), max_size=15), st.integers(1, 4))
def test_a_chain_may_be_one_flow_or_several(chain: Named, cut: int, values: list[int], request: int) -> None:
    made = chain.made()
    flow = Flow.rx(*made[:cut]).via(Flow.rx(reactivex.compose(*made[cut:])))
    assert under_demand(flow, values, None, (request,)) == plain(chain.made(), values)


@settings(deadline=None, max_examples=tried(150))
@given(chains, st.lists(st.tuples(st.booleans(), st.integers(1, 3)), max_size=20), st.booleans())
def test_a_chain_keeps_to_demand_on_both_sides_and_lets_go_when_cancelled(
    chain: Named, script: list[tuple[bool, int]], completes: bool
) -> None:
    """The probe below fails on an element that it has not asked for; the one above on sending what was not asked of it."""
    disposed: list[None] = []
    counted = [ops.finally_action(lambda: disposed.append(None)), *chain.made()]
    flow = Flow.rx(*counted)

    async def main(flow: Flow[Any, Any]) -> None:
        source, sink = TestSource[int](), TestSink[Any](timeout=1e6)
        running = source.via(flow).to(sink).run()
        await settle()
        sent = 0
        for downstream_turn, n in script:
            if downstream_turn:
                sink.request(n)
            else:
                for _ in range(min(n, source.probe.demand.outstanding)):
                    if not source.probe.cancelled:
                        source.probe.send_next(sent)
                        sent += 1
            await settle()
            assert sink.violations == []
        if completes and not source.probe.cancelled:
            source.probe.send_complete()
        sink.cancel()
        running.abandon()
        await settle()
        assert source.probe.cancelled or completes
        assert sink.violations == []

    run_in_virtual_time(main(flow), io_grace=0)
    ours = len(disposed)
    disposed.clear()
    subject: Subject[int] = Subject()
    subject.pipe(*counted).subscribe(on_error=lambda _: None).dispose()
    # A chain that ends while it is being subscribed to may not come to its source at all.
    assert ours == 1 or ours == len(disposed) == 0
