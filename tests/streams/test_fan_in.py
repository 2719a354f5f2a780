"""merge, zip and concat."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams import Materialization, Publisher, Sink, Source, Subscriber, Subscription
from streams.stages.fan_in import FAN_IN_BLOCK, FAN_IN_PREFETCH
from streams.testkit import TestSink, TestSource, run_in_virtual_time, settle


@settings(deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=4), st.lists(st.integers(1, 5), max_size=10))
def test_merge_loses_nothing_and_keeps_the_order_of_each_input(sizes: list[int], requests: list[int]) -> None:
    inputs = [[(i, n) for n in range(size)] for i, size in enumerate(sizes)]

    async def main() -> None:
        first, *others = (Source.from_iterable(each) for each in inputs)
        sink = TestSink[Any]()
        running = first.merge(*others).to(sink).run()
        for n in requests:
            sink.request(n)
            await settle()
        sink.request(sum(sizes) + 1)
        seen = await sink.expect_n(sum(sizes))
        await sink.expect_complete()
        await running
        for i, each in enumerate(inputs):
            assert [element for element in seen if element[0] == i] == each

    run_in_virtual_time(main())


def test_merge_takes_elements_as_they_come_and_does_not_wait_for_a_silent_input() -> None:
    async def main() -> None:
        a, b, sink = TestSource[int](), TestSource[int](), TestSink[int]()
        a.merge(b).to(sink).run()
        await a.probe.expect_no_request()
        sink.request(10)
        await a.probe.expect_request(FAN_IN_PREFETCH)
        await b.probe.expect_request(FAN_IN_PREFETCH)
        b.probe.send_next(1, 2)
        a.probe.send_next(3)
        await sink.expect_next(1, 2, 3)
        a.probe.send_complete()
        b.probe.send_next(4)
        await sink.expect_next(4)
        b.probe.send_complete()
        await sink.expect_complete()

    run_in_virtual_time(main())


@pytest.mark.parametrize("operator", ["merge", "zip"])
def test_an_input_without_demand_below_holds_no_more_than_the_prefetch(operator: str) -> None:
    async def main() -> None:
        a, b, sink = TestSource[int](), TestSource[int](), TestSink[Any]()
        getattr(a, operator)(b).to(sink).run()
        sink.request(1)
        a.probe.send_next(*range(a.probe.demand.outstanding))
        b.probe.send_next(0)
        await settle()
        assert a.probe.demand.requested <= FAN_IN_PREFETCH + 1
        sink.cancel()
        assert a.probe.cancelled
        assert b.probe.cancelled

    run_in_virtual_time(main())


@pytest.mark.parametrize("operator", ["merge", "zip"])
def test_an_input_is_asked_for_exactly_as_much_as_has_gone_on(operator: str) -> None:
    async def main() -> None:
        a, b = TestSource[int](), TestSource[int]()
        running = getattr(a, operator)(b).to(Sink.ignore()).run()
        for n in range(10 * FAN_IN_PREFETCH):
            a.probe.send_next(n)
            b.probe.send_next(n)
            await asyncio.sleep(0)  # the turn that a merge gives the others after a block of one input
            for probe in (a.probe, b.probe):
                assert FAN_IN_PREFETCH // 2 < probe.demand.outstanding <= FAN_IN_PREFETCH
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run_in_virtual_time(main())


@pytest.mark.parametrize("operator", ["merge", "zip", "concat"])
def test_a_failure_of_one_input_fails_the_whole_and_cancels_the_others(operator: str) -> None:
    async def main() -> None:
        a, b, sink = TestSource[int](), TestSource[int](), TestSink[Any]()
        running = getattr(a, operator)(b).to(sink).run()
        sink.request(1)
        if operator == "concat":
            a.probe.send_complete()
            await b.probe.expect_subscription()
            b.probe.send_error(OSError("broken"))
        else:
            b.probe.send_error(OSError("broken"))
            assert a.probe.cancelled
            a.probe.subscriber.on_next(1)
        await sink.expect_error(OSError)
        await sink.expect_no_message()
        with pytest.raises(OSError, match="broken"):
            await running

    run_in_virtual_time(main())


@pytest.mark.parametrize("operator", ["merge", "zip", "concat"])
def test_a_request_for_less_than_one_fails_the_whole_rule_3_9(operator: str) -> None:
    async def main() -> None:
        a, sink = TestSource[int](), TestSink[Any]()
        running = getattr(a, operator)(Source.of(1)).to(sink).run()
        sink.request(-1)
        await sink.expect_error(ValueError)
        assert a.probe.cancelled
        with pytest.raises(ValueError, match=r"3\.9"):
            await running

    run_in_virtual_time(main())


@given(st.integers(0, 40), st.integers(0, 40))
def test_zip_pairs_up_and_ends_with_the_shorter(a: int, b: int) -> None:
    graph = Source.from_iterable(range(a)).zip(Source.from_iterable(map(str, range(b)))).to(Sink.collect())
    assert graph.run_blocking() == [(n, str(n)) for n in range(min(a, b))]


def test_zip_ends_as_soon_as_an_ended_input_is_used_up() -> None:
    async def main() -> None:
        a, b, sink = TestSource[int](), TestSource[int](), TestSink[Any]()
        a.zip(b).to(sink).run()
        sink.request(9)
        a.probe.send_next(1, 2)
        a.probe.send_complete()
        b.probe.send_next(7)
        await sink.expect_next((1, 7))
        await sink.expect_no_message()
        b.probe.send_next(8)
        await sink.expect_next((2, 8))
        await sink.expect_complete()
        assert b.probe.cancelled

    run_in_virtual_time(main())


def test_concat_creates_the_next_source_when_its_turn_comes_and_gives_it_the_demand_left() -> None:
    async def main() -> None:
        created: list[str] = []
        a, b, sink = TestSource[int](), TestSource[int](), TestSink[int]()

        def create(m: Materialization) -> tuple[Publisher[int], Any]:
            created.append("b")
            return b.create(m)

        a.concat(Source(create)).to(sink).run()
        sink.request(5)
        a.probe.send_next(1, 2)
        assert created == []
        a.probe.send_complete()
        assert created == ["b"]
        await b.probe.expect_request(3)
        b.probe.send_next(3)
        b.probe.send_complete()
        await sink.expect_next(1, 2, 3)
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_concat_cancelled_never_creates_the_next_source() -> None:
    async def main() -> None:
        def create(_m: Materialization) -> tuple[Publisher[int], Any]:
            raise AssertionError("created")

        assert await Source.of(1, 2).concat(Source(create)).take(2).to(Sink.collect()).run() == [1, 2]

    run_in_virtual_time(main())


def test_a_source_that_cannot_be_created_fails_the_concatenation() -> None:
    async def main() -> None:
        def create(_m: Materialization) -> tuple[Publisher[int], Any]:
            raise OSError("no such device")

        with pytest.raises(OSError, match="no such device"):
            await Source.of(1, 2).concat(Source(create)).to(Sink.collect()).run()

    run_in_virtual_time(main())


class EndsAtOnce(Publisher[int], Subscription):
    """Completes within subscribe(), as a publisher may."""

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        subscriber.on_subscribe(self)
        subscriber.on_complete()

    def request(self, n: int) -> None: ...

    def cancel(self) -> None: ...


def test_ten_thousand_sources_that_end_at_once_do_not_recurse() -> None:
    ending = Source.from_publisher(EndsAtOnce)
    graph = ending.concat(*[ending] * 10_000, *[Source.empty()] * 1000, Source.of(1)).to(Sink.collect())
    assert graph.run_blocking() == [1]


def test_merge_of_publishers_that_end_at_once_completes() -> None:
    ending = Source.from_publisher(EndsAtOnce)
    assert ending.merge(ending, Source.of(1)).to(Sink.collect()).run_blocking() == [1]
    assert ending.zip(Source.repeat(1)).to(Sink.collect()).run_blocking() == []


def test_an_endless_input_does_not_starve_the_loop_or_the_other_input() -> None:
    async def main() -> None:
        ticks: list[int] = []
        both = Source.repeat(-1).merge(Source.tick(0.001))

        def keep(element: int) -> None:
            if element >= 0:
                ticks.append(element)

        running = both.to(Sink.foreach(keep)).run()
        for _ in range(100):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert ticks == [0]

    run_in_virtual_time(main())


@pytest.mark.parametrize("operator", ["merge", "merge_preferred", "merge_prioritized"])
def test_sources_that_emit_on_the_spot_take_turns_in_blocks(operator: str) -> None:
    """Neither has more than a block, and what it had been asked for, before the other has its turn."""

    async def main() -> list[Any]:
        ones, twos = Source.repeat(1), Source.repeat(2)
        merged: Any = (
            ones.merge_prioritized(twos, 1, 1) if operator == "merge_prioritized" else getattr(ones, operator)(twos)
        )
        elements: list[Any] = await merged.take(5_000).to(Sink.collect()).run()
        return elements

    elements = run_in_virtual_time(main())
    runs = [len(list(run)) for _, run in itertools.groupby(elements)]
    assert max(runs) <= FAN_IN_BLOCK + FAN_IN_PREFETCH
    assert 0.4 < elements.count(1) / len(elements) < 0.6
