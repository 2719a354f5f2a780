"""Source.queue: a bounded queue that a program feeds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from streams import Sink, Source, SourceQueue, StreamClosedError
from streams.testkit import TestSink, TestSubscriber, run_in_virtual_time, settle


def queue(bound: int) -> tuple[Any, SourceQueue[int], TestSink[int]]:
    sink = TestSink[int]()
    running = Source.queue(bound).to(sink).run()
    return running, running.value, sink


def test_a_full_queue_refuses_an_offer() -> None:
    async def main() -> None:
        running, offers, sink = queue(2)
        assert [offers.offer(n) for n in (1, 2, 3)] == [True, True, False]
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
