"""fold, reduce, stateful_map, zip_with_index, drop_while and intersperse."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams import UNBOUNDED, EmptyStreamError, Flow, Sink, Source
from streams.testkit import TestSink, TestSource, run_in_virtual_time


@given(st.lists(st.integers(1, 9), max_size=20), st.integers(0, 9))
def test_fold_and_reduce_do_what_they_do_to_a_list(values: list[int], zero: int) -> None:
    def step(left: int, right: int) -> int:
        return left * 3 + right

    expected = zero
    for value in values:
        expected = step(expected, value)
    assert Source.from_iterable(values).fold(zero, step).to(Sink.collect()).run_blocking() == [expected]
    if values:
        first, *rest = values
        assert (
            Source.from_iterable(values).reduce(step).to(Sink.collect()).run_blocking()
            == Source.from_iterable(rest).fold(first, step).to(Sink.collect()).run_blocking()
        )


def test_fold_asks_for_everything_once_it_is_asked_and_emits_at_the_end() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.fold(10, int.__add__).to(sink).run()
        await source.probe.expect_no_request()
        sink.request(1)
        await source.probe.expect_request(UNBOUNDED)
        source.probe.send_next(1, 2, 3)
        sink.request(5)
        await source.probe.expect_no_request()
        await sink.expect_no_message()
        source.probe.send_complete()
        await sink.expect_next(16)
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_the_zero_of_a_stream_that_ends_unasked_waits_for_demand() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.fold(10, int.__add__).to(sink).run()
        source.probe.send_complete()
        await sink.expect_no_message()
        await sink.request_next(10)
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_elements_that_come_after_the_cancellation_do_not_reach_the_function_of_fold() -> None:
    async def main() -> None:
        seen: list[int] = []
        source, sink = TestSource[int](), TestSink[int]()
        source.fold(0, lambda state, n: seen.append(n) or state).to(sink).run()  # type: ignore[func-returns-value]
        sink.request(1)
        source.probe.send_next(1)
        sink.cancel()
        source.probe.subscriber.on_next(2)
        assert seen == [1]

    run_in_virtual_time(main())


def test_reduce_of_nothing_fails_and_says_what_to_use_instead() -> None:
    with pytest.raises(EmptyStreamError, match=r"fold\(\)"):
        Source.empty().reduce(max).to(Sink.collect()).run_blocking()


@pytest.mark.parametrize("operator", ["fold", "reduce", "scan"])
def test_a_function_that_returns_none_fails_the_stream_at_that_step(operator: str) -> None:
    source = Source.of(1, 2, 3)
    flows = {
        "fold": source.fold(0, lambda _a, _b: None),
        "reduce": source.reduce(lambda _a, _b: None),  # type: ignore[arg-type,return-value]
        "scan": source.scan(0, lambda _a, _b: None),
    }
    with pytest.raises(TypeError, match="None is not an element") as caught:
        flows[operator].to(Sink.collect()).run_blocking()
    assert operator in "".join(caught.value.__notes__)


def test_a_state_is_made_for_each_run_of_stateful_map() -> None:
    def f(seen: list[int], n: int) -> tuple[list[int], int]:
        seen.append(n)
        return seen, len(seen)

    graph = Source.of(5, 6, 7).stateful_map(list, f).to(Sink.collect())
    assert graph.run_blocking() == graph.run_blocking() == [1, 2, 3]


def test_what_stateful_map_says_last_waits_for_demand() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.stateful_map(lambda: 0, lambda total, n: (total + n, n), lambda total: total).to(sink).run()
        sink.request(2)
        await source.probe.expect_request(2)
        source.probe.send_next(3, 4)
        source.probe.send_complete()
        await sink.expect_next(3, 4)
        await sink.expect_no_message()
        await sink.request_next(7)
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_what_stateful_map_says_last_comes_before_a_failure() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = source.stateful_map(lambda: 0, lambda total, n: (total + n, n), lambda total: total).to(sink).run()
        sink.request(2)
        source.probe.send_next(3)
        failure = OSError("broken")
        source.probe.send_error(failure)
        await sink.expect_next(3, 3)
        assert await sink.expect_error() is failure
        with pytest.raises(OSError, match="broken"):
            await running

    run_in_virtual_time(main())


@pytest.mark.parametrize("end", ["complete", "error", "cancel", "function", "bad request"])
def test_the_end_function_of_stateful_map_is_called_once_whatever_the_end(end: str) -> None:
    async def main() -> None:
        ends: list[int] = []

        def f(total: int, n: int) -> tuple[int, int]:
            if n == 13:
                raise KeyError(n)
            return total + n, n

        source, sink = TestSource[int](), TestSink[int]()
        running = source.stateful_map(lambda: 0, f, ends.append).to(sink).run()
        sink.request(5)
        source.probe.send_next(3)
        match end:
            case "complete":
                source.probe.send_complete()
            case "error":
                source.probe.send_error(OSError("broken"))
            case "cancel":
                sink.cancel()
            case "function":
                source.probe.send_next(13)
            case _:
                sink.request(-1)
        if end in {"complete", "cancel"}:
            await running
        else:
            with pytest.raises((OSError, KeyError, ValueError)):
                await running
        source.probe.send_complete()
        assert ends == [3]

    run_in_virtual_time(main())


def test_an_end_function_that_fails_fails_a_stream_that_had_completed() -> None:
    def burst(_state: int) -> int:
        raise KeyError("last words")

    graph = Source.of(1).stateful_map(lambda: 0, lambda s, n: (s, n), burst).to(Sink.collect())
    with pytest.raises(KeyError, match="last words") as caught:
        graph.run_blocking()
    assert "stateful_map" in "".join(caught.value.__notes__)


def test_an_end_function_that_fails_after_a_failure_is_only_reported(loop_reports: list[str]) -> None:
    def burst(_state: int) -> int:
        raise KeyError("last words")

    with pytest.raises(OSError, match="broken"):
        Source.failed(OSError("broken")).stateful_map(lambda: 0, lambda s, n: (s, n), burst).to(
            Sink.ignore()
        ).run_blocking()
    assert "on_complete function of stateful_map" in loop_reports[0]


def test_a_first_state_that_cannot_be_made_fails_the_stream() -> None:
    def burst() -> int:
        raise OSError("no state")

    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = source.stateful_map(burst, lambda s, n: (s, n)).to(sink).run()
        await sink.expect_error(OSError)
        await source.probe.expect_cancellation()
        with pytest.raises(OSError, match="no state"):
            await running

    run_in_virtual_time(main())


def test_zip_with_index_counts_each_run_from_zero() -> None:
    graph = Source.of("a", "b").zip_with_index().to(Sink.collect())
    assert graph.run_blocking() == graph.run_blocking() == [("a", 0), ("b", 1)]


@given(st.lists(st.integers(0, 5), max_size=20))
def test_drop_while_does_what_it_does_to_a_list(values: list[int]) -> None:
    calls: list[int] = []

    def below(n: int) -> bool:
        calls.append(n)
        return n < 3

    expected = list(itertools.dropwhile(lambda n: n < 3, values))
    assert Source.from_iterable(values).drop_while(below).to(Sink.collect()).run_blocking() == expected
    assert calls == values[: len(values) - len(expected) + 1]


def test_drop_while_of_everything_neither_recurses_nor_stalls() -> None:
    graph = Source.from_iterable(range(200_001)).drop_while(lambda n: n < 200_000).to(Sink.collect())
    assert graph.run_blocking() == [200_000]


def test_take_while_has_cancelled_upstream_before_it_emits_its_inclusive_last_element() -> None:
    async def main() -> None:
        cancelled: list[bool] = []
        source = TestSource[int]()
        graph = source.take_while(lambda n: n < 2, inclusive=True).to(
            Sink.foreach(lambda _: cancelled.append(source.probe.cancelled))
        )
        running = graph.run()
        await source.probe.expect_request()
        source.probe.send_next(1, 2)
        assert await running == 2
        assert cancelled == [False, True]

    run_in_virtual_time(main())


@given(
    st.lists(st.integers(0, 9), max_size=6),
    st.one_of(st.none(), st.just(0), st.just(-1)),
    st.one_of(st.none(), st.just(0), st.just(-2)),
    st.lists(st.integers(1, 3), min_size=30, max_size=30),
)
def test_intersperse_puts_its_elements_in_place_however_they_are_asked_for(
    values: list[int], start: int | None, end: int | None, requests: list[int]
) -> None:
    expected = [edge for edge in [start] if edge is not None]
    for position, value in enumerate(values):
        expected += [0, value] if position else [value]
    expected += [edge for edge in [end] if edge is not None]

    async def main() -> None:
        sink = TestSink[int]()
        running = Source.from_iterable(values).intersperse(0, start=start, end=end).to(sink).run()
        seen: list[int] = []
        for n in requests:
            if running.done():
                break
            sink.request(n)
            seen += await sink.expect_n(min(n, len(expected) - len(seen)))
            if len(seen) == len(expected):
                break
            await sink.expect_no_message()
        assert seen == expected
        if not running.done():
            sink.request(1)
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_intersperse_asks_for_one_element_at_a_time() -> None:
    async def main() -> None:
        source, sink = TestSource[str](), TestSink[str]()
        source.via(Flow[str, str].identity().intersperse(",", start="[", end="]")).to(sink).run()
        sink.request(3)
        await source.probe.expect_request(1)
        source.probe.send_next("a")
        await sink.expect_next("[", "a")
        await source.probe.expect_request(1)
        source.probe.send_next("b")
        await sink.expect_next(",")
        await source.probe.expect_no_request()
        source.probe.send_complete()
        await sink.expect_no_message()
        await sink.request_next("b", "]")
        await sink.expect_complete()

    run_in_virtual_time(main())


@pytest.mark.parametrize("operator", ["fold", "intersperse"])
def test_none_is_refused_where_an_element_is_wanted(operator: str) -> None:
    with pytest.raises(TypeError, match="None"):
        Source.of(1).fold(None, lambda _a, b: b) if operator == "fold" else Source.of(1).intersperse(None)  # type: ignore[arg-type]
