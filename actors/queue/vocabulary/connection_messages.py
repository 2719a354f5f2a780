"""What a connection tells its own actor; None is answered to the teller, answers go out through the actor's port.

`SendToQueueSubscriber` takes OfferBatch; `ReceiveFromQueuePublisher` DemandSignalled, DemandWithdrawn, Acknowledged, Rejected, Extended,
Left and Writable;
`SubscriptionPublisher` ReserveRequested, CommitRequested, FetchRequested, DemandSignalled and Writable; each of them CaughtUp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from actors.batch import MessageBatch

Ranges = list[tuple[int, int]]


class OfferBatch(NamedTuple):
    """The client sent ``batch``, whose first message has the client's number ``sequence``; times as in ``SendMessages``."""

    sequence: int
    batch: MessageBatch
    delay: float | None = None
    ttl: float | None = None


@dataclass(frozen=True, slots=True)
class DemandSignalled:
    """The client may be sent this many more messages and bytes (increments)."""

    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class DemandWithdrawn:
    """The client wants nothing more, whatever it had signalled before; what it holds it keeps."""


class Acknowledged(NamedTuple):
    """The client is done with these messages."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Rejected:
    """The client gives these messages back, to be receivable after ``delay`` seconds; ``failed`` unless nobody tried them."""

    ranges: Ranges
    delay: float
    failed: bool = True


@dataclass(frozen=True, slots=True)
class Left:
    """The client takes its leave; ``failed`` says whether what it has not answered counts as tried and failed."""

    failed: bool


@dataclass(frozen=True, slots=True)
class Extended:
    """The client needs ``seconds`` from now for these messages."""

    ranges: Ranges
    seconds: float


@dataclass(frozen=True, slots=True)
class Writable:
    """The client's socket takes more again, or not."""

    writable: bool


@dataclass(frozen=True, slots=True)
class ReserveRequested:
    """The subscription's owner requests messages into its ledger; times are seconds."""

    request: int
    start: int
    messages: int
    bytes: int
    wait: float
    below: int | None


@dataclass(frozen=True, slots=True)
class CommitRequested:
    """The subscription's owner is done with every position below ``position``."""

    request: int
    position: int


@dataclass(frozen=True, slots=True)
class FetchRequested:
    """The client wants the reserved positions start <= p < stop."""

    request: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """A mark: to be passed on to the queue, which answers when all that was told before it is handled."""
