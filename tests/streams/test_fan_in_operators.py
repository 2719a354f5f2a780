"""Every operator that joins sources, against lists and by hand: order, ends, and values."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams import Flow, Keep, Sink, Source
from streams.stages.fan_in import FAN_IN_PREFETCH
from streams.testkit import TestSink, TestSource, run_in_virtual_time, settle
from tests.streams.catalogue.case import FlowCase
from tests.streams.catalogue.fan_in import FLOWS
from tests.streams.collected import collected

each_case = pytest.mark.parametrize("case", FLOWS, ids=[case.name for case in FLOWS])


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
