"""map and filter side by side are one stage: what that must not change, whichever way the elements come in."""

from __future__ import annotations

import ast
import asyncio
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams import Flow, Sink, Source, Supervision
from streams.stages.fused import MAX_STEPS, PUSH, FusedPublisher, _source_text
from streams.testkit import TestSink, TestSource, run_in_virtual_time, settle

IN_BULK_OR_ONE_BY_ONE = pytest.mark.parametrize("given_as", [list, iter], ids=["in bulk", "one by one"])
"""A list hands the stage its iterator; an iterator is asked for one element at a time."""


def inverse(n: int) -> float:
    return 1 / n


def positive(n: float) -> bool:
    return n > 0


@IN_BULK_OR_ONE_BY_ONE
def test_a_failure_names_the_step_that_failed_and_shows_its_place(
    given_as: Callable[[list[int]], Iterable[int]],
) -> None:
    async def main() -> list[Any]:
        source = Source.from_iterable(given_as([2, 1, 0, 4])).map(int).map(inverse).filter(positive)
        return await source.run_with(Sink.collect())

    with pytest.raises(ZeroDivisionError) as caught:
        run_in_virtual_time(main())
    assert "in the stage map(inverse)" in caught.value.__notes__
    shown = "".join(traceback.format_exception(caught.value))
    assert "x = f1(x)" in shown
    assert "return 1 / n" in shown


ENDS: dict[str, tuple[Callable[[], Sink[Any, Any]], Callable[[list[int]], Any]]] = {
    "ignore": (Sink.ignore, lambda _: None),
    "foreach": (lambda: Sink.foreach(str), len),
    "fold": (lambda: Sink.fold(0, lambda a, n: a + n), sum),
    "fold to None": (lambda: Sink.fold(0, lambda _a, _n: None), lambda xs: None if xs else 0),
    "collect": (Sink.collect, list),
}


@pytest.mark.parametrize("end", ENDS)
@given(numbers=st.lists(st.integers(0, 9), max_size=20), in_bulk=st.booleans())
def test_a_sink_that_is_part_of_the_loop_results_in_what_it_should(end: str, numbers: list[int], in_bulk: bool) -> None:
    sink, expected = ENDS[end]

    async def main() -> Any:
        return await Source.from_iterable(numbers if in_bulk else iter(numbers)).filter(positive).run_with(sink())

    assert run_in_virtual_time(main()) == expected([n for n in numbers if n > 0])


@IN_BULK_OR_ONE_BY_ONE
@pytest.mark.parametrize("end", [Sink.foreach(inverse), Sink.fold(0.0, lambda a, n: a + inverse(n))])
def test_what_a_sinks_function_raises_is_the_sinks_failure(
    end: Sink[int, Any], given_as: Callable[[list[int]], Iterable[int]]
) -> None:
    done: list[int] = []

    async def main() -> None:
        await Source.from_iterable(given_as([1, 0, 2])).map(lambda n: done.append(n) or n).run_with(end)  # type: ignore[func-returns-value]

    with pytest.raises(ZeroDivisionError) as caught:
        run_in_virtual_time(main())
    assert any(note.startswith(f"in the sink {end.name}(") for note in caught.value.__notes__)
    assert done == [1, 0]


@IN_BULK_OR_ONE_BY_ONE
def test_a_sink_cancelled_by_its_own_function_gets_nothing_more(
    given_as: Callable[[list[int]], Iterable[int]],
) -> None:
    async def main() -> list[int]:
        seen: list[int] = []

        def look(n: int) -> None:
            seen.append(n)
            if n == 2:
                running.cancel()

        running = Source.from_iterable(given_as([1, 2, 3])).map(int).to(Sink.foreach(look)).run()
        with pytest.raises(asyncio.CancelledError):
            await running
        return seen

    assert run_in_virtual_time(main()) == [1, 2]


@IN_BULK_OR_ONE_BY_ONE
def test_a_step_that_returns_none_is_named(given_as: Callable[[list[int]], Iterable[int]]) -> None:
    lost = {1: "one"}.get

    async def main() -> None:
        await Source.from_iterable(given_as([1, 2])).map(lost).map(len).run_with(Sink.ignore())  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="the function has returned None") as caught:
        run_in_virtual_time(main())
    assert "in the stage map(dict.get)" in caught.value.__notes__


@IN_BULK_OR_ONE_BY_ONE
def test_what_a_subscriber_raises_is_no_failure_of_a_step(given_as: Callable[[list[int]], Iterable[int]]) -> None:
    class Faulty(TestSink[int]):
        def on_next(self, element: int) -> None:
            raise RuntimeError("against rule 2.13")

    async def main() -> None:
        sink = Faulty()
        running = Source.from_iterable(given_as([1, 2])).map(int).to(sink).run()
        sink.request(2)
        await running

    with pytest.raises(RuntimeError, match=r"against rule 2\.13") as caught:
        run_in_virtual_time(main())
    assert not any("map" in note and "stage" in note for note in caught.value.__notes__)


@IN_BULK_OR_ONE_BY_ONE
def test_under_supervision_the_loop_goes_on_behind_the_element_that_failed(
    given_as: Callable[[list[int]], Iterable[int]],
) -> None:
    async def main() -> None:
        sink = TestSink[float]()
        source = Source.from_iterable(given_as([1, 0, 2, 0, 0, 4, 5])).map(inverse).filter(positive)
        source.with_supervision(Supervision.resuming).to(sink).run()
        sink.request(2)
        await sink.expect_next(1, 0.5)
        await sink.expect_no_message()
        sink.request(3)
        await sink.expect_next(0.25, 0.2)
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_steps_side_by_side_are_one_stage_and_a_long_chain_is_cut() -> None:
    async def main() -> list[int]:
        stages = []
        source: Source[int] = Source.of(0, 1)
        for _ in range(2 * MAX_STEPS + 1):
            source = source.map(lambda n: n + 1)

        def look(publisher: Any, _m: Any) -> Any:
            upstream = publisher
            while isinstance(upstream, FusedPublisher):
                stages.append(upstream)
                upstream = upstream._upstream
            return publisher

        total = await source.via(Flow(look)).run_with(Sink.collect())
        assert [len(stage._steps) for stage in stages] == [1, MAX_STEPS, MAX_STEPS]
        return total

    assert run_in_virtual_time(main()) == [2 * MAX_STEPS + 1, 2 * MAX_STEPS + 2]


def test_a_list_with_none_in_it_fails_where_that_stands() -> None:
    async def main() -> None:
        sink = TestSink[str]()
        running = Source.from_iterable([1, None, 2]).map(str).to(sink).run()
        sink.request(3)
        await sink.expect_next("1")
        assert "iterable" in str(await sink.expect_error(TypeError))
        running.abandon()

    run_in_virtual_time(main())


def test_a_stage_fed_by_hand_asks_for_another_element_for_each_that_it_drops() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.filter(lambda n: n % 2).filter_not(lambda n: n > 5).to(sink).run()
        sink.request(1)
        await source.probe.expect_request(1)
        source.probe.send_next(2)
        await source.probe.expect_request(1)
        source.probe.send_next(7)
        await source.probe.expect_request(1)
        source.probe.send_next(3)
        await sink.expect_next(3)
        await source.probe.expect_no_request()
        sink.cancel()

    run_in_virtual_time(main())


def test_nothing_is_computed_that_was_not_asked_for() -> None:
    async def main() -> list[int]:
        computed: list[int] = []
        sink = TestSink[int]()
        Source.from_iterable(range(100)).map(lambda n: computed.append(n) or n).filter(lambda n: n % 10 == 9).to(
            sink
        ).run()  # type: ignore[func-returns-value]
        await settle()
        assert computed == []
        sink.request(2)
        await sink.expect_next(9, 19)
        sink.cancel()
        await settle()
        return computed

    assert run_in_virtual_time(main()) == list(range(20))


def test_a_cancellation_from_within_stops_the_loop() -> None:
    async def main() -> list[int]:
        computed: list[int] = []
        source = Source.from_iterable(range(1000)).map(lambda n: computed.append(n) or n)  # type: ignore[func-returns-value]
        assert await source.take(3).run_with(Sink.collect()) == [0, 1, 2]
        return computed

    assert run_in_virtual_time(main()) == [0, 1, 2]


def test_nothing_gets_into_the_compiled_text_but_our_own() -> None:
    def named_by_somebody(n: int) -> int:
        return n

    named_by_somebody.__name__ = named_by_somebody.__qualname__ = "f0(x); import os"
    with pytest.raises(KeyError):
        _source_text(["map; import os"], PUSH)
    text, _ = _source_text(["map", "filter", "filter_not"], PUSH)
    assert {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)} <= {
        "stage", "source", "null_element", "elements", "dropped", "push", "x", "error", "Exception", "FAILURES", "f0", "f1", "f2",
        "on_next", "returned_none", "run", "truth",
    }  # fmt: skip

    async def main() -> list[int]:
        return await Source.of(1, 2).map(named_by_somebody).run_with(Sink.collect())

    assert run_in_virtual_time(main()) == [1, 2]


STEPS: dict[str, tuple[Callable[[Any], Any], Callable[[list[int]], list[int]]]] = {
    "map": (lambda s: s.map(lambda n: n + 1), lambda xs: [x + 1 for x in xs]),
    "filter": (lambda s: s.filter(lambda n: n % 3), lambda xs: [x for x in xs if x % 3]),
    "filter_not": (lambda s: s.filter_not(lambda n: n % 2), lambda xs: [x for x in xs if not x % 2]),
}


@given(
    names=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=6),
    numbers=st.lists(st.integers(0, 20), max_size=30),
    requests=st.lists(st.integers(1, 7), max_size=12),
    in_bulk=st.booleans(),
)
def test_any_chain_gives_what_lists_give_under_any_demand(
    names: list[str], numbers: list[int], requests: list[int], in_bulk: bool
) -> None:
    async def main() -> None:
        source: Any = Source.from_iterable(numbers if in_bulk else iter(numbers))
        expected = numbers
        for name in names:
            put_behind, of_list = STEPS[name]
            source, expected = put_behind(source), of_list(expected)
        sink = TestSink[int]()
        source.to(sink).run()
        for n in requests:
            sink.request(n)
            due = expected[:n]
            if due:
                assert await sink.expect_n(len(due)) == due
            expected = expected[n:]
        if expected:
            await sink.expect_no_message()
            sink.request(len(expected) + 1)
            assert await sink.expect_n(len(expected)) == expected
        else:
            sink.request(1)
        await sink.expect_complete()

    run_in_virtual_time(main())
