"""What a queue is told, and whoever publishes to several queues learns, of batches that others have stored in its log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from actors.batch import MessageBatch
    from actors.queue.structures.ranges import Range
    from actors.queue.vocabulary.commands import OfferBatch, Ref
    from actors.queue.vocabulary.stages import StageKey
    from actors.runtime.loop_ref import LoopActorRef


@dataclass(frozen=True, slots=True)
class StoredBeside:
    """Others have stored something in the queue's log: it delivers that. No reply."""


@dataclass(frozen=True, slots=True)
class Unroutable:
    """No queue took these messages of a sender that wants to know. It is told before `SentMessages` of their batch.

    Attributes:
        ranges: (first number of the sender's, count) pairs.
        reason: why, in words.
    """

    ranges: tuple[tuple[int, int], ...]
    reason: str


class RoomAwaited(NamedTuple):
    """What a sender has sent waits for a queue that has no room. Its queue was not known before that came, so there was a permit for it.

    Told anew where something else waits, and when nothing does any more.

    Attributes:
        first: the sender's number of the first message that waits, as does all behind it; None where nothing waits any more.
    """

    first: int | None


class OfferCopies(NamedTuple):
    """To a sender through an exchange: as ``OfferBatch``, of messages that have more routing keys than their own.

    Each queue that any of the keys leads to gets a message once.

    Attributes:
        further: routing keys that each of the messages has beside its own.
    """

    sequence: int
    batch: MessageBatch
    delay: float | None
    ttl: float | None
    connection: Ref | None
    priority: int
    further: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DropStages:
    """Others have discarded stages in the queue's log: it holds them back no more. No reply.

    Attributes:
        below: those that began before this number.
        after: the number of the event by which they are discarded.
    """

    stages: tuple[StageKey, ...]
    below: int
    after: int


@dataclass(frozen=True, slots=True)
class SettledBeside:
    """A transaction has settled in this queue what a receiver of it held: it delivers what came back, and has room again. No reply."""


class Settlement(NamedTuple):
    """What one receiver held, and a transaction settles when it is committed.

    Attributes:
        queue: the queue's name.
        number: its number: one that was made anew under the name has another.
        receiver: by which the queue knows the receiver.
        acknowledged: ranges of the queue's numbers that are done with.
        refused: those that are not wanted again: dead letters, where the queue has a place for these.
        returned: those that are to be delivered again.
        reason: why what is refused is.
    """

    queue: str
    number: int
    receiver: LoopActorRef[Any]
    acknowledged: tuple[Range, ...]
    refused: tuple[Range, ...]
    returned: tuple[Range, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class TallyStage:
    """To the sender of a stage through an exchange: how many messages of it does each queue hold? Reply: StageTallied.

    Answered behind the confirmation of all that was offered before.

    Raises:
        InvalidRequestError: nothing is staged on this connection.
        TransactionCommittedError: the stage's version is committed.
        StageGoneError: a queue has lost what it held of it.
    """

    request: int


@dataclass(frozen=True, slots=True)
class StageTallied:
    """What a stage holds, as a commit has to name it.

    Attributes:
        request: that of ``TallyStage``.
        held: the queues that hold messages of the stage, in order by name, each with how many, whoever has sent them and wherever its
            sender's messages go now; not those that were deleted.
    """

    request: int
    held: tuple[tuple[str, int], ...]


class LettersRefused:
    """To the queue itself: some of what it has refused is to be published as dead letters."""

    __slots__ = ()


REFUSED = LettersRefused()


@dataclass(frozen=True, slots=True)
class AwaitRoom:
    """``source`` has something for this queue, which is full: dead letters, or the message of a schedule. Reply to it: RoomMade, once."""

    source: LoopActorRef[Any]


@dataclass(frozen=True, slots=True)
class RoomMade:
    """There is room again in a queue that was full: whoever waited for it looks again."""


@dataclass(frozen=True, slots=True)
class RoutesChanged:
    """Exchanges or bindings are others: dead letters that wait for room may go elsewhere."""


@dataclass(frozen=True, slots=True)
class BatchRead:
    """A large batch is in memory, or there is room for one: what could not leave may."""


class Distributed(NamedTuple):
    """What became of a batch for several queues.

    Attributes:
        event: the number of the event that stored it: it can be confirmed when that is durable. 0 where no queue stored it, or in memory;
            below that where only transient queues did, and nothing waits.
        queues: the names of those that stored it.
        rejected: of those that did not, for they reject what they have no room for: why.
    """

    event: int
    queues: tuple[str, ...]
    rejected: Mapping[str, str]


OfferThere: TypeAlias = "OfferBatch | OfferCopies"
"""What a sender through an exchange is offered."""
OfPublishing: TypeAlias = Unroutable | StageTallied | RoomAwaited
"""What a connection that publishes to an exchange is told, and no other."""
