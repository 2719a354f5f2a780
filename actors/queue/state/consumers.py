"""The parties of a queue beside its receivers: senders, subscriptions' connections, owners, and waiting reservations."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

from actors.errors import StaleEpochError
from actors.queue.state.capacity import Permits

if TYPE_CHECKING:
    from actors.queue.state.capacity import Capacity
    from actors.queue.state.ledger import Ledger
    from actors.queue.vocabulary.replies import Connection
    from actors.queue.vocabulary.stages import StageKey

PRODUCER_BYTES = 16
"""What a producer takes in a record beside its name, at most: its number of up to nine bytes, and three small headers of msgpack's."""


@dataclass(eq=False, slots=True)
class Sender:
    """One sending connection.

    Attributes:
        producer: its name, or None.
        expected: the client number that has to come next; None where any may.
        rejecting: whether the batch with that number was rejected, so that those sent behind it are too.
        permits: what it may send, of what ``capacity`` has.
        temporary: whether nobody comes under its name after it.
        name_bytes: what its name takes in a record, with its number there; 0 without a name.
        stage: where what it sends is held back; None for what can be received at once.
    """

    connection: Connection
    producer: str | None
    expected: int | None
    capacity: Capacity
    stage: StageKey | None = None
    temporary: bool = False
    rejecting: bool = False
    permits: Permits = field(init=False)
    name_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.permits = Permits(self.connection)
        self.name_bytes = 0 if self.producer is None else len(self.producer.encode()) + PRODUCER_BYTES


@dataclass(eq=False, slots=True)
class Subscriber:
    """One connection of a subscription.

    Attributes:
        epoch: the ownership that it belongs to.
        owns: whether it may reserve and commit, rather than only fetch.
    """

    connection: Connection
    ledger: Ledger
    epoch: int
    owns: bool

    def check_epoch(self) -> None:
        """Raise StaleEpochError if another owner has taken the subscription."""
        if self.epoch != self.ledger.epoch:
            raise StaleEpochError(self.ledger.name, self.epoch, self.ledger.epoch)


@dataclass(eq=False, slots=True)
class Reservation:
    """A reservation that waits for its first message: a consumer that is served once.

    Attributes:
        start: the position it was asked for at, which is the ledger's end.
        demand: messages, at most.
        bytes: bytes, at most, but for one message.
        below: messages with lower numbers only; None for any.
        deadline: when it is answered in any case; ``heap`` is what knows that.
    """

    connection: Connection
    request: int
    ledger: Ledger
    _: KW_ONLY
    start: int
    demand: int
    bytes: int
    below: int | None
    deadline: float | None = None
    heap: object | None = None


@dataclass(eq=False, slots=True)
class Ownership:
    """Who owns a subscription now.

    Attributes:
        client: what the owner calls itself, or the last one did; empty where it does not say.
        used: when it was last asked something or was connected, on the clock of deadlines; None if never in this life of the queue.
        connection: the owner's; None while none is connected.
        deadline: when its reservations end for want of an owner; None while they do not. ``heap`` is what knows that.
        waiting: the owner's reservation that waits.
    """

    ledger: Ledger
    client: str = ""
    used: float | None = None
    connection: Connection | None = None
    deadline: float | None = None
    heap: object | None = None
    waiting: Reservation | None = None
