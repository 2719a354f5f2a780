"""What happened in a run, in order: plain facts with their virtual times, which the checker judges and whose digest two runs compare.

Deliveries and answers are noted where they cross the broker's end of a connection: what the broker has said and been told is
then in the order in which it said and was told it, whatever the network made of it. What programs were told is noted in the programs.
A message is known by its name: what its payload begins with, and a digest of all of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.simulation.exchange_history import (
    CameBack,
    CommandAnswered,
    CommandHeard,
    Defined,
    Found,
    PublishConfirmed,
    Published,
)
from tests.simulation.take_history import (
    Counted,
    Deleted,
    Made,
    ReceiptTold,
    Seen,
    Settled,
    Settling,
    TakeAnswered,
    Taken,
    Unseen,
)
from tests.simulation.task_history import DroppedInAll, Leapt

__all__ = [
    "SEPARATOR",
    "Acknowledged",
    "Arrived",
    "CameBack",
    "CommandAnswered",
    "CommandHeard",
    "CommitAnswered",
    "CommitAsked",
    "Confirmed",
    "Counted",
    "Crashed",
    "Defined",
    "Deleted",
    "Delivered",
    "Drained",
    "DroppedInAll",
    "Event",
    "Extended",
    "Found",
    "Handled",
    "History",
    "Leapt",
    "Made",
    "Moved",
    "Noted",
    "Offered",
    "PublishConfirmed",
    "Published",
    "Put",
    "PutConfirmed",
    "Ranges",
    "ReceiptTold",
    "Refused",
    "Released",
    "Remembered",
    "Returned",
    "Seen",
    "Settled",
    "Settling",
    "Staged",
    "Started",
    "TakeAnswered",
    "Taken",
    "Unseen",
    "name_of",
]

SEPARATOR = b"|"
"""Ends the readable part of a payload."""

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""(first, count) pairs of queue sequence numbers."""


@dataclass(frozen=True, slots=True)
class Started:
    """The broker takes connections, for the ``life``-th time."""

    time: float
    life: int


@dataclass(frozen=True, slots=True)
class Crashed:
    """The broker is gone: ``killed``, ``power`` (with the disk's cache) or ``stopped`` in good order."""

    time: float
    how: str


@dataclass(frozen=True, slots=True)
class Offered:
    """A program gave messages to its sender; ``number`` is the producer's of the first."""

    time: float
    queue: str
    producer: str
    number: int
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Staged:
    """A program is about to stage messages for a writer's version; ``number`` is the first one's in its stage."""

    time: float
    queue: str
    stage: str
    number: int
    writer: str
    version: int
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CommitAsked:
    """A program asks for a version to be committed with these messages, (queue, message) each."""

    time: float
    writer: str
    version: int
    messages: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class CommitAnswered:
    """A program was told that a version is committed."""

    time: float
    writer: str
    version: int


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A program was told that messages are stored."""

    time: float
    queue: str
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """A program was told that messages are not stored, and never will be."""

    time: float
    queue: str
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Arrived:
    """The broker was given messages by a sender; ``delay`` and ``ttl`` in seconds where the sender said so.

    Attributes:
        at: the time of day, in seconds since the epoch, that the sender said in place of a delay.
    """

    time: float
    connection: int
    queue: str
    messages: tuple[str, ...]
    delay: float | None = None
    ttl: float | None = None
    priority: int = 0
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Delivered:
    """The broker wrote messages to a receiver.

    Attributes:
        failures: how often they have failed, as it says.
        stored_us: when the queue has stored them, in microseconds since the epoch.
        deaths: of dead letters, each message's last: the reason, and the queue.
    """

    time: float
    connection: int
    queue: str
    first: int
    messages: tuple[str, ...]
    delivery_count: int
    possibly_replayed: bool
    failures: int = 0
    stored_us: int = 0
    deaths: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Handled:
    """A program was handed a message."""

    time: float
    queue: str
    sequence: int
    message: str
    delivery_count: int
    possibly_replayed: bool


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The broker was told that messages are done."""

    time: float
    connection: int
    queue: str
    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Returned:
    """The broker was given messages back, to be delivered again after ``delay`` seconds."""

    time: float
    connection: int
    queue: str
    ranges: Ranges
    delay: float
    failed: bool = True


@dataclass(frozen=True, slots=True)
class Extended:
    """The broker was asked to leave messages with their receiver for ``seconds`` from now."""

    time: float
    connection: int
    queue: str
    ranges: Ranges
    seconds: float


@dataclass(frozen=True, slots=True)
class Released:
    """The broker lets go of a connection: what it held may be delivered to others."""

    time: float
    connection: int
    reason: str


@dataclass(frozen=True, slots=True)
class Put:
    """A gateway in the broker changed the map beside the queues; None removes."""

    time: float
    section: str
    key: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class PutConfirmed:
    """It was told that the first ``changes`` of the map are durable."""

    time: float
    changes: int


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a start found of the map, or what it was at the end: how many changes, and its entries in order."""

    time: float
    changes: int
    entries: tuple[tuple[str, str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Moved:
    """A program was told that so many messages left one queue for another."""

    time: float
    source: str
    target: str
    count: int


@dataclass(frozen=True, slots=True)
class Drained:
    """At the end everything is acknowledged but ``stored`` messages of the queue."""

    time: float
    queue: str
    stored: int


@dataclass(frozen=True, slots=True)
class Noted:
    """Anything else worth reading in a trace, and worth comparing."""

    time: float
    text: str


Event: TypeAlias = (
    Started
    | Crashed
    | Offered
    | Staged
    | CommitAsked
    | CommitAnswered
    | Confirmed
    | Refused
    | Arrived
    | Delivered
    | Handled
    | Acknowledged
    | Returned
    | Extended
    | Released
    | Put
    | PutConfirmed
    | Remembered
    | Moved
    | Drained
    | Made
    | Deleted
    | Taken
    | TakeAnswered
    | Seen
    | Unseen
    | Settling
    | Settled
    | ReceiptTold
    | Counted
    | Published
    | PublishConfirmed
    | CameBack
    | CommandHeard
    | CommandAnswered
    | Defined
    | Found
    | Noted
    | Leapt
    | DroppedInAll
)


@dataclass(slots=True)
class History:
    """The events of one run so far.

    Attributes:
        events: in order.
        takers: the queues of those who take by request, each of which has its place for a number.
        told: programs whose messages are confirmed when the broker says so: they cannot tell which it means.
        on_confirmed: called when a program is told that messages are stored, or a transaction committed, or a command carried out.
    """

    events: list[Event] = field(default_factory=list)
    takers: list[str] = field(default_factory=list)
    told: set[str] = field(default_factory=set)
    on_confirmed: Callable[[], object] | None = None

    def add(self, event: Event) -> None:
        """Note what has just happened."""
        self.events.append(event)
        if self.on_confirmed is not None and isinstance(
            event, Confirmed | CommitAnswered | PublishConfirmed | CommandAnswered
        ):
            self.on_confirmed()

    def digest(self) -> str:
        """Equal for equal histories, and for no others."""
        return hashlib.sha256("\n".join(map(repr, self.events)).encode()).hexdigest()


def name_of(payload: bytes) -> str:
    """A message's name."""
    label = payload.partition(SEPARATOR)[0][:40].decode("utf-8", "backslashreplace")
    return f"{label}#{hashlib.blake2b(payload, digest_size=6).hexdigest()}"
