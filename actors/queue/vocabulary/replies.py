"""What a queue tells its connections, and what it wants done after a command."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from actors.batch import MessageBatch
from actors.queue.structures.ranges import Range
from actors.queue.vocabulary.distributed import OfPublishing
from actors.queue.vocabulary.letters import DeadLettersMoved
from actors.queue.vocabulary.moves import ParcelsStored
from actors.queue.vocabulary.prefetch import DemandLimited
from actors.queue.vocabulary.published import Published
from actors.queue.vocabulary.turns import TurnChanged


@dataclass(frozen=True, slots=True)
class SenderAttached:
    """The queue knows the sender.

    Attributes:
        last_sequence: the sender's number after its last stored message; None if nothing is known of it.
        committed: whether its stage's version is committed already, so that nothing more can be sent.
        next_sequence: of a sender to an exchange, from where it numbers if it begins anew: above all that any queue has of it.
        max_priority: the highest priority that makes a difference in this queue.
        remembers: whether it would know of anything that it had stored of the sender, of which it knows nothing: it has forgotten nobody.
    """

    last_sequence: int | None
    committed: bool = False
    next_sequence: int | None = None
    max_priority: int = 0
    remembers: bool = False


class CapacityGranted(NamedTuple):
    """A sender may send this many more messages and bytes (increments)."""

    messages: int
    bytes: int


class RoomGranted(NamedTuple):
    """As CapacityGranted, of one of the queues that a sender to an exchange is attached to."""

    queue: str
    messages: int
    bytes: int


class SentMessages(NamedTuple):
    """Everything the sender numbered below ``up_to`` is dealt with; one for each OfferBatch, in order.

    Attributes:
        first: the queue's number of the first message of that batch; None when that message was stored before.
        rejected: why the batch that ends at ``up_to`` was not stored, where the queue rejects what it has no room for; else None.
        numbers: where some of that batch were duplicates, the queue's number of each message in its order, as first number and count of
            what follows one another; None in the number's place for duplicates. ``first`` is the number of the first that is stored
            then, or would have been.
    """

    up_to: int
    first: int | None
    rejected: str | None = None
    numbers: tuple[tuple[int | None, int], ...] | None = None


@dataclass(frozen=True, slots=True)
class Superseded:
    """A newer connection carries this sender's producer id; this one is detached."""


@dataclass(frozen=True, slots=True)
class ReceiverAttached:
    """The queue knows the receiver.

    ``waiting`` says that one receiver has the queue at a time, and another has it now: this one stands in line, and gets messages once it
    is its turn. ``dead_letters`` says that the queue keeps what is refused for good. ``retries`` says that it has what has failed wait
    before it is tried again.
    """

    waiting: bool = False
    dead_letters: bool = False
    retries: bool = False


class ReceivedMessages(NamedTuple):
    """Messages with the queue's numbers ``first``, ``first + 1``, ... and one delivery history.

    ``published`` says to which exchange, and with which routing key; None for what was sent to the queue itself. ``failures`` is how
    often they have come back because somebody failed to handle them, as far as that is known. ``priority`` is the level of the queue that
    they are of; 0 where it has none.
    """

    first: int
    batch: MessageBatch
    enqueued_us: int
    delivery_count: int
    possibly_replayed: bool
    published: Published | None = None
    failures: int = 0
    priority: int = 0


@dataclass(frozen=True, slots=True)
class SubscriptionOpened:
    """The subscription's epoch, its positions ``base`` <= p < ``high`` reserved, and the queue's next number."""

    epoch: int
    base: int
    high: int
    high_water: int


@dataclass(frozen=True, slots=True)
class MessagesReserved:
    """The ledger holds, from the position asked for, all below ``end``.

    Attributes:
        facts: what is said of the queue with it, by the names on the wire. ``backlog`` are the messages that are ready, ``backlog_bytes``
            their bytes, ``oldest_ms`` the age of the oldest. ``sender_demand`` was granted to senders and is not yet sent, ``in_flight``
            is held by receivers, ``high_water`` is the queue's next number. ``full`` says that it stores as much as it may, so that
            nothing comes in before something is acknowledged. ``reserved_bytes`` are those that this request has reserved, or a little
            more where only what stores them was measured; None where the ledger had the messages already. ``live_subscriptions`` have
            an owner that is connected, this one among them: they share the queue's messages.
    """

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
    """Reserved or stored messages at the positions from ``position`` on, with the queue's numbers from ``first`` on.

    ``published`` and ``priority`` are as of `ReceivedMessages`.
    """

    position: int
    first: int
    batch: MessageBatch
    enqueued_us: int
    delivery_count: int
    possibly_replayed: bool
    published: Published | None = None
    priority: int = 0

    def split(self, count: int) -> tuple[FetchedMessages, FetchedMessages]:
        """The first ``count`` messages and the others, neither of which may be none."""
        head, tail = self.batch.slice(0, count), self.batch.slice(count, len(self.batch))
        facts = self.enqueued_us, self.delivery_count, self.possibly_replayed, self.published, self.priority
        return (
            FetchedMessages(self.position, self.first, head, *facts),
            FetchedMessages(self.position + count, self.first + count, tail, *facts),
        )


class PeekedRange(NamedTuple):
    """Messages of one batch, and how old they are, microseconds."""

    messages: FetchedMessages
    age_us: int


@dataclass(frozen=True, slots=True)
class PeekedMessages:
    """What is stored, ascending.

    Attributes:
        ranges: the messages; their deliveries as of `BrowseRequested`.
        rest: where the others begin; None where there are no more.
    """

    ranges: tuple[PeekedRange, ...]
    rest: int | None


@dataclass(frozen=True, slots=True)
class FetchedRanges:
    """What was asked for, or its first part, in order of position; ``rest`` is where the next part begins, None when this is all.

    Of a browse, where a position is a number, what is left out is not stored.
    """

    request: int
    ranges: Sequence[FetchedMessages]
    rest: int | None = None


class Lost(Enum):
    """Why a message that was taken could not be settled."""

    GONE = "gone"
    """It is not in the queue any more: acknowledged, moved, or purged when its time was over."""
    EXPIRED = "expired"
    """It is in the queue, and not held by this delivery any more: its time was over, or it was returned."""


@dataclass(frozen=True, slots=True)
class MessagesTaken:
    """The answer to a ``TakeMessages``: what there was, in order; nothing where its time was over first.

    ``ready`` is how many more could be received then.
    """

    request: int
    ranges: tuple[ReceivedMessages, ...]
    ready: int = 0


@dataclass(frozen=True, slots=True)
class TakenSettled:
    """The answer to a ``SettleTaken``: all were settled but these, as they were named. What is named twice counts once."""

    request: int
    lost: tuple[tuple[tuple[int, int], Lost], ...]


@dataclass(frozen=True, slots=True)
class NothingHeld:
    """The taker holds nothing, and no request of it waits.

    Attributes:
        heard: the last request to take that the queue had heard of; 0 for none. Of a later one it may have given something since.
    """

    heard: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """The queue refused a message, or lets the connection go.

    Attributes:
        code: the wire code.
        text: why, and what to do.
        request: the request that is refused; None where the message carries none.
        close: whether the connection should end.
        forgotten: whether the queue knows nothing of the connection any more.
    """

    code: str
    text: str
    request: int | None = None
    close: bool = True
    forgotten: bool = False


@dataclass(frozen=True, slots=True)
class WaitExplained:
    """Why a connection gets nothing from the queue, as it has asked by ``request``.

    Attributes:
        reason: a word of `actors.queue.operations.explaining`; None where nothing of the queue keeps it waiting.
        text: the same for people.
    """

    request: int
    reason: str | None
    text: str


@dataclass(frozen=True, slots=True)
class MarkReached:
    """Everything that the connection told before its mark is handled."""


@dataclass(frozen=True, slots=True)
class QueueDeleted:
    """The queue is gone, with everything in it."""


Reply: TypeAlias = (
    SenderAttached
    | CapacityGranted
    | RoomGranted
    | SentMessages
    | OfPublishing
    | Superseded
    | ReceiverAttached
    | DemandLimited
    | TurnChanged
    | ReceivedMessages
    | SubscriptionOpened
    | MessagesReserved
    | ReservationCommitted
    | FetchedRanges
    | Refused
    | WaitExplained
    | MarkReached
    | QueueDeleted
    | MessagesTaken
    | TakenSettled
    | NothingHeld
)
"""The closed family of what a queue tells its connections."""


Connection: TypeAlias = Hashable

MAX_RECEIVES, EXPIRED, REJECTED, MAXLEN = "max-receives", "expired", "rejected", "maxlen"
"""Why messages become dead letters: failed so often, not received in their time, refused for good by a receiver, or over a limit."""
UNTRIED = frozenset({EXPIRED, MAXLEN})
"""Those for which no receiver has tried them: where such messages come round, nobody stops them."""


class Tell(NamedTuple):
    """Tell a connection a reply, or another queue that its dead letters, or its parcels, are stored.

    Attributes:
        connection: whom to tell; an origin, where it is another queue.
        reply: what.
        after: the number of the event that must be durable before it is told; 0 depends on nothing.
    """

    connection: Connection
    reply: Reply | DeadLettersMoved | ParcelsStored
    after: int = 0


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Messages for the dead-letter queue, which is to be told ``StoreDeadLetters``; asked again if nothing is heard of them.

    Attributes:
        queue: the dead-letter queue's name; None for this queue's own with ``.dead`` after it.
        ranges: their numbers here.
        published: through which exchange they came here; None for none.
        exchange: where they are published instead, by ``routing_key`` or the key of each; None where they go to the queue.
        expired: whether they have expired, or were too much, and no receiver has refused them.
        again: whether they would come round to where they have expired before: then they go to no declared queue.
        over_limit: whether they were too much.
        priority: the level that they were of.
    """

    queue: str | None
    batch: MessageBatch
    ranges: tuple[Range, ...]
    after: int = 0
    published: Published | None = None
    exchange: str | None = None
    routing_key: str | None = None
    expired: bool = False
    again: bool = False
    over_limit: bool = False
    priority: int = 0


@dataclass(frozen=True, slots=True)
class SubscriptionForgotten:
    """For the log: nobody has used a subscription for ``idle`` seconds, and ``released`` messages that it held are the queue's again."""

    name: str
    idle: float
    released: int
    after: int = 0


Effect: TypeAlias = Tell | DeadLetter | SubscriptionForgotten
