"""Facts of a run that have to do with takes by request, and with queues that come and go."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Made:
    """A queue that the plan does not name is there, under a name of this run's: the next one of its name in the broker has another."""

    time: float
    queue: str


@dataclass(frozen=True, slots=True)
class Deleted:
    """A queue is deleted: nothing is promised of it any more, but that nothing comes of it."""

    time: float
    queue: str


@dataclass(frozen=True, slots=True)
class Taken:
    """The queue gave messages to a taker, ``connection``, for its request of this number; ``visibility`` in seconds where that said so."""

    time: float
    connection: int
    queue: str
    first: int
    messages: tuple[str, ...]
    delivery_count: int
    possibly_replayed: bool
    visibility: float | None
    failures: int = 0
    request: int = 0


@dataclass(frozen=True, slots=True)
class TakeAnswered:
    """The queue answered a request to take with ``count`` messages of ``size`` bytes; the others are what was asked, and when."""

    time: float
    connection: int
    queue: str
    count: int
    size: int
    messages: int
    bytes: int
    asked_at: float
    wait: float


@dataclass(frozen=True, slots=True)
class Seen:
    """What was taken reached who asked for it: ``messages``, ``again`` of them not for the first time."""

    time: float
    connection: int
    queue: str
    messages: int
    again: int


@dataclass(frozen=True, slots=True)
class Unseen:
    """What was taken reached nobody, and goes back: the number of each message, and of its delivery."""

    time: float
    connection: int
    queue: str
    taken: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Settling:
    """A taker's queue is told what became of deliveries; ``seconds`` of a delay, or an extension."""

    time: float
    connection: int
    queue: str
    request: int
    how: str
    taken: tuple[tuple[int, int], ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Settled:
    """The queue has said of which of these it was too late."""

    time: float
    connection: int
    queue: str
    request: int
    lost: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ReceiptTold:
    """A program was told what became of a receipt in the queue where it gave it.

    Attributes:
        life: of the broker that made it.
        made_in: the queue that it was made for.
        code: why it was refused; None where it was settled.
    """

    time: float
    queue: str
    number: int
    delivery: int
    life: int
    made_in: str
    how: str
    code: str | None


@dataclass(frozen=True, slots=True)
class Counted:
    """What a queue says of itself while nothing happens to it."""

    time: float
    queue: str
    total_in: int
    total_out: int
    total_redelivered: int
    total_gone: int
    stored: int
    in_parts: int
