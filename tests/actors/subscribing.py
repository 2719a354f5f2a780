"""A queue with a subscription, and what it is told."""

from __future__ import annotations

from collections.abc import Callable

from actors.batch import MessageBatch
from actors.queue.state.subscriptions import Ledger
from actors.queue.vocabulary.events import Event
from actors.queue.vocabulary.replies import SubscriptionOpened as SubscriptionFacts
from actors.queue.vocabulary.settings import QueueSettings
from tests.actors.driven import Opening, QueueState, Reserved

LARGE = 10**9


def snapshot_of(ledger: Ledger) -> tuple[object, ...]:
    """Everything that a checkpoint has of it."""
    return ledger.facts(), ledger.all_segments(), ledger.opened_us


def queue_with(*sizes: int, events: list[Event] | None = None) -> QueueState:
    queue = QueueState("q", 0, QueueSettings(), record=None if events is None else into(events))
    queue.attach_sender("s", None)
    queue.request_capacity("s", 100_000, 10**8)
    for size in sizes:
        store(queue, size)
    queue.take_effects()
    return queue


def store(queue: QueueState, count: int, now: float = 0.0) -> None:
    first = queue.log.next_sequence
    queue.send("s", first, MessageBatch.from_payloads([b"%03d" % n for n in range(first, first + count)]), now, 0)


def own(
    queue: QueueState, connection: str = "owner", *, starting: str = "earliest", owner_timeout: float | None = None
) -> SubscriptionFacts:
    opening = Opening(take_over=True)
    return queue.open_subscription(
        connection, "sub", "own", epoch=None, starting=starting, owner_timeout=owner_timeout, opening=opening
    )


def read(queue: QueueState, connection: str, epoch: int | None, name: str = "sub") -> SubscriptionFacts:
    return queue.open_subscription(connection, name, "read", epoch=epoch, starting="earliest", owner_timeout=None)


def answers(queue: QueueState) -> list[tuple[object, int, int]]:
    """Consumer, request and end of the reservations answered since the last call."""
    return [(e.consumer, e.request, e.end) for e in queue.take_effects() if isinstance(e, Reserved)]


def ask(
    queue: QueueState,
    start: int,
    messages: int,
    *,
    size: int = LARGE,
    wait: float = 0.0,
    below: int | None = None,
    now: float = 0.0,
    connection: str = "owner",
) -> None:
    queue.reserve(connection, 1, start, messages=messages, size=size, wait=wait, below=below, now=now)


def reserve(queue: QueueState, start: int, messages: int, *, size: int = LARGE, below: int | None = None) -> int:
    """The end of what a reservation that does not wait gets."""
    ask(queue, start, messages, size=size, below=below)
    ((_, _, end),) = answers(queue)
    return end


def fetched(queue: QueueState, start: int, stop: int, connection: str = "owner") -> list[bytes]:
    return [payload for part in queue.fetch(connection, start, stop) for payload in part.batch.payloads]


def payloads(*numbers: int) -> list[bytes]:
    return [b"%03d" % n for n in numbers]


def into(events: list[Event]) -> Callable[[Event], int]:
    def record(event: Event) -> int:
        events.append(event)
        return len(events)

    return record


def plainly(queue: QueueState, connection: str, client: str = "", now: float = 0.0) -> SubscriptionFacts:
    """Owns without taking over."""
    opening = Opening(client=client, now=now, wall_us=7)
    return queue.open_subscription(
        connection, "sub", "own", epoch=None, starting="earliest", owner_timeout=None, opening=opening
    )
