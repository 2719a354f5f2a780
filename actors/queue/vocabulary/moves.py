"""What queues tell each other when somebody moves messages from one to another, and what whoever asked is answered; and a look at messages.

Messages leave and arrive a parcel at a time. A parcel is one batch, or a part of one. The queue that has it takes it out of what can be
received, and hands it to the other queue. That one stores it and removes it here in one record, or does neither. All queues are on one
loop, so a parcel says at any time which of the two has it. The source may take it back as long as it is not stored. Nobody can store one
that was taken back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from actors.errors import QueueError

if TYPE_CHECKING:
    from actors.batch import MessageBatch
    from actors.queue.vocabulary.published import Published
    from actors.runtime.loop_ref import LoopActorRef

    Ref: TypeAlias = LoopActorRef[Any]

MOVE_BATCHES = 32
"""Parcels that are under way of one move: some milliseconds of work for each of the two queues."""
MOVE_BYTES = 1024 * 1024
"""Bytes of them, at which no further one is added."""
MOVE_SECONDS = 1.0
"""After so long a move answers, with what is left for the next one: whoever asks is answered in time, however much there is."""
MOVE_PAUSE = 0.01
"""Seconds until a move looks again where the source cannot say yet what is next, as while it drops what has expired."""


class NoRoomError(QueueError):
    """Messages are moved to a queue that has no room for them.

    Attributes:
        room: what it has room for, in the unit of which there is too little.
    """

    code = "queue-full"
    close = False

    def __init__(self, name: str, unit: str, one: int, room: int, stored: int, granted: int, limit: int) -> None:
        held = f", and {granted} are granted to senders" if granted else ""
        needs = "" if unit == "messages" else f", and the next message takes {one}"
        super().__init__(
            f"queue {name!r} has room for {room} {unit}{needs}: {stored} of max_{unit} {limit} are stored{held}"
        )
        self.room = room


class PausedError(QueueError):
    """A queue takes nothing in for now, whatever room there is; the text says why."""

    code = "limit-exceeded"
    close = False

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"queue {name!r} takes nothing now: {reason}")


class SilentQueueError(QueueError):
    """The queue that messages are moved to has failed on them, or has too much to do. What it has not stored stays where it was."""

    code = "internal-error"
    close = False

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the queue that messages are moved to did not answer within {seconds:g} s: the broker's log may say why"
        )


@dataclass(eq=False, slots=True)
class Parcel:
    """Messages on their way from one queue to another.

    Attributes:
        source: the number of the queue that they come from.
        start: the number of the first of them there.
        batch: the messages with their ids.
        published: through which exchange they came; None for none. All of a parcel are of one stored batch, and have this in common.
        priority: the level that they were of.
        stored: how many of the first are in the other queue, and here no more; None while it has not looked at them.
        withdrawn: they are the source's again, and the other queue must leave them.
        event: the number of the event by which the other queue has them.
    """

    source: int
    start: int
    batch: MessageBatch
    published: Published | None = None
    stored: int | None = None
    withdrawn: bool = False
    event: int = 0
    priority: int = 0

    def __len__(self) -> int:
        return len(self.batch)

    def withdraw(self) -> tuple[int, int] | None:
        """Have the source keep it; the numbers of the messages that the other queue has all the same."""
        self.withdrawn = True
        return (self.start, self.start + self.stored) if self.stored else None


@dataclass(frozen=True, slots=True)
class MoveMessages:
    """Move what can be received now, the oldest first, to another queue. Answer: MessagesHandedOver, once what was moved is durable.

    What waits for a delay, is held, reserved, staged or leaving stays. In the other queue each message has its own id, which one that was
    generated stays, its key and its headers. It is new there otherwise: stored now, delivered never, and has never failed. The queue's
    time to live holds for it from now on; the queue's delay, which is for what is sent, does not.

    Attributes:
        target: the other queue.
        id_prefix: the first bytes of the ids generated for this queue's messages.
        count: messages at most; None for all.
        below: only messages with lower numbers; None for those that are here now.
        seconds: when to answer, be there more or not.
        keep_history: whether what dead letters say of their deaths stays in their headers. None keeps it, but for what goes back to the
            queue in which it died last: that begins anew there, with the key that it had.
        name: of the other queue, for the latter.
    """

    target: Ref
    id_prefix: bytes
    count: int | None = None
    below: int | None = None
    seconds: float = MOVE_SECONDS
    keep_history: bool | None = True
    name: str = ""


@dataclass(frozen=True, slots=True)
class MessagesHandedOver:
    """What a move came to.

    Attributes:
        messages: how many were moved.
        below: what was meant, as of `MoveMessages`, for going on.
        more: whether there may be more to move.
        refusal: why the other queue took no more; None where it did not refuse.
    """

    messages: int
    below: int
    more: bool
    refusal: QueueError | None


@dataclass(frozen=True, slots=True)
class StoreParcels:
    """Store what another queue hands over, each parcel or its beginning, as far as there is room. Reply: ParcelsStored, at once."""

    source: Ref
    parcels: tuple[Parcel, ...]


@dataclass(frozen=True, slots=True)
class ParcelsStored:
    """The other queue has looked at these parcels, which say how much of them it has.

    Attributes:
        refusal: why it has not stored all.
    """

    parcels: tuple[Parcel, ...]
    refusal: QueueError | None


@dataclass(frozen=True, slots=True)
class PeekMessages:
    """Look at stored messages, whoever holds them, and change nothing. Answer: PeekedMessages.

    Attributes:
        count: messages at most, one or more.
        start: from this number on; None for the last ones.
    """

    count: int
    start: int | None
