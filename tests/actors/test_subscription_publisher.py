"""The actor of a subscription's connection: requests, answers, and a fetch streamed under demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from actors import (
    DemandSignalled,
    FetchedMessages,
    MessageBatch,
    MessagesReserved,
    ReservationCommitted,
    SubscriptionOpened,
    SubscriptionOptions,
    SubscriptionPublisher,
    Writable,
)
from actors.queue.vocabulary.commands import CommitRequested, FetchRequested, Left, OpenSubscription, ReserveRequested
from actors.queue.vocabulary.replies import FetchedRanges, QueueDeleted, Refused
from streams.testkit import settle
from tests.actors.stored_queues import Connection as RecordingQueue

OPENED = SubscriptionOpened(1, 0, 0, 0)


class RecordingPort:
    """What the client would be told."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.closed = False

    def tell(self, reply: Any) -> None:
        self.told.append(reply)

    def fetched(self, request: int, message: Any) -> None:
        self.told.append(("fetched", request, message))

    def fetch_ended(self, request: int, messages: int) -> None:
        self.told.append(("end", request, messages))

    def refused(self, code: str, text: str, close: bool = True) -> None:
        self.closed = self.closed or close
        self.told.append(("refused", code))


class Bench:
    """A subscription's connection between a recorded queue and a recorded client."""

    def __init__(self, **options: Any) -> None:
        values: dict[str, Any] = {
            "name": "query",
            "mode": "own",
            "epoch": None,
            "starting": "earliest",
            "owner_timeout": None,
        }
        self.received: list[Any] = []
        self.queue = RecordingQueue.start(self.received)
        self.port = RecordingPort()
        self.ref = SubscriptionPublisher.start(self.queue, SubscriptionOptions(**(values | options)), self.port)

    async def tell(self, *messages: Any) -> None:
        for message in messages:
            self.ref.tell(message)
        await settle()

    async def opened(self) -> Bench:
        await self.tell(OPENED)
        self.port.told.clear()
        return self

    def payloads(self) -> list[bytes]:
        """What was fetched so far."""
        found: list[bytes] = []
        for told in self.port.told:
            if isinstance(told, tuple) and told[0] == "fetched":
                found += told[2].batch.payloads.tolist()
        return found

    def ends(self) -> list[Any]:
        return [told for told in self.port.told if isinstance(told, tuple) and told[0] == "end"]

    async def close(self) -> None:
        await self.ref.stop(block=False)
        await self.queue.stop(block=False)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), 10))


def fetched(position: int, count: int) -> FetchedMessages:
    payloads = [b"%d" % number for number in range(position, position + count)]
    return FetchedMessages(position, 100 + position, MessageBatch.from_payloads(payloads), 1, 1, False)


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_it_opens_its_subscription_as_it_was_told() -> None:
    async def main() -> None:
        bench = Bench(mode="read", epoch=3, starting="latest", owner_timeout=1.5)
        await settle()
        assert bench.received == [OpenSubscription("query", "read", 3, "latest", 1.5, connection=bench.ref)]
        await bench.tell(OPENED)
        assert bench.port.told == [OPENED]
        await bench.close()

    run(main)


def test_reservations_and_commits_are_passed_on_and_answered() -> None:
    async def main() -> None:
        bench = await Bench().opened()
        await bench.tell(ReserveRequested(1, 0, 10, 1000, 2.5, 7), CommitRequested(2, 4))
        assert bench.received[1:] == [
            ReserveRequested(1, 0, 10, 1000, 2.5, 7, connection=bench.ref),
            CommitRequested(2, 4, connection=bench.ref),
        ]
        answers = [MessagesReserved(1, 10, {"backlog": 0}), ReservationCommitted(2, 4)]
        await bench.tell(*answers)
        assert bench.port.told == answers
        await bench.close()

    run(main)


def test_a_fetch_without_demand_sends_nothing() -> None:
    async def main() -> None:
        bench = await Bench().opened()
        await bench.tell(FetchRequested(5, 0, 10), FetchedRanges(5, [fetched(0, 10)]))
        assert bench.received[-1] == FetchRequested(5, 0, 10, connection=bench.ref)
        assert bench.port.told == []
        await bench.close()

    run(main)


@pytest.mark.parametrize("step", [1, 3, 10, 100])
def test_a_fetch_is_streamed_as_demand_comes_and_ends_with_its_count(step: int) -> None:
    async def main() -> None:
        bench = await Bench().opened()
        ranges = [fetched(0, 4), fetched(4, 1), fetched(5, 5)]
        await bench.tell(FetchRequested(5, 0, 10), FetchedRanges(5, ranges))
        granted = 0
        while granted < 10:
            granted += step
            await bench.tell(DemandSignalled(step, 1000))
            assert bench.payloads() == numbers(10)[:granted]
        assert bench.port.told[-1] == ("end", 5, 10)
        assert bench.ends() == [("end", 5, 10)]
        parts = [told[2] for told in bench.port.told if told[0] == "fetched"]
        position = 0
        for part in parts:
            assert (part.position, part.first) == (position, 100 + position)
            position += len(part.batch)
        await bench.close()

    run(main)


def test_the_next_step_of_a_fetch_is_asked_for_when_the_last_is_sent_and_more_is_wanted() -> None:
    async def main() -> None:
        bench = await Bench().opened()
        await bench.tell(FetchRequested(5, 0, 10), FetchedRanges(5, [fetched(0, 4)], 4), DemandSignalled(4, 1000))
        assert bench.payloads() == numbers(4)
        assert bench.received[-1] == FetchRequested(5, 0, 10, connection=bench.ref), "nothing is wanted"
        await bench.tell(DemandSignalled(6, 1000))
        assert bench.received[-1] == FetchRequested(5, 4, 10, connection=bench.ref)
        await bench.tell(FetchedRanges(5, [fetched(4, 6)]))
        assert bench.payloads() == numbers(10)
        assert bench.ends() == [("end", 5, 10)]
        await bench.close()

    run(main)


def test_a_step_that_is_refused_ends_its_fetch_and_not_the_connection() -> None:
    async def main() -> None:
        bench = await Bench().opened()
        await bench.tell(DemandSignalled(100, 1000), FetchRequested(5, 0, 10), FetchedRanges(5, [fetched(0, 4)], 4))
        await bench.tell(Refused("data-loss", "gone", 5, close=False))
        assert bench.ends() == []
        await bench.tell(FetchRequested(6, 0, 2), FetchedRanges(6, [fetched(0, 2)]))
        assert bench.ends() == [("end", 6, 2)]
        await bench.close()

    run(main)


def test_bytes_bound_a_fetch_too() -> None:
    async def main() -> None:
        bench = await Bench().opened()
        await bench.tell(FetchRequested(5, 0, 3), FetchedRanges(5, [fetched(0, 3)]), DemandSignalled(100, 1))
        assert bench.payloads() == [b"0"]
        await bench.tell(DemandSignalled(0, 1000))
        assert bench.payloads() == numbers(3)
        await bench.close()

    run(main)


def test_demand_that_came_before_the_fetch_counts() -> None:
    async def main() -> None:
        bench = await Bench().opened()
        await bench.tell(DemandSignalled(10, 1000), FetchRequested(5, 0, 2), FetchedRanges(5, [fetched(0, 2)]))
        assert bench.payloads() == numbers(2)
        assert bench.ends() == [("end", 5, 2)]
        await bench.close()

    run(main)


def test_an_empty_fetch_ends_at_once_without_demand() -> None:
    async def main() -> None:
        bench = await Bench().opened()
        await bench.tell(FetchRequested(5, 3, 3), FetchedRanges(5, []))
        assert bench.port.told == [("end", 5, 0)]
        await bench.close()

    run(main)


def test_a_fetch_pauses_while_the_socket_takes_nothing() -> None:
    async def main() -> None:
        bench = await Bench().opened()
        await bench.tell(Writable(False), DemandSignalled(10, 1000))
        await bench.tell(FetchRequested(5, 0, 2), FetchedRanges(5, [fetched(0, 2)]))
        assert bench.port.told == []
        await bench.tell(Writable(True))
        assert bench.payloads() == numbers(2)
        assert bench.ends() == [("end", 5, 2)]
        await bench.close()

    run(main)


def test_one_fetch_after_another_is_fine_and_two_at_a_time_end_the_connection() -> None:
    async def main() -> None:
        bench = await Bench().opened()
        await bench.tell(DemandSignalled(10, 1000))
        for request in (5, 6):
            await bench.tell(FetchRequested(request, 0, 2), FetchedRanges(request, [fetched(0, 2)]))
        assert bench.ends() == [("end", 5, 2), ("end", 6, 2)]
        await bench.tell(FetchRequested(7, 0, 2), FetchRequested(8, 0, 2))
        assert bench.port.told[-1] == ("refused", "protocol-error")
        assert bench.port.closed
        await bench.close()

    run(main)


def test_a_request_that_is_refused_leaves_the_connection_to_the_next() -> None:
    async def main() -> None:
        bench = await Bench().opened()
        await bench.tell(FetchRequested(5, 0, 2), Refused("data-loss", "gone", 5, False))
        assert bench.port.told == [("refused", "data-loss")]
        assert not bench.port.closed
        await bench.tell(DemandSignalled(10, 1000), FetchRequested(6, 0, 2), FetchedRanges(6, [fetched(0, 2)]))
        assert bench.ends() == [("end", 6, 2)]
        await bench.close()

    run(main)


def test_a_subscription_that_is_refused_ends_its_connection_whatever_the_reason() -> None:
    async def main() -> None:
        bench = Bench(mode="read", epoch=1)
        await bench.tell(Refused("not-found", "no such subscription", None, False))
        assert bench.port.told == [("refused", "not-found")]
        assert bench.port.closed
        await bench.close()

    run(main)


@pytest.mark.parametrize(
    ("message", "code"),
    [(Refused("internal-error", "the queue failed"), "internal-error"), (QueueDeleted(), "queue-deleted")],
)
def test_what_ends_the_connection_is_told_once_and_nothing_is_sent_after(message: Any, code: str) -> None:
    async def main() -> None:
        bench = await Bench().opened()
        await bench.tell(FetchRequested(5, 0, 2), message, message, FetchedRanges(5, [fetched(0, 2)]))
        await bench.tell(DemandSignalled(10, 1000))
        assert bench.port.told == [("refused", code)]
        await bench.close()

    run(main)


def test_when_it_stops_the_queue_is_told() -> None:
    async def main() -> None:
        bench = await Bench().opened()
        bench.ref.stop_nowait()
        await settle()
        assert bench.received[-1] == Left(connection=bench.ref)
        await bench.close()

    run(main)
