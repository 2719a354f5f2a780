"""Source.queue: a bounded queue that a program feeds."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from streams import (
    BufferOverflowError,
    Materialization,
    OverflowStrategy,
    QueueOfferResult,
    Sink,
    Source,
    SourceQueue,
    StreamClosedError,
    TooManyWaitersError,
)
from streams.testkit import TestSink, TestSubscriber, run_in_virtual_time, settle

ENQUEUED, DROPPED = QueueOfferResult.ENQUEUED, QueueOfferResult.DROPPED


def queue(bound: int) -> tuple[Any, SourceQueue[int], TestSink[int]]:
    sink = TestSink[int]()
    running = Source.queue(bound).to(sink).run()
    return running, running.value, sink


def test_a_full_queue_refuses_an_offer() -> None:
    async def main() -> None:
        running, offers, sink = queue(2)
        assert [offers.offer(n) for n in (1, 2, 3)] == [ENQUEUED, ENQUEUED, DROPPED]
        assert ENQUEUED
        assert not DROPPED
        assert len(offers) == 2
        await sink.request_next(1)
        assert offers.offer(4)
        await sink.request_next(2, 4)
        offers.complete()
        await sink.expect_complete()
        await running

    run_in_virtual_time(main())


def test_what_downstream_wants_goes_straight_on() -> None:
    async def main() -> None:
        _, offers, sink = queue(1)
        sink.request(5)
        assert all(offers.offer(n) for n in range(5))
        assert len(offers) == 0
        await sink.expect_next(0, 1, 2, 3, 4)

    run_in_virtual_time(main())


def test_waiting_offers_are_served_in_turn_and_hold_up_later_ones() -> None:
    async def main() -> None:
        _, offers, sink = queue(1)
        assert offers.offer(0)
        waiting = [asyncio.create_task(offers.offer_wait(n)) for n in (1, 2, 3)]
        await settle()
        assert not any(task.done() for task in waiting)
        assert not offers.offer(9)
        await sink.request_next(0)
        await settle()
        assert [task.done() for task in waiting] == [True, False, False]
        waiting[1].cancel()
        await settle()
        await sink.request_next(1, 3)
        await waiting[2]

    run_in_virtual_time(main())


def test_an_offer_from_within_the_stream_does_not_overtake_one_that_waits() -> None:
    class Eager(TestSink[int]):
        overtaken = False

        def on_next(self, element: int) -> None:
            super().on_next(element)
            if element == 0:
                self.overtaken = running.value.offer(9)

    async def main() -> None:
        nonlocal running
        sink = Eager()
        running = Source.queue(1).to(sink).run()
        running.value.offer(0)
        waiting = asyncio.create_task(running.value.offer_wait(1))
        await settle()
        await sink.request_next(0)
        assert not sink.overtaken
        await waiting
        await sink.request_next(1)
        sink.cancel()

    running: Any = None
    run_in_virtual_time(main())


def test_complete_lets_what_waits_go_first_and_refuses_offers() -> None:
    async def main() -> None:
        running, offers, sink = queue(1)
        offers.offer(0)
        waiting = asyncio.create_task(offers.offer_wait(1))
        await settle()
        offers.complete()
        with pytest.raises(StreamClosedError):
            offers.offer(2)
        sink.request(5)
        await sink.expect_next(0, 1)
        await sink.expect_complete()
        await waiting
        await running

    run_in_virtual_time(main())


def test_fail_fails_the_stream_at_once() -> None:
    async def main() -> None:
        running, offers, sink = queue(1)
        offers.offer(0)
        waiting = asyncio.create_task(offers.offer_wait(1))
        await settle()
        offers.fail(OSError("broken"))
        await sink.expect_error(OSError)
        with pytest.raises(StreamClosedError):
            await waiting
        with pytest.raises(OSError, match="broken"):
            await running

    run_in_virtual_time(main())


def test_a_cancelled_stream_refuses_offers_waiting_ones_too() -> None:
    async def main() -> None:
        running, offers, sink = queue(1)
        offers.offer(0)
        waiting = asyncio.create_task(offers.offer_wait(1))
        await settle()
        sink.cancel()
        with pytest.raises(StreamClosedError):
            await waiting
        with pytest.raises(StreamClosedError):
            offers.offer(2)
        offers.complete()
        await running

    run_in_virtual_time(main())


def test_none_cannot_be_offered_and_a_bound_below_one_makes_no_sense() -> None:
    async def main() -> None:
        _, offers, _ = queue(1)
        with pytest.raises(TypeError, match=r"2\.13"):
            offers.offer(None)  # type: ignore[arg-type]  # what is tested

    run_in_virtual_time(main())
    with pytest.raises(ValueError, match="bound"):
        Source.queue(0)


def test_a_second_subscriber_is_refused_with_an_error_signal() -> None:
    async def main() -> None:
        _, offers, _ = queue(1)
        second = TestSubscriber[int]()
        offers.subscribe(second)
        await second.expect_error(StreamClosedError)

    run_in_virtual_time(main())


def test_a_sink_that_offers_more_from_within_does_not_recurse() -> None:
    async def main() -> None:
        def offer_next(n: int) -> None:
            if n < 50_000:
                assert running.value.offer(n + 1)
            else:
                running.value.complete()

        running = Source.queue(1).to(Sink.foreach(offer_next)).run()
        running.value.offer(0)
        assert await running == 50_001

    run_in_virtual_time(main())


@pytest.mark.parametrize(
    ("overflow", "results", "kept"),
    [
        (OverflowStrategy.BACKPRESSURE, [ENQUEUED, ENQUEUED, DROPPED], [1, 2]),
        (OverflowStrategy.DROP_NEW, [ENQUEUED, ENQUEUED, DROPPED], [1, 2]),
        (OverflowStrategy.DROP_HEAD, [ENQUEUED, ENQUEUED, ENQUEUED], [2, 3]),
        (OverflowStrategy.DROP_TAIL, [ENQUEUED, ENQUEUED, ENQUEUED], [1, 3]),
        (OverflowStrategy.DROP_BUFFER, [ENQUEUED, ENQUEUED, ENQUEUED], [3]),
    ],
)
def test_what_an_offer_to_a_full_queue_does_is_its_strategy(
    overflow: OverflowStrategy, results: list[QueueOfferResult], kept: list[int]
) -> None:
    async def main() -> None:
        running = Source.queue(2, overflow).to(Sink.queue(1)).run()
        offers: SourceQueue[int] = running.value
        assert offers.offer(0)  # on its way: the sink has asked for one
        assert [offers.offer(n) for n in (1, 2, 3)] == results
        offers.complete()
        running.abandon()
        assert len(offers) == 0

    async def taken() -> None:
        sink = TestSink[int]()
        running = Source.queue(2, overflow).to(sink).run()
        assert [running.value.offer(n) for n in (1, 2, 3)] == results
        running.value.complete()
        sink.request(9)
        await sink.expect_next(*kept)
        await sink.expect_complete()
        await running

    run_in_virtual_time(main())
    run_in_virtual_time(taken())


def test_with_the_strategy_fail_an_offer_too_many_fails_the_stream_and_is_told_why() -> None:
    async def main() -> None:
        sink = TestSink[int]()
        running = Source.queue(1, OverflowStrategy.FAIL).to(sink).run()
        offers: SourceQueue[int] = running.value
        assert offers.offer(1)
        with pytest.raises(BufferOverflowError, match="1 elements"):
            offers.offer(2)
        await sink.expect_error(BufferOverflowError)
        with pytest.raises(StreamClosedError) as refused:
            await offers.offer_wait(3)
        assert isinstance(refused.value.__cause__, BufferOverflowError)
        with pytest.raises(BufferOverflowError):
            await offers.watch_completion()
        with pytest.raises(BufferOverflowError):
            await running

    run_in_virtual_time(main())


def test_offer_wait_waits_only_where_the_queue_holds_back() -> None:
    async def main() -> None:
        running = Source.queue(1, OverflowStrategy.DROP_NEW).to(TestSink[int]()).run()
        assert await running.value.offer_wait(1) is ENQUEUED
        assert await running.value.offer_wait(2) is DROPPED
        running.abandon()

    run_in_virtual_time(main())


def test_no_more_than_max_waiting_offers_wait() -> None:
    async def main() -> None:
        sink = TestSink[int]()
        running = Source.queue(1, max_waiting_offers=2).to(sink).run()
        offers: SourceQueue[int] = running.value
        assert offers.offer(0)
        waiting = [asyncio.create_task(offers.offer_wait(n)) for n in (1, 2)]
        await settle()
        with pytest.raises(TooManyWaitersError, match=r"2 callers wait .*max_waiting_offers") as caught:
            await offers.offer_wait(3)
        assert caught.value.limit == 2
        sink.request(3)
        await sink.expect_next(0, 1, 2)
        assert [await task for task in waiting] == [ENQUEUED, ENQUEUED]
        running.abandon()

    run_in_virtual_time(main())
    with pytest.raises(ValueError, match="max_waiting_offers"):
        Source.queue(1, max_waiting_offers=0)


def test_a_queue_that_was_completed_ends_when_the_last_waiting_offer_is_given_up() -> None:
    async def main() -> None:
        running, offers, sink = queue(1)
        offers.offer(0)
        waiting = asyncio.create_task(offers.offer_wait(1))
        await settle()
        offers.complete()
        await sink.request_next(0)
        await waiting
        late = [asyncio.create_task(offers.watch_completion()) for _ in range(2)]
        await settle()
        late.pop().cancel()
        assert not late[0].done()
        await sink.request_next(1)
        await sink.expect_complete()
        assert await late[0] is None
        assert await offers.watch_completion() is None
        await running

    async def given_up() -> None:
        running, offers, sink = queue(1)
        offers.offer(0)
        waiting = asyncio.create_task(offers.offer_wait(1))
        await settle()
        offers.complete()
        waiting.cancel()
        await sink.request_next(0)
        await sink.expect_complete()
        await running

    run_in_virtual_time(main())
    run_in_virtual_time(given_up())


def test_watch_completion_ends_with_a_cancellation_and_raises_a_failure() -> None:
    async def main() -> None:
        _, offers, sink = queue(1)
        watching = asyncio.create_task(offers.watch_completion())
        await settle()
        sink.cancel()
        assert await watching is None
        failing, offers, sink = queue(1)
        offers.fail(OSError("broken"))
        with pytest.raises(OSError, match="broken"):
            await offers.watch_completion()
        failing.abandon()

    run_in_virtual_time(main())


def test_a_run_that_ends_elsewhere_lets_go_of_those_who_wait() -> None:
    """The queue's part of the graph is never subscribed to, so no cancellation comes that way."""

    async def main() -> None:
        m = Materialization(asyncio.get_running_loop())
        _, offers = Source.queue(1).create(m)
        assert offers.offer(0)
        waiting = asyncio.create_task(offers.offer_wait(1))
        await settle()
        await m._settle()
        with pytest.raises(StreamClosedError):
            await waiting
        assert await offers.watch_completion() is None

    run_in_virtual_time(main())


def test_a_subscriber_that_raises_ends_the_queue_and_a_kept_handle_does_not_keep_the_stream() -> None:
    async def main() -> None:
        def burst(_element: int) -> None:
            raise OSError("broken")

        sink = TestSink[int]()
        sink.on_next = burst  # type: ignore[method-assign]  # a subscriber that breaks rule 2.13
        running = Source.queue(1).to(sink).run()
        offers: SourceQueue[int] = running.value
        sink.request(1)
        assert offers.offer(1)
        with pytest.raises(OSError, match="broken"):
            await running
        with pytest.raises(StreamClosedError):
            offers.offer(2)
        gone = weakref.ref(sink)
        del sink, running
        gc.collect()
        assert gone() is None

    run_in_virtual_time(main())


def test_a_task_that_only_offers_to_a_stream_that_takes_all_leaves_the_loop_its_turns() -> None:
    async def main() -> None:
        running = Source.queue(1).to(Sink.ignore()).run()

        async def feed() -> None:
            while True:
                await running.value.offer_wait(1)

        feeding = asyncio.create_task(feed())
        for _ in range(20):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(StreamClosedError):
            await feeding

    run_in_virtual_time(main())
