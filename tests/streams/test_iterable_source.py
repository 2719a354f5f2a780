"""Sources of iterables: lazy, fair to the loop, and tidy."""

from __future__ import annotations

import asyncio
import itertools
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from streams import UNBOUNDED, Sink, Source, Subscriber, Subscription
from streams.publishers.iterable import EMIT_BUDGET
from streams.testkit import TestSink, run_in_virtual_time, settle


def test_no_more_is_taken_from_an_iterable_than_is_asked_for() -> None:
    taken: list[int] = []

    def numbers() -> Iterator[int]:
        for n in itertools.count():
            taken.append(n)
            yield n

    async def main() -> None:
        sink = TestSink[int]()
        Source.iterable(numbers).to(sink).run()
        await sink.expect_no_message()
        assert taken == []
        sink.request(3)
        await sink.expect_next(0, 1, 2)
        assert taken == [0, 1, 2]
        sink.cancel()

    run_in_virtual_time(main())


def test_an_endless_iterable_under_unbounded_demand_leaves_the_loop_its_turns() -> None:
    async def main() -> None:
        seen = 0

        def count(_element: int) -> None:
            nonlocal seen
            seen += 1

        running = Source.repeat(1).to(Sink.foreach(count)).run()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert 0 < seen <= 2 * EMIT_BUDGET
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run_in_virtual_time(main())


def test_small_requests_in_one_turn_share_the_turns_budget() -> None:
    """A subscriber that requests again and again from outside on_next cannot keep the loop either."""

    async def main() -> None:
        sink = TestSink[int]()
        Source.repeat(1).to(sink).run()
        await settle()
        for _ in range(3 * EMIT_BUDGET):
            sink.request(1)
        assert len(sink._signals) == EMIT_BUDGET
        assert await sink.expect_n(3 * EMIT_BUDGET) == [1] * (3 * EMIT_BUDGET)
        sink.cancel()

    run_in_virtual_time(main())


@pytest.mark.parametrize("sized", [(1, 2), [1, 2], range(1, 3), b"\x01\x02"])
def test_the_end_of_what_has_a_length_follows_its_last_element(sized: Any) -> None:
    async def main() -> None:
        sink = TestSink[int]()
        Source.from_iterable(sized).to(sink).run()
        await sink.request_next(1, 2)
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_the_empty_and_the_failed_stream_end_without_demand() -> None:
    async def main() -> None:
        sink = TestSink[int]()
        Source.empty().to(sink).run()
        await sink.expect_complete()
        failed = TestSink[int]()
        running = Source.failed(OSError("broken")).to(failed).run()
        await failed.expect_error(OSError)
        with pytest.raises(OSError, match="broken"):
            await running

    run_in_virtual_time(main())


@pytest.mark.parametrize("end", ["take", "cancel before", "cancel while idle", "failure below"])
def test_a_generator_that_a_factory_made_is_closed_whatever_way_the_stream_ends(end: str) -> None:
    closed: list[str] = []

    def numbers() -> Iterator[int]:
        try:
            yield from itertools.count()
        finally:
            closed.append("closed")

    async def main() -> None:
        source = Source.iterable(numbers)
        if end == "take":
            assert await source.take(2).to(Sink.collect()).run() == [0, 1]
        elif end == "failure below":
            with pytest.raises(ZeroDivisionError):
                await source.map(lambda n: 1 // (n - 1)).to(Sink.ignore()).run()
        else:
            sink = TestSink[int]()
            running = source.to(sink).run()
            if end == "cancel while idle":
                await sink.request_next(0)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        assert closed == ([] if end == "cancel before" else ["closed"])

    run_in_virtual_time(main())


def test_an_iterator_of_the_callers_own_is_left_where_the_stream_left_it() -> None:
    numbers = (n for n in range(10))
    assert Source.from_iterable(numbers).take(3).to(Sink.collect()).run_blocking() == [0, 1, 2]
    assert next(numbers) == 3


def test_an_iterable_that_raises_fails_the_stream_after_what_it_gave() -> None:
    def burst() -> Iterator[int]:
        yield 1
        raise OSError("burst")

    seen: list[int] = []
    with pytest.raises(OSError, match="burst"):
        Source.iterable(burst).to(Sink.foreach(seen.append)).run_blocking()
    assert seen == [1]


def test_a_factory_that_raises_fails_the_stream() -> None:
    def burst() -> Iterator[int]:
        raise OSError("no such thing")

    with pytest.raises(OSError, match="no such thing"):
        Source.iterable(burst).to(Sink.ignore()).run_blocking()


def test_a_none_in_an_iterable_fails_the_stream_rule_2_13() -> None:
    with pytest.raises(TypeError, match=r"2\.13"):
        Source.of(1, None).to(Sink.collect()).run_blocking()


def test_what_is_neither_iterable_nor_a_factory_is_refused() -> None:
    with pytest.raises(TypeError, match="not int"):
        Source.from_iterable(5)  # type: ignore[arg-type]  # what is tested


def test_a_subscriber_that_raises_fails_the_run_and_is_not_lost() -> None:
    class Broken(TestSink[int]):
        def on_next(self, element: int) -> None:
            raise OSError("a broken subscriber")

    async def main() -> None:
        sink = Broken()
        running = Source.repeat(1).to(sink).run()
        sink.request(1)
        with pytest.raises(OSError, match="a broken subscriber"):
            await running

    run_in_virtual_time(main())


def test_requests_within_on_next_do_not_deepen_the_stack_rule_3_3() -> None:
    class OneByOne(TestSink[int]):
        def on_next(self, element: int) -> None:
            self.count = element
            self.request(1)

    async def main() -> None:
        sink = OneByOne()
        running = Source.from_iterable(range(100_000)).map(lambda n: n).to(sink).run()
        sink.request(1)
        await running
        assert sink.count == 99_999

    run_in_virtual_time(main())


def test_demand_beyond_unbounded_saturates_rule_3_17() -> None:
    async def main() -> None:
        sink = TestSink[int]()
        Source.of(1, 2, 3).to(sink).run()
        sink.request(UNBOUNDED)
        sink.request(UNBOUNDED)
        await sink.expect_next(1, 2, 3)
        await sink.expect_complete()

    run_in_virtual_time(main())


class OneByOne(Subscriber[int]):
    """Asks for the next element within on_next, and for another number of them where it is told to."""

    def __init__(self, also: dict[int, Callable[[Subscription], None]] | None = None) -> None:
        self.also = also or {}
        self.depths: set[int] = set()
        self.seen: list[Any] = []

    def on_subscribe(self, subscription: Subscription) -> None:
        self.subscription = subscription
        subscription.request(1)

    def on_next(self, element: int) -> None:
        self.depths.add(sum(1 for _ in traceback.walk_stack(None)))
        self.seen.append(element)
        self.also.get(len(self.seen), lambda subscription: subscription.request(1))(self.subscription)

    def on_error(self, error: BaseException) -> None:
        self.seen.append(type(error))

    def on_complete(self) -> None:
        self.seen.append("end")


def test_one_element_at_a_time_leaves_the_loop_its_turns_and_the_stack_as_it_is() -> None:
    async def main() -> None:
        one_by_one = OneByOne()
        running = Source.repeat(1).run_with(Sink.from_subscriber(lambda: one_by_one))
        for turn in range(1, 4):
            await asyncio.sleep(0)
            assert len(one_by_one.seen) <= turn * EMIT_BUDGET
        assert len(one_by_one.seen) >= EMIT_BUDGET
        assert len(one_by_one.depths) == 1
        await running.stop()

    run_in_virtual_time(main())


@pytest.mark.parametrize("at", [1, 2, 5])
def test_a_cancel_among_single_requests_is_the_end_there_and_closes_the_generator(at: int) -> None:
    closed: list[int] = []

    def numbers() -> Iterator[int]:
        n = 0
        try:
            for n in itertools.count(1):
                yield n
        finally:
            closed.append(n)

    async def main() -> None:
        one_by_one = OneByOne({at: lambda subscription: subscription.cancel()})
        await Source.iterable(numbers).run_with(Sink.from_subscriber(lambda: one_by_one))
        assert one_by_one.seen == list(range(1, at + 1))
        assert closed == [at]

    run_in_virtual_time(main())


@pytest.mark.parametrize("iterable", [range(9), lambda: iter(range(9))])
def test_single_requests_among_others_give_every_element_once_and_no_more_than_was_asked_for(iterable: Any) -> None:
    async def main() -> None:
        nothing: Callable[[Subscription], None] = lambda subscription: None  # noqa: E731 - beside the others
        one_by_one = OneByOne({2: lambda subscription: subscription.request(3), 3: nothing, 4: nothing, 5: nothing})
        running = Source.from_iterable(iterable).run_with(Sink.from_subscriber(lambda: one_by_one))
        await settle()
        assert one_by_one.seen == [0, 1, 2, 3, 4]
        one_by_one.also.clear()
        one_by_one.subscription.request(1)
        await running
        assert one_by_one.seen == [*range(9), "end"]

    run_in_virtual_time(main())


@pytest.mark.parametrize("at", [1, 2, 5])
def test_a_mistake_among_single_requests_ends_the_stream_there(at: int) -> None:
    async def main() -> None:
        wrong = OneByOne({at: lambda subscription: subscription.request(0)})
        with pytest.raises(ValueError, match="at least 1"):
            await Source.from_iterable(range(9)).run_with(Sink.from_subscriber(lambda: wrong))
        assert wrong.seen == [*range(at), ValueError]
        failing = OneByOne({at: lambda _subscription: 1 // 0})
        with pytest.raises(ZeroDivisionError):
            await Source.from_iterable(range(9)).run_with(Sink.from_subscriber(lambda: failing))
        assert failing.seen == list(range(at))
        none = OneByOne()
        given = [*range(at), None, at]
        with pytest.raises(TypeError, match="None"):
            await Source.from_iterable(given).run_with(Sink.from_subscriber(lambda: none))
        assert none.seen == [*range(at), TypeError]

    run_in_virtual_time(main())
