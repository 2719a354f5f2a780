"""What a queue wants done after a command; the actor does it. Connections are whatever the caller named them by.

``after`` is the number of the event that an effect depends on: it may be seen outside only when that event is durable, so that
nobody acts on what a crash could undo. 0 depends on nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from actors.batch import MessageBatch
from actors.errors import QueueError
from actors.queue.structures.ranges import Range
from actors.queue.vocabulary.events import Origin
from actors.queue.vocabulary.statistics import ReservationFacts

Connection: TypeAlias = Hashable

MAX_RECEIVES, EXPIRED = "max-receives", "expired"
"""Why messages become dead letters: received so often without being acknowledged, or not received in their time."""


class Deliver(NamedTuple):
    """Consecutive messages for a receiver, of one stored batch and with one delivery history."""

    receiver: Connection
    first: int
    batch: MessageBatch
    enqueued_us: int
    delivery_count: int
    possibly_replayed: bool
    after: int = 0


@dataclass(frozen=True, slots=True)
class GrantCapacity:
    """A sender may send this many more messages and bytes (increments)."""

    sender: Connection
    messages: int
    bytes: int
    after: int = 0


class Confirm(NamedTuple):
    """Everything the sender numbered below ``up_to`` is dealt with.

    Attributes:
        first: the queue's number of the first message of the batch just confirmed; None when that message was stored before.
        rejected: why that batch was not stored; None where it was.
    """

    sender: Connection
    up_to: int
    first: int | None
    rejected: str | None = None
    after: int = 0


class Dropped(NamedTuple):
    """A batch that was accepted is not stored: its turn among the sender's answers passes, and a ``Refuse`` ends the connection.

    Attributes:
        error: why.
    """

    sender: Connection
    error: QueueError


@dataclass(frozen=True, slots=True)
class Supersede:
    """A newer connection carries this sender's producer id; the queue has forgotten this one."""

    sender: Connection
    after: int = 0


@dataclass(frozen=True, slots=True)
class Reserved:
    """The answer to a reservation: the ledger holds, from where it was asked for, the positions below ``end``."""

    consumer: Connection
    request: int
    end: int
    facts: ReservationFacts
    after: int = 0


@dataclass(frozen=True, slots=True)
class Refuse:
    """A connection did what it may not, or waited for what can no longer come.

    Attributes:
        request: the request that is refused, None for the connection as a whole.
        close: whether the queue has forgotten the connection.
    """

    connection: Connection
    code: str
    text: str
    request: int | None
    close: bool
    after: int = 0


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Messages for the dead-letter queue, whose ``store_dead_letters`` is to be called; asked again if nothing is heard of them.

    Attributes:
        queue: the dead-letter queue's name; None for this queue's own with ``.dead`` after it.
        first: this queue's number of the first.
        ranges: their numbers, which the answer names.
        reason: ``max-receives`` or ``expired``.
    """

    queue: str | None
    first: int
    batch: MessageBatch
    ranges: tuple[Range, ...]
    reason: str
    after: int = 0


@dataclass(frozen=True, slots=True)
class DeadLettersStored:
    """Another queue's dead letters are in this one: the other's ``dead_letters_stored`` is to be called with the origin's ranges."""

    origin: Origin
    after: int = 0


Effect: TypeAlias = (
    Deliver | GrantCapacity | Confirm | Dropped | Supersede | Reserved | Refuse | DeadLetter | DeadLettersStored
)
