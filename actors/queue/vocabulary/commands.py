"""What a queue actor is told.

``connection`` is the ref of the actor that speaks: it names the connection, and the reply is told to it. When such a
message is sent with ``ask``, the reply is returned too. A queue that refuses a message tells ``Refused`` to the connection;
where there is none, the ask raises the ``QueueError``.

Ranges are pairs of first sequence number and count, as in the protocol. Times are seconds. All are immutable; those that pass once
for each batch are named tuples, which are made in a third of a frozen dataclass's time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from actors.batch import MessageBatch
from actors.queue.structures.ranges import Range
from actors.queue.vocabulary.events import Origin
from actors.queue.vocabulary.stages import StageKey
from actors.runtime.loop_ref import LoopActorRef

Ref: TypeAlias = LoopActorRef[Any]
Pairs: TypeAlias = Sequence[tuple[int, int]]

DEFAULT_RECEIVE_BYTES = 8 * 1024 * 1024
"""Byte demand that goes with a demand for messages when none is stated."""


@dataclass(frozen=True, slots=True)
class AttachSender:
    """A sender begins. Reply: SenderAttached.

    Attributes:
        producer: the name under which it may send again what it sent.
        stage: what it sends is held back under this until its transaction is committed, and ``producer`` is not looked at.
        temporary: nobody comes under this name when the client has ended: it is the client's own invention.
    """

    connection: Ref
    producer: str | None = None
    stage: StageKey | None = None
    temporary: bool = False


@dataclass(frozen=True, slots=True)
class RequestCapacity:
    """A sender wants room for this many more messages and bytes. Reply: CapacityGranted, as often as room is found."""

    connection: Ref
    messages: int
    bytes: int


class SendMessages(NamedTuple):
    """Store ``batch``, whose first message has the sender's number ``client_sequence``. Reply: SentMessages.

    Attributes:
        delay: seconds until its messages can be received; None for what the queue declares.
        ttl: seconds after which they are of no use to anybody; None for what the queue declares.
    """

    connection: Ref
    client_sequence: int
    batch: MessageBatch
    delay: float | None = None
    ttl: float | None = None


# --- from receivers


@dataclass(frozen=True, slots=True)
class AttachReceiver:
    """A receiver begins. Reply: ReceiverAttached."""

    connection: Ref


@dataclass(frozen=True, slots=True)
class ReceiveMessages:
    """Demand for this many more messages and bytes. Reply: any number of ReceivedMessages, within all demand so far."""

    connection: Ref
    messages: int
    bytes: int = DEFAULT_RECEIVE_BYTES


class DeleteMessages(NamedTuple):
    """Acknowledge messages: they are gone for good. No reply but Refused."""

    connection: Ref
    ranges: Pairs


@dataclass(frozen=True, slots=True)
class ReturnMessages:
    """Give messages back, receivable again after ``delay``; they have ``failed`` unless nobody tried. No reply but Refused."""

    connection: Ref
    ranges: Pairs
    delay: float = 0.0
    failed: bool = True


@dataclass(frozen=True, slots=True)
class ExtendVisibility:
    """Move the messages' visibility deadline to ``seconds`` from now. No reply but Refused."""

    connection: Ref
    ranges: Pairs
    seconds: float


@dataclass(frozen=True, slots=True)
class CancelDemand:
    """Deliver nothing more; what is held stays held until Detach. No reply but Refused."""

    connection: Ref


@dataclass(frozen=True, slots=True)
class Detach:
    """A connection ends, with its actor at the latest. What it held is receivable again, and may have ``failed``. No reply."""

    connection: Ref
    failed: bool = True


@dataclass(frozen=True, slots=True)
class Mark:
    """All that ``connection`` told before is handled; if ``answered``, the answers to it have left too. Reply: MarkReached."""

    connection: Ref
    answered: bool = False


# --- from subscriptions


@dataclass(frozen=True, slots=True)
class OpenSubscription:
    """Own a subscription or read one for its owner; see ``QueueState.open_subscription``. Reply: SubscriptionOpened."""

    connection: Ref
    name: str
    mode: str = "own"
    epoch: int | None = None
    starting: str = "earliest"
    owner_timeout: float | None = None
    take_over: bool = False
    client: str = ""


@dataclass(frozen=True, slots=True)
class ReserveMessages:
    """Put ready messages into the ledger; see ``QueueState.reserve``. Reply: MessagesReserved, within ``wait``."""

    connection: Ref
    request: int
    start: int
    messages: int
    bytes: int
    wait: float = 0.0
    below: int | None = None


@dataclass(frozen=True, slots=True)
class CommitReservation:
    """Acknowledge every position below ``position``. Reply: ReservationCommitted."""

    connection: Ref
    request: int
    position: int


@dataclass(frozen=True, slots=True)
class FetchReserved:
    """Read the positions ``start`` <= p < ``stop``. Reply: FetchedRanges."""

    connection: Ref
    request: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class BrowseMessages:
    """Read of the stored messages ``start`` <= n < ``stop`` as many as one step has. Reply: BrowsedMessages."""

    connection: Ref
    request: int
    start: int
    stop: int


# --- between queues, and from transactions


@dataclass(frozen=True, slots=True)
class StoreDeadLetters:
    """Messages of the queue ``source`` that nobody could deal with. Reply, to ``source``: DeadLettersMoved, once they are durable here."""

    source: Ref
    origin: Origin
    batch: MessageBatch


@dataclass(frozen=True, slots=True)
class DeadLettersMoved:
    """These messages, ``ranges`` of this queue, are stored in its dead-letter queue. No reply."""

    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class EndStages:
    """A transaction was committed, in the queue's log already. No reply.

    Attributes:
        published: stages whose messages can be received now.
        discarded: stages whose messages are gone.
        after: the number of the event that did it.
    """

    published: tuple[StageKey, ...]
    discarded: tuple[StageKey, ...]
    after: int


@dataclass(frozen=True, slots=True)
class DiscardTransaction:
    """Drop what a transaction has staged. Reply to an ask: how many messages, once that is durable."""

    writer: str
    version: int


# --- from the broker


@dataclass(frozen=True, slots=True)
class PauseSenders:
    """Grant senders nothing for ``reason``, or again as there is room where it is None. No reply."""

    reason: str | None


@dataclass(frozen=True, slots=True)
class ReleaseSubscription:
    """Make what a subscription reserved receivable again, and ``delete`` it or not. Reply to an ask: how many messages."""

    name: str
    delete: bool = False


@dataclass(frozen=True, slots=True)
class PurgeQueue:
    """Drop what nobody holds. Reply to an ask: how many messages."""


@dataclass(frozen=True, slots=True)
class GetStatistics:
    """Reply to an ask: QueueStatistics."""


QueueMessage: TypeAlias = (
    AttachSender
    | RequestCapacity
    | SendMessages
    | AttachReceiver
    | ReceiveMessages
    | DeleteMessages
    | ReturnMessages
    | ExtendVisibility
    | CancelDemand
    | Detach
    | Mark
    | OpenSubscription
    | ReserveMessages
    | CommitReservation
    | FetchReserved
    | BrowseMessages
    | StoreDeadLetters
    | DeadLettersMoved
    | EndStages
    | DiscardTransaction
    | PauseSenders
    | ReleaseSubscription
    | PurgeQueue
    | GetStatistics
)
"""The closed family of what a queue actor handles."""
