"""Chains of operators against the same done on lists, and the demand every operator keeps to whatever it is asked for."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams import Flow, OverflowStrategy, Sink, Source
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time, settle
from tests.examples_tried import tried

Step = tuple[str, Callable[[Any], Any], Callable[[list[Any]], list[Any]]]
"""Its name, what it does to a source, and what it does to a list."""


async def later(value: Any) -> Any:
    """Takes a time that depends on the value, so that results come out of order."""
    await elapse((weight(value) % 7) / 10)
    return value


def weight(value: Any) -> int:
    return value if isinstance(value, int) else len(str(value))


def grouped(values: list[Any], size: int) -> list[Any]:
    return [values[i : i + size] for i in range(0, len(values), size)]


def scanned(values: list[Any]) -> list[Any]:
    return list(itertools.accumulate(values, lambda state, value: state + weight(value), initial=0))


def taken_while(values: list[Any]) -> list[Any]:
    return list(itertools.takewhile(lambda value: weight(value) % 5 != 4, values))


SIZED_STEPS: list[Callable[[int], Step]] = [
    lambda n: (f"take({n})", lambda s: s.take(n), lambda xs: xs[:n]),
    lambda n: (f"drop({n})", lambda s: s.drop(n), lambda xs: xs[n:]),
    lambda n: (f"grouped({n + 1})", lambda s: s.grouped(n + 1), lambda xs: grouped(xs, n + 1)),
    lambda n: (f"buffer({n + 1})", lambda s: s.buffer(n + 1), lambda xs: xs),
    lambda n: (f"map_async({n + 1})", lambda s: s.map_async(n + 1, later), lambda xs: xs),
    lambda n: (f"concat({n})", lambda s: s.concat(Source.from_iterable(range(n))), lambda xs: xs + list(range(n))),
    lambda n: (f"zip({n})", lambda s: s.zip(Source.from_iterable(range(n))), lambda xs: list(zip(xs, range(n), strict=False))),
]  # fmt: skip
PLAIN_STEPS: list[Step] = [
    ("map", lambda s: s.map(weight), lambda xs: [weight(x) for x in xs]),
    ("filter", lambda s: s.filter(lambda x: weight(x) % 2), lambda xs: [x for x in xs if weight(x) % 2]),
    ("filter none", lambda s: s.filter(lambda _: False), lambda _: []),
    (
        "map_concat",
        lambda s: s.map_concat(lambda x: [x] * (weight(x) % 3)),
        lambda xs: [x for x in xs for _ in range(weight(x) % 3)],
    ),
    ("take_while", lambda s: s.take_while(lambda x: weight(x) % 5 != 4), taken_while),
    ("scan", lambda s: s.scan(0, lambda state, x: state + weight(x)), scanned),
    ("recover", lambda s: s.recover(lambda _: 0), lambda xs: xs),
    ("merge empty", lambda s: s.merge(Source.empty()), lambda xs: xs),
    ("grouped_within", lambda s: s.grouped_within(3, 1e6), lambda xs: grouped(xs, 3)),
    ("watch_termination", lambda s: s.watch_termination(lambda _: None), lambda xs: xs),
]


class _Named(list[Step]):
    """Shows a failing chain by its steps' names."""

    def __repr__(self) -> str:
        return " -> ".join(name for name, _, _ in self) or "nothing"


steps = st.one_of(
    st.sampled_from(PLAIN_STEPS),
    st.builds(lambda make, n: make(n), st.sampled_from(SIZED_STEPS), st.integers(0, 5)),
)
chains = st.lists(steps, max_size=6).map(_Named)


def model(chain: list[Step], values: list[int]) -> list[Any]:
    result: list[Any] = values
    for _, _, on_list in chain:
        result = on_list(result)
    return result


@settings(deadline=None, max_examples=tried(150))
@given(chains, st.lists(st.integers(0, 50), max_size=20))
def test_a_chain_of_operators_does_what_it_does_to_a_list(chain: list[Step], values: list[int]) -> None:
    source: Any = Source.from_iterable(values)
    for _, on_source, _ in chain:
        source = on_source(source)

    async def main() -> None:
        assert await source.to(Sink.collect()).run() == model(chain, values)

    run_in_virtual_time(main(), io_grace=0)


@settings(deadline=None, max_examples=tried(75))
@given(chains, st.lists(st.integers(0, 50), max_size=20))
def test_a_flow_does_what_a_source_does(chain: list[Step], values: list[int]) -> None:
    flow: Any = Flow.identity()
    for _, on_source, _ in chain:
        flow = on_source(flow)

    async def main() -> None:
        assert await Source.from_iterable(values).via(flow).to(Sink.collect()).run() == model(chain, values)

    run_in_virtual_time(main(), io_grace=0)


@settings(deadline=None, max_examples=tried(150))
@given(chains, st.lists(st.integers(0, 50), max_size=20), st.lists(st.integers(1, 4), max_size=20))
def test_a_chain_never_gives_more_than_its_demand_and_loses_nothing(
    chain: list[Step], values: list[int], requests: list[int]
) -> None:
    source: Any = Source.from_iterable(values)
    for _, on_source, _ in chain:
        source = on_source(source)
    expected = model(chain, values)

    async def main() -> None:
        sink = TestSink[Any](timeout=1e6)
        running = source.to(sink).run()
        seen: list[Any] = []
        for n in requests:
            if running.done():
                break
            wanted = min(n, len(expected) - len(seen))
            sink.request(n)
            seen += await sink.expect_n(wanted)
            assert seen == expected[: len(seen)]
            if wanted < n:
                break
            await settle(1.0)
        sink.request(len(expected) + 1)
        seen += await sink.expect_n(len(expected) - len(seen))
        assert seen == expected
        await sink.expect_complete()
        await running
        assert sink.violations == []

    run_in_virtual_time(main(), io_grace=0)


ONE_OF_EACH: list[tuple[str, Callable[[Any], Any]]] = [
    *((name, on_source) for name, on_source, _ in PLAIN_STEPS),
    *((name, on_source) for name, on_source, _ in (make(3) for make in SIZED_STEPS)),
    ("map_async_unordered", lambda s: s.map_async_unordered(3, later)),
    ("merge", lambda s: s.merge(Source.repeat(1))),
    *((f"buffer {o.value}", lambda s, o=o: s.buffer(3, o)) for o in OverflowStrategy if o is not OverflowStrategy.FAIL),
]
RECOVER = dict(ONE_OF_EACH)["recover"]
each_operator = pytest.mark.parametrize(
    "operator", [on for _, on in ONE_OF_EACH], ids=[name for name, _ in ONE_OF_EACH]
)


@each_operator
@settings(deadline=None, max_examples=tried(25))
@given(script=st.lists(st.tuples(st.booleans(), st.integers(1, 3)), max_size=25))
def test_an_operator_keeps_to_demand_on_both_sides(operator: Any, script: list[tuple[bool, int]]) -> None:
    """The probe below fails on an element that it has not asked for; the one above on sending what was not asked of it."""

    async def main() -> None:
        source, sink = TestSource[int](), TestSink[Any](timeout=1e6)
        operator(source).to(sink).run()
        sent = itertools.count()
        for downstream_turn, n in script:
            if downstream_turn:
                sink.request(n)
            else:
                for _ in range(min(n, source.probe.demand.outstanding)):
                    if not source.probe.cancelled:
                        source.probe.send_next(next(sent))
            await settle(0.3)
            assert sink.violations == []
        sink.cancel()
        await settle()
        assert source.probe.cancelled

    run_in_virtual_time(main(), io_grace=0)


@each_operator
def test_an_operator_passes_cancellation_up(operator: Any) -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[Any](timeout=1e6)
        running = operator(source).to(sink).run()
        sink.request(1)
        await settle()
        sink.cancel()
        await source.probe.expect_cancellation()
        await running
        sink.request(1)
        sink.cancel()
        assert sink.violations == []

    run_in_virtual_time(main(), io_grace=0)


@each_operator
def test_an_operator_ends_once_when_upstream_fails(operator: Any) -> None:
    """The probe fails on any signal after the end."""

    async def main() -> None:
        source, sink = TestSource[int](), TestSink[Any](timeout=1e6)
        running = operator(source).to(sink).run()
        sink.request(100)
        await settle()
        source.probe.send_error(OSError("broken"))
        source.probe.send_error(OSError("again"))
        source.probe.send_complete()
        await settle()
        assert sink.violations == []
        assert running.done()
        if operator is RECOVER:
            await running
        else:
            with pytest.raises(OSError, match="broken"):
                await running

    run_in_virtual_time(main(), io_grace=0)


@each_operator
def test_a_request_for_less_than_one_fails_the_stream_and_cancels_upstream_rule_3_9(operator: Any) -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[Any](timeout=1e6)
        running = operator(source).to(sink).run()
        sink.request(0)
        assert "3.9" in str(await sink.expect_error(ValueError))
        await source.probe.expect_cancellation()
        with pytest.raises(ValueError, match=r"3\.9"):
            await running
        assert sink.violations == []

    run_in_virtual_time(main(), io_grace=0)
