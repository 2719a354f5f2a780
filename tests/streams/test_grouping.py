"""sliding, grouped_weighted, and grouped_within by weight."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams import UNBOUNDED, Sink, Source
from streams.stages.weighted import MAX_WEIGHTLESS_GROUP
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time
from tests.streams.catalogue.rate import grouped_by_weight, slid


def now() -> float:
    return asyncio.get_running_loop().time()


@given(st.lists(st.integers(), max_size=25), st.integers(1, 6), st.integers(1, 6))
def test_sliding_does_what_it_does_to_a_list(values: list[int], size: int, step: int) -> None:
    graph = Source.from_iterable(values).sliding(size, step).to(Sink.collect())
    assert graph.run_blocking() == slid(values, size, step)


def test_the_windows_of_sliding_are_lists_of_their_own() -> None:
    async def main() -> None:
        sink = TestSink[list[int]]()
        Source.from_iterable(range(4)).sliding(3).to(sink).run()
        first = await sink.request_next([0, 1, 2])
        first.clear()
        assert await sink.request_next() == [1, 2, 3]

    run_in_virtual_time(main())


@given(st.integers(1, 5), st.integers(1, 5), st.lists(st.integers(1, 4), min_size=1, max_size=6))
def test_sliding_asks_for_exactly_what_its_windows_need(size: int, step: int, requests: list[int]) -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[list[int]]()
        source.sliding(size, step).to(sink).run()
        asked = 0
        for n in requests:
            sink.request(n)
            asked += n
            assert source.probe.demand.requested == size + (asked - 1) * step
        source.probe.send_next(*range(source.probe.demand.outstanding))
        await sink.expect_n(asked)
        await sink.expect_no_message()
        sink.cancel()

    run_in_virtual_time(main())


@pytest.mark.parametrize(("size", "step"), [(3, 1), (2, 7)])
def test_unbounded_demand_for_windows_stays_unbounded(size: int, step: int) -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = source.sliding(size, step).to(Sink.ignore()).run()
        await source.probe.expect_request(UNBOUNDED)
        running.cancel()

    run_in_virtual_time(main())


weights = st.lists(st.one_of(st.integers(0, 5), st.floats(0, 3).map(lambda w: round(w, 3))), max_size=30)


@given(weights, st.integers(1, 6), st.lists(st.integers(1, 3), max_size=8))
def test_grouped_weighted_fills_each_list_as_far_as_it_goes(
    values: list[float], most: int, requests: list[int]
) -> None:
    expected = grouped_by_weight(values, most, lambda w: w)  # type: ignore[arg-type]

    async def main() -> None:
        sink = TestSink[list[float]]()
        source = Source.from_iterable(values).grouped_weighted(most, lambda w: w)
        source.to(sink).run()
        await sink.expect_subscription()
        seen: list[list[float]] = []
        for n in requests:
            if len(seen) == len(expected):
                break
            sink.request(n)
            seen += await sink.expect_n(min(n, len(expected) - len(seen)))
            await_end = len(seen) == len(expected)
            if not await_end:
                await sink.expect_no_message()
        if len(seen) < len(expected):
            sink.request(len(expected) - len(seen))
            seen += await sink.expect_n(len(expected) - len(seen))
        assert seen == expected
        if not expected:
            sink.request(1)
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_grouped_weighted_holds_no_more_than_a_list_and_the_element_that_was_too_much() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[list[int]]()
        source.grouped_weighted(3, lambda n: n).to(sink).run()
        await source.probe.expect_no_request()
        sink.request(1)
        await source.probe.expect_request(1)
        source.probe.send_next(2)
        await source.probe.expect_request(1)
        source.probe.send_next(2)
        await sink.expect_next([2])
        await source.probe.expect_no_request()
        sink.request(1)
        await source.probe.expect_request(1)
        source.probe.send_next(1)
        await sink.expect_next([2, 1])
        source.probe.send_complete()
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_a_list_of_elements_without_weight_is_bound_by_its_number() -> None:
    count = MAX_WEIGHTLESS_GROUP + 1
    graph = Source.repeat(b"").take(count).grouped_weighted(10, len).map(len).to(Sink.collect())
    assert graph.run_blocking() == [MAX_WEIGHTLESS_GROUP, 1]


def test_a_weight_below_zero_fails_the_stream_and_says_where() -> None:
    def weight(n: int) -> int:
        return -n

    with pytest.raises(ValueError, match="must not be negative") as caught:
        Source.of(1).grouped_weighted(5, weight).to(Sink.ignore()).run_blocking()
    assert "grouped_weighted" in "".join(caught.value.__notes__)


def test_grouped_within_counts_bytes_when_it_is_given_a_greatest_weight() -> None:
    blocks = [b"aa", b"bb", b"c", b"dddddd", b"e"]
    graph = Source.from_iterable(blocks).grouped_within(10, 5, max_weight=5).to(Sink.collect())
    assert graph.run_blocking() == [[b"aa", b"bb", b"c"], [b"dddddd"], [b"e"]]


def test_the_time_of_an_element_that_waits_for_the_next_list_counts_from_its_coming() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[list[int]](timeout=100)
        source.grouped_within(10, 5, max_weight=3, weight=lambda n: n).to(sink).run()
        sink.request(1)
        source.probe.send_next(2)
        await elapse(1)
        source.probe.send_next(2)
        await sink.expect_next([2])
        assert now() == 1
        await sink.expect_no_message(2)
        sink.request(1)
        await sink.expect_next([2])
        assert now() == pytest.approx(6, abs=1e-6)
        sink.cancel()

    run_in_virtual_time(main())


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0]), st.integers(1, 4)), max_size=25),
    st.integers(1, 5),
    st.integers(1, 6),
)
def test_grouped_within_by_weight_follows_its_model(arrivals: list[tuple[float, int]], size: int, most: int) -> None:
    """Under unbounded demand a list ends when the next element is too much, when it is full, or when its time is up."""
    expected: list[tuple[float, list[int]]] = []
    clock, opened, group = 0.0, 0.0, list[int]()
    for gap, weight in arrivals:
        clock += gap
        if group and clock >= opened + 1.1:
            expected.append((opened + 1.1, group))
            group = []
        if group and sum(group) + weight > most:
            expected.append((clock, group))
            group = []
        if not group:
            opened = clock
        group.append(weight)
        if len(group) >= size or sum(group) >= most:
            expected.append((clock, group))
            group = []
    if group:
        expected.append((clock, group))

    async def main() -> None:
        source = TestSource[int]()
        seen: list[tuple[float, list[int]]] = []
        flow = source.grouped_within(size, 1.1, max_weight=most, weight=lambda n: n)
        running = flow.to(Sink.foreach(lambda group: seen.append((now(), group)))).run()
        for gap, weight in arrivals:
            if gap:
                await elapse(gap)
            source.probe.send_next(weight)
        source.probe.send_complete()
        await running
        assert [group for _, group in seen] == [group for _, group in expected]
        assert [at for at, _ in seen] == pytest.approx([at for at, _ in expected], abs=1e-6)

    run_in_virtual_time(main())
