"""What a queue tells its connections, and what it wants done after a command."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from actors.batch import MessageBatch
from actors.queue.structures.ranges import Range
from actors.queue.vocabulary.commands import DeadLettersMoved


@dataclass(frozen=True, slots=True)
class SenderAttached:
    """The queue knows the sender.

    Attributes:
        last_sequence: the sender's number after its last stored message; None if nothing is known of it.
        committed: whether its stage's version is committed already, so that nothing more can be sent.
    """

    last_sequence: int | None
    committed: bool = False


class CapacityGranted(NamedTuple):
    """A sender may send this many more messages and bytes (increments)."""

    messages: int
    bytes: int


class SentMessages(NamedTuple):
    """Everything the sender numbered below ``up_to`` is dealt with; one for each OfferBatch, in order.

    Attributes:
        first: the queue's number of the first message of that batch; None when that message was stored before.
        rejected: why the batch that ends at ``up_to`` was not stored, where the queue rejects what it has no room for; else None.
    """

    up_to: int
    first: int | None
    rejected: str | None = None


@dataclass(frozen=True, slots=True)
class Superseded:
    """A newer connection carries this sender's producer id; this one is detached."""


@dataclass(frozen=True, slots=True)
class ReceiverAttached:
    """The queue knows the receiver.

    ``waiting`` says that the queue is exclusive and another has it: this one stands in line, and gets messages once it is its turn.
    """

    waiting: bool = False


class ReceivedMessages(NamedTuple):
    """Messages with the queue's numbers ``first``, ``first + 1``, ... and one delivery history."""

    first: int
    batch: MessageBatch
    enqueued_us: int
    delivery_count: int
    possibly_replayed: bool


@dataclass(frozen=True, slots=True)
class SubscriptionOpened:
    """The subscription's epoch, its positions ``base`` <= p < ``high`` reserved, and the queue's next number."""

    epoch: int
    base: int
    high: int
    high_water: int


@dataclass(frozen=True, slots=True)
class MessagesReserved:
    """The ledger holds, from the position asked for, all below ``end``; ``facts`` by their names on the wire."""

    request: int
    end: int
    facts: dict[str, int | None]


@dataclass(frozen=True, slots=True)
class ReservationCommitted:
    """Every position below ``base`` is done with."""

    request: int
    base: int


@dataclass(frozen=True, slots=True)
class FetchedMessages:
    """Reserved or stored messages at the positions from ``position`` on, with the queue's numbers from ``first`` on."""

    position: int
    first: int
    batch: MessageBatch
    enqueued_us: int
    delivery_count: int
    possibly_replayed: bool

    def split(self, count: int) -> tuple[FetchedMessages, FetchedMessages]:
        """The first ``count`` messages and the others, neither of which may be none."""
        head, tail = self.batch.slice(0, count), self.batch.slice(count, len(self.batch))
        facts = self.enqueued_us, self.delivery_count, self.possibly_replayed
        return (
            FetchedMessages(self.position, self.first, head, *facts),
            FetchedMessages(self.position + count, self.first + count, tail, *facts),
        )


@dataclass(frozen=True, slots=True)
class FetchedRanges:
    """What was asked for, or its first part, in order of position; ``rest`` is where the next part begins, None when this is all.

    Of a browse, where a position is a number, what is left out is not stored.
    """

    request: int
    ranges: Sequence[FetchedMessages]
    rest: int | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The queue refused a message, or lets the connection go.

    Attributes:
        code: the wire code.
        text: why, and what to do.
        request: the request that is refused; None where the message carries none.
        close: whether the connection should end.
    """

    code: str
    text: str
    request: int | None = None
    close: bool = True


@dataclass(frozen=True, slots=True)
class MarkReached:
    """Everything that the connection told before its mark is handled."""


@dataclass(frozen=True, slots=True)
class QueueDeleted:
    """The queue is gone, with everything in it."""


Reply: TypeAlias = (
    SenderAttached
    | CapacityGranted
    | SentMessages
    | Superseded
    | ReceiverAttached
    | ReceivedMessages
    | SubscriptionOpened
    | MessagesReserved
    | ReservationCommitted
    | FetchedRanges
    | Refused
    | MarkReached
    | QueueDeleted
)
"""The closed family of what a queue tells its connections."""


Connection: TypeAlias = Hashable

MAX_RECEIVES, EXPIRED = "max-receives", "expired"
"""Why messages become dead letters: received so often without being acknowledged, or not received in their time."""


class Tell(NamedTuple):
    """Tell a connection a reply, or another queue that its dead letters are stored.

    Attributes:
        connection: whom to tell; an origin, where it is another queue.
        reply: what.
        after: the number of the event that must be durable before it is told; 0 depends on nothing.
    """

    connection: Connection
    reply: Reply | DeadLettersMoved
    after: int = 0


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Messages for the dead-letter queue, which is to be told ``StoreDeadLetters``; asked again if nothing is heard of them.

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


Effect: TypeAlias = Tell | DeadLetter
