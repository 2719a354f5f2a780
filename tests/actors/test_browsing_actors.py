"""Browsing through the queue's actor and the connection's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from actors import DemandSignalled, FetchRequested, MessageBatch, ReserveRequested, Writable
from actors.queue.queue_directory import QueueDirectory
from actors.queue.subscription_publisher import SubscriptionOptions, SubscriptionPublisher
from actors.queue.vocabulary.commands import (
    AttachSender,
    BrowseRequested,
    OfferBatch,
    OpenSubscription,
    RequestCapacity,
)
from actors.queue.vocabulary.replies import FetchedRanges, QueueDeleted, Refused, SubscriptionOpened
from actors.queue.vocabulary.settings import QueueSettings
from streams.testkit import run_in_virtual_time, settle
from tests.actors.browsed_queues import payload, step
from tests.actors.stored_queues import Connection, StoredQueues, turns

# --- the queue's actor


def send(ref: Any, first: int, count: int) -> OfferBatch:
    return OfferBatch(first, MessageBatch.from_payloads([payload(first + n) for n in range(count)]), connection=ref)


def test_a_step_waits_for_what_is_in_it_to_be_durable_and_for_nothing_else(tmp_path: Path) -> None:
    async def main() -> None:
        stored = StoredQueues(tmp_path / "data")
        queue = stored.queues.get_or_create("q")
        told: list[Any] = []
        ref = Connection.start(told)
        for message in (
            AttachSender(connection=ref),
            RequestCapacity(100, 10**6, connection=ref),
            OpenSubscription("", "browse", connection=ref),
        ):
            queue.tell(message)
        queue.tell(send(ref, 0, 3))
        await stored.settled()
        told.clear()
        queue.tell(send(ref, 3, 2))
        queue.tell(BrowseRequested(1, 0, 3, connection=ref))
        queue.tell(BrowseRequested(2, 0, 9, connection=ref))
        await turns()
        steps = [message for message in told if isinstance(message, FetchedRanges)]
        assert [(step.request, step.rest, len(step.ranges)) for step in steps] == [(1, None, 1)]
        await stored.commit()
        steps = [message for message in told if isinstance(message, FetchedRanges)]
        assert [(step.request, step.rest, len(step.ranges)) for step in steps] == [(1, None, 1), (2, None, 2)]
        await stored.close()

    run_in_virtual_time(main())


def test_who_browses_is_told_that_the_queue_was_deleted_or_failed() -> None:
    async def main() -> None:
        queue = QueueDirectory(QueueSettings(), lambda: 0.0).get_or_create("q")
        told: list[Any] = []
        ref = Connection.start(told)
        queue.tell(OpenSubscription("", "browse", connection=ref))
        queue.tell(BrowseRequested(7, 3, 1, connection=ref))
        await turns()
        assert told[0] == SubscriptionOpened(0, 0, 0, 0)
        assert (told[1].code, told[1].request) == ("protocol-error", 7)
        queue.tell("no message of a queue's")
        await turns()
        assert isinstance(told[2], Refused), "the queue was started again and says that it was"
        assert told[2].code == "internal-error"
        queue.tell(OpenSubscription("", "browse", connection=ref))
        queue.stop_nowait()
        await turns()
        assert told[-1] == QueueDeleted()
        await ref.stop(block=False)

    run_in_virtual_time(main())


# --- the connection's actor


class RecordingPort:
    """What the client would be told."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.closed = False

    def tell(self, reply: Any) -> None:
        self.told.append(reply)

    def fetched(self, request: int, message: Any) -> None:
        self.told.append((request, message.first, len(message.batch)))

    def fetch_ended(self, request: int, messages: int) -> None:
        self.told.append(("end", request, messages))

    def caught_up(self) -> None:
        self.told.append("caught up")

    def refused(self, code: str, text: str, close: bool) -> None:
        self.closed = self.closed or close
        self.told.append((code, text))


class Bench:
    """A connection that browses between a recorded queue and a recorded client."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.queue = Connection.start(self.asked)
        self.port = RecordingPort()
        self.ref = SubscriptionPublisher.start(
            self.queue, SubscriptionOptions("", "browse", None, "earliest", None), self.port
        )

    async def tell(self, *messages: Any) -> None:
        for message in messages:
            self.ref.tell(message)
        await settle()

    def steps(self) -> list[tuple[int, int]]:
        return [(message.start, message.stop) for message in self.asked if isinstance(message, BrowseRequested)]


def with_bench(test: Callable[[Bench], Any]) -> None:
    async def main() -> None:
        bench = Bench()
        await bench.tell(SubscriptionOpened(0, 0, 9, 9))
        assert bench.asked == [OpenSubscription("", "browse", None, "earliest", None, connection=bench.ref)]
        bench.port.told.clear()
        await test(bench)
        await bench.ref.stop(block=False)
        await bench.queue.stop(block=False)

    asyncio.run(asyncio.wait_for(main(), 10))


def test_nothing_is_read_for_a_client_before_it_wants_something() -> None:
    async def test(bench: Bench) -> None:
        await bench.tell(FetchRequested(5, 0, 9))
        assert bench.steps() == []
        await bench.tell(Writable(False), DemandSignalled(4, 1000))
        assert bench.steps() == []
        await bench.tell(Writable(True))
        assert bench.steps() == [(0, 9)]

    with_bench(test)


def test_the_next_step_is_asked_for_when_the_last_is_sent_and_more_is_wanted() -> None:
    async def test(bench: Bench) -> None:
        await bench.tell(FetchRequested(5, 0, 9), DemandSignalled(2, 1000))
        await bench.tell(FetchedRanges(5, step(1, 3), 4))
        assert bench.port.told == [(5, 1, 2)]
        await bench.tell(DemandSignalled(1, 0))
        assert bench.port.told == [(5, 1, 2), (5, 3, 1)]
        assert bench.steps() == [(0, 9)], "all demand is used up"
        await bench.tell(DemandSignalled(10, 0))
        assert bench.steps() == [(0, 9), (4, 9)]
        await bench.tell(FetchedRanges(5, (), 7))
        assert bench.steps()[-1] == (7, 9), "a step may have nothing, where all was acknowledged"
        await bench.tell(FetchedRanges(5, step(8, 1)))
        assert bench.port.told[2:] == [(5, 8, 1), ("end", 5, 4)]
        await bench.tell(FetchRequested(6, 3, 3))
        assert bench.steps()[-1] == (3, 3), "for nothing, no demand is needed"

    with_bench(test)


def test_a_client_that_browses_can_take_nothing() -> None:
    async def test(bench: Bench) -> None:
        await bench.tell(ReserveRequested(1, 0, 10, 100, 0.0, None))
        assert bench.port.closed
        assert bench.port.told == [
            ("protocol-error", "mode 'browse' changes nothing: open a subscription with mode 'own'")
        ]

    with_bench(test)


def test_a_step_that_is_refused_ends_its_fetch_and_leaves_the_connection_to_the_next() -> None:
    async def test(bench: Bench) -> None:
        await bench.tell(DemandSignalled(10, 1000), FetchRequested(5, 0, 9))
        await bench.tell(Refused("limit-exceeded", "not now", 5, close=False))
        assert bench.port.told == [("limit-exceeded", "request 5: not now")]
        await bench.tell(FetchRequested(6, 0, 9), FetchedRanges(6, step(0, 2)))
        assert bench.port.told[1:] == [(6, 0, 2), ("end", 6, 2)]

    with_bench(test)
