"""What a queue is told.

``connection`` is the ref of the actor that speaks for a connection: it names the connection, and replies are told to it. The actor puts
itself there where nobody has. A queue that refuses such a command tells ``Refused`` to the connection; where there is none, as with what
the broker asks, the ask raises the ``QueueError``.

Ranges are pairs of first sequence number and count, as in the protocol. Times are seconds. All are immutable; those that pass once for
each batch are named tuples, which are made in a third of a frozen dataclass's time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from actors.batch import MessageBatch
from actors.queue.vocabulary.letters import DeadLettersMoved, StoreDeadLetters
from actors.queue.vocabulary.prefetch import Prefetch
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.stages import StageKey
from actors.queue.vocabulary.takes import Takes
from actors.queue.vocabulary.turns import HearTurns
from actors.runtime.loop_ref import LoopActorRef

Ref: TypeAlias = LoopActorRef[Any]
Pairs: TypeAlias = Sequence[tuple[int, int]]


# --- from senders


@dataclass(frozen=True, slots=True)
class AttachSender:
    """A sender begins. Reply: SenderAttached.

    An older one with the same producer or stage is superseded. A stage's messages are numbered from 0, and its sender goes on with as many
    as there are; until its transaction is committed it may come and go, and is dropped when it has been away for the queue's timeout.

    Attributes:
        producer: the name under which it may send again what it sent.
        stage: what it sends is held back under this until its transaction is committed, and ``producer`` is not looked at.
        temporary: nobody comes under this name when the client has ended: it is the client's own invention. The numbers of such producers
            are remembered apart: however many there are, no other is forgotten for them.
        shared: the queue's name, where the sender has room of several queues for what others store. Told are RoomGranted and Superseded.
        arrival: the connection's number, in the order in which they were accepted; 0 for none.

    Raises:
        InvalidRequestError: a name or a version that cannot be, or the connection is a sender already.
        TakenOverError: who has the producer or the stage was accepted later.
        QueueLimitError: there are too many stages.
    """

    producer: str | None = None
    stage: StageKey | None = None
    temporary: bool = False
    connection: Ref | None = None
    shared: str | None = None
    arrival: int = 0


@dataclass(frozen=True, slots=True)
class RequestCapacity:
    """A sender wants room for this many more messages and bytes. Reply: CapacityGranted, as often as room is found."""

    messages: int
    bytes: int
    connection: Ref | None = None


class OfferBatch(NamedTuple):
    """Store ``batch``, whose first message has the sender's number ``sequence``. Reply: SentMessages.

    What comes in one turn is stored together: the batch is taken in at once, and stored and confirmed by the queue's ``store``.
    A queue that rejects stores all of a batch or nothing. What it rejects is confirmed with the reason, in its turn. So is all that the
    sender sent behind it: its messages stay in order. That ends when a batch comes with the number of the first one that was rejected, be
    it that one again or another. So the numbers of what is stored have no gaps, and nothing about a rejection needs to be remembered: sent
    again after a reconnect, such a batch is stored if there is room then.

    Attributes:
        delay: until its messages can be received; None for what the queue declares.
        ttl: from when it is stored, after which they are not delivered any more, delayed or not; None for what the queue declares at most.
        priority: in a queue with levels all are of that level, of the highest where it has none so high.

    Raises:
        DemandExceededError: it is more than was granted.
        SequenceGapError: messages before it were not sent.
        InvalidRequestError: a delay or a time to live that cannot be.
        QueueLimitError: too many batches wait for a delay.
        TransactionCommittedError, TransactionTooLargeError: it cannot be staged any more, or is too much for one transaction.
    """

    sequence: int
    batch: MessageBatch
    delay: float | None = None
    ttl: float | None = None
    connection: Ref | None = None
    priority: int = 0


# --- from receivers


@dataclass(frozen=True, slots=True)
class AttachReceiver:
    """A receiver begins. Reply: ReceiverAttached.

    Attributes:
        told_visibility: seconds, as it was told; where that was altered since, the longer one counts. ``NO_DEADLINE`` for none.
        priority: messages go to receivers with demand of the highest one.
    """

    connection: Ref | None = None
    told_visibility: float = 0.0
    priority: int = 0


@dataclass(frozen=True, slots=True)
class DemandSignalled:
    """Demand for this many more messages and bytes. Reply: any number of ReceivedMessages, within all demand so far.

    Messages are delivered while any of both is left, the last beyond the bytes.
    """

    messages: int
    bytes: int
    connection: Ref | None = None


class Acknowledged(NamedTuple):
    """Messages are done with, and gone for good.

    One that was lost to the visibility timeout is removed if nobody holds it now, and it is not on its way to a dead-letter queue.

    Raises:
        UnknownAcknowledgementError: one was not delivered on this connection, or was given back already.
    """

    ranges: Pairs
    connection: Ref | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """Messages come back, receivable again after ``delay`` in their old place; they have ``failed`` unless nobody tried them.

    ``failed`` is None where the receiver leaves that to the queue: they have where failures count. What has failed waits for as long as
    the queue has it wait, unless a ``delay`` is given. Those that have failed ``max_receives`` times leave for the dead-letter queue
    instead, with the ``error`` of the last time. With a ``reason`` they leave at once, however seldom they have failed; in a queue that
    keeps no dead letters they come back as any others, or are gone, where that ``drops`` them.

    Raises:
        UnknownAcknowledgementError: as of ``Acknowledged``.
        QueueLimitError: too much waits for a delay already.
    """

    ranges: Pairs
    delay: float = 0.0
    failed: bool | None = True
    connection: Ref | None = None
    reason: str | None = None
    error: str | None = None
    drops: bool = False


@dataclass(frozen=True, slots=True)
class Extended:
    """The visibility deadline of messages is ``seconds`` from now; too late for what has expired. Errors as of ``Acknowledged``."""

    ranges: Pairs
    seconds: float
    connection: Ref | None = None


@dataclass(frozen=True, slots=True)
class Left:
    """A connection ends, with its actor at the latest; known or not, it is forgotten.

    What it held is receivable again, and has ``failed`` as of ``Rejected``; its permits return, its reservations stay.

    Attributes:
        unseen: of what it held, that which its client never had: nothing of it has failed.
        together: it leaves with others. What all of them held is delivered in a turn to come, so that the oldest of it goes first.
    """

    failed: bool | None = True
    connection: Ref | None = None
    unseen: Pairs = ()
    together: bool = False


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """A mark: all that was told before is handled; if ``answered``, the answers to it have left too. Reply: MarkReached."""

    answered: bool = False
    connection: Ref | None = None


@dataclass(frozen=True, slots=True)
class Writable:
    """The client's socket takes more again, or not: for the connection's actor alone."""

    writable: bool


# --- from subscriptions


@dataclass(frozen=True, slots=True)
class OpenSubscription:
    """Own a subscription, created if need be, or read one for its owner. Reply: SubscriptionOpened.

    Attributes:
        name: the subscription; to browse there is none.
        mode: ``own`` takes it from an owner that is gone; ``read`` fetches for the owner with ``epoch``; ``browse`` opens nothing, it only
            says what there is to browse.
        epoch: of the owner, for ``read``; an owner that gives its own goes on after a lost connection, in the same epoch.
        starting: ``earliest``, or ``latest`` for only what is sent after its creation; otherwise ignored.
        owner_timeout: without an owner after which reservations end; None for never.
        take_over: whether it is taken from an owner that is connected.
        client: what the new owner calls itself, for others to be told.
        arrival: as of `AttachSender`.

    Raises:
        SubscriptionNotFoundError: there is none to read.
        SubscriptionOwnedError: its owner is connected, and not to be replaced.
        StaleEpochError: the owner to read for, or that wants to go on, has been replaced.
        TakenOverError: the owner, whom it would replace, was accepted later.
        QueueLimitError: there are too many.
        InvalidRequestError: the queue is exclusive, or has a single active consumer.
    """

    name: str
    mode: str = "own"
    epoch: int | None = None
    starting: str = "earliest"
    owner_timeout: float | None = None
    take_over: bool = False
    client: str = ""
    connection: Ref | None = None
    arrival: int = 0


@dataclass(frozen=True, slots=True)
class ReserveRequested:
    """Put ready messages at the ledger's next positions. Reply: MessagesReserved, now or within ``wait``.

    If the ledger reaches beyond ``start`` already, that is the answer and nothing is taken. Else up to ``messages`` and ``bytes`` (but one
    message at least) with numbers less than ``below`` are taken. When none is ready it waits for the first; a second reservation ends the
    first one's wait.

    Raises:
        StaleEpochError: there is another owner.
        DataLossError: ``start`` is not within the ledger.
    """

    request: int
    start: int
    messages: int
    bytes: int
    wait: float = 0.0
    below: int | None = None
    connection: Ref | None = None


@dataclass(frozen=True, slots=True)
class CommitRequested:
    """Acknowledge every position below ``position``; again, or for a lower one, it changes nothing. Reply: ReservationCommitted.

    Raises:
        StaleEpochError: there is another owner.
        DataLossError: ``position`` was never reserved.
    """

    request: int
    position: int
    connection: Ref | None = None


@dataclass(frozen=True, slots=True)
class FetchRequested:
    """Read of the reserved positions ``start`` <= p < ``stop`` as many as one step has. Reply: FetchedRanges.

    Raises:
        StaleEpochError: there is another owner.
        DataLossError: some of them were acknowledged, released, or never reserved.
    """

    request: int
    start: int
    stop: int
    connection: Ref | None = None


@dataclass(frozen=True, slots=True)
class BrowseRequested:
    """Read of the stored messages ``start`` <= n < ``stop`` as many as one step has. Reply: FetchedRanges.

    Stored is what is not acknowledged: ready, delayed, held, reserved or leaving. It changes nothing, not even what is known of the
    messages' deliveries. That is what they come with. Of one that is held or reserved it is how often it was delivered; of one that came
    back likewise, where the queue counts (``max_receives``, ``retry_delay``). Otherwise it is none, and not replayed.

    Raises:
        InvalidRequestError: the range is backwards.
    """

    request: int
    start: int
    stop: int
    connection: Ref | None = None


# --- between queues, and from transactions


@dataclass(frozen=True, slots=True)
class EndStages:
    """A transaction was committed, in the queue's log already: deliver what it published, and let losing senders go.

    It costs the same however many messages there are; again, it changes nothing.

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
    """Drop what a transaction has staged and let its senders go. Answer: how many messages, once that is durable."""

    writer: str
    version: int


@dataclass(frozen=True, slots=True)
class ExplainWait:
    """A sender or receiver asks why it gets nothing. Reply: WaitExplained, with its ``request``."""

    request: int
    connection: Ref | None = None


# --- from the broker


@dataclass(frozen=True, slots=True)
class PauseSenders:
    """Have senders wait for ``reason``, whatever room there is, or have what they send rejected where the queue rejects; None ends it.

    What they were granted before may still come. Receivers have nothing to do with it.
    """

    reason: str | None


@dataclass(frozen=True, slots=True)
class ReleaseSubscription:
    """Make what a subscription reserved receivable again, in its old place, and ``delete`` it or not. Answer: how many messages.

    Attributes:
        name: the subscription.
        delete: whether it is forgotten as well.
        force: whether it is released from an owner that is connected, whose query then lacks what it has read.

    Raises:
        SubscriptionNotFoundError: there is none.
        SubscriptionOwnedError: its owner is connected.
    """

    name: str
    delete: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True)
class PurgeQueue:
    """Drop what is ready or delayed, not what is held, reserved, staged or leaving. Answer: how many messages."""


@dataclass(frozen=True, slots=True)
class AlterQueue:
    """Go on with other settings, recorded by the event ``after`` (0: by none). Answer: these settings, once that is durable."""

    settings: QueueSettings
    after: int = 0


@dataclass(frozen=True, slots=True)
class GetStatistics:
    """Answer: QueueStatistics; without ``parties`` it costs the same however many connections there are."""

    parties: bool = True


Command: TypeAlias = (
    AttachSender
    | RequestCapacity
    | OfferBatch
    | AttachReceiver
    | DemandSignalled
    | Prefetch
    | HearTurns
    | Acknowledged
    | Rejected
    | Extended
    | Left
    | CaughtUp
    | ExplainWait
    | OpenSubscription
    | ReserveRequested
    | CommitRequested
    | FetchRequested
    | BrowseRequested
    | StoreDeadLetters
    | DeadLettersMoved
    | EndStages
    | DiscardTransaction
    | PauseSenders
    | ReleaseSubscription
    | PurgeQueue
    | AlterQueue
    | GetStatistics
    | Takes
)
"""The closed family of what a queue handles."""
