"""What happens to a queue for good: the events whose fold is its durable state.

Each can be applied twice without harm, because it says which numbers it is about: what a log has already seen changes
nothing. Recovery, replication and the first execution are thus one piece of code, ``QueueLog.apply``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from actors.batch import MessageBatch
from actors.queue_state.ranges import Range


class ReservedRange(NamedTuple):
    """Messages ``start`` <= n < ``stop`` of one stored batch, as they are delivered to a subscription."""

    start: int
    stop: int
    delivery_count: int
    possibly_replayed: bool


@dataclass(frozen=True, slots=True)
class MessagesAdded:
    """A batch was stored.

    Attributes:
        first: the queue's number of its first message.
        enqueued_us: microseconds since the epoch.
        producer: who sent it, or None.
        producer_sequence: the sender's number of its first message.
    """

    first: int
    batch: MessageBatch
    enqueued_us: int
    producer: str | None
    producer_sequence: int


@dataclass(frozen=True, slots=True)
class MessagesAcknowledged:
    """Receivers are done with these messages."""

    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class QueuePurged:
    """These messages were dropped."""

    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class SubscriptionOpened:
    """An owner took a subscription over.

    Attributes:
        epoch: the number of its ownership; greater each time.
        min_sequence: it gets no messages below this; what counts is what its first opening says.
        owner_timeout: seconds without an owner after which its reservations end; None for never.
    """

    name: str
    epoch: int
    min_sequence: int
    owner_timeout: float | None


@dataclass(frozen=True, slots=True)
class MessagesReserved:
    """Messages were put into a subscription's ledger, from ``position`` on."""

    subscription: str
    position: int
    ranges: tuple[ReservedRange, ...]


@dataclass(frozen=True, slots=True)
class ReservationCommitted:
    """A subscription is done with every position below ``position``."""

    subscription: str
    position: int


@dataclass(frozen=True, slots=True)
class SubscriptionReleased:
    """A subscription gave back what it had reserved below ``position``."""

    subscription: str
    position: int


Event: TypeAlias = (
    MessagesAdded
    | MessagesAcknowledged
    | QueuePurged
    | SubscriptionOpened
    | MessagesReserved
    | ReservationCommitted
    | SubscriptionReleased
)
