"""What happens to a queue for good: the events whose fold is its durable state.

Each can be applied twice without harm, because it says which numbers it is about: what a log has already seen changes
nothing. Recovery, replication and the first execution are thus one piece of code, ``QueueLog.apply``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

from actors.batch import MessageBatch
from actors.queue.structures.ranges import Range
from actors.queue.vocabulary.calendar import NOWHERE, Scheduled
from actors.queue.vocabulary.published import Published
from actors.queue.vocabulary.stages import StageKey, StageNumbers


class ReservedRange(NamedTuple):
    """Messages ``start`` <= n < ``stop`` of one stored batch, as they are delivered to a subscription."""

    start: int
    stop: int
    delivery_count: int
    possibly_replayed: bool


@dataclass(frozen=True, slots=True)
class MessagesAdded:
    """A batch was stored.

    Attributes:
        first: the queue's number of its first message.
        enqueued_us: microseconds since the epoch.
        producers: who sent it, each with its own number after its last message in it; who has no name is not among them.
        delay_us: microseconds from ``enqueued_us`` until its messages can be received.
        ttl_us: microseconds from ``enqueued_us`` after which they are of no use; None for never.
        stage: nobody can receive them before this is published; None for what can be received at once.
        temporary: of those who sent it those whose name was made up for one run, as ``producers``.
        numbers: where the stage is written through an exchange, how far this queue has it with this batch.
        published: to which exchange, and with which routing key; None for what was sent to the queue itself.
        dropped: what is dropped for it, as the queue is over its limit with it: the oldest, and some of its own where it is more than that.
        priority: the level of the queue that they are of; 0 in a queue without levels. It is recorded by which stream has them.
        ids_until_us: until when others with an id of theirs are duplicates, microseconds since the epoch; 0 where their ids do not count.
            Of what is staged it says that they do, and the commit until when.
        scheduled: what it has to do with the queue's calendar; of ``MessagesScheduled`` alone.
    """

    first: int
    batch: MessageBatch
    enqueued_us: int
    producers: tuple[tuple[str, int], ...] = ()
    delay_us: int = 0
    ttl_us: int | None = None
    stage: StageKey | None = None
    temporary: tuple[tuple[str, int], ...] = ()
    numbers: StageNumbers | None = None
    published: Published | None = None
    dropped: tuple[Range, ...] = ()
    priority: int = 0
    ids_until_us: int = 0
    scheduled: ClassVar[Scheduled | None] = None


@dataclass(frozen=True, slots=True)
class MessagesScheduled(MessagesAdded):
    """A batch was stored in the queue's calendar, or has left it for the queue.

    Of what waits there ``first`` is a position of the stream that has it, and ``priority`` says which stream that is, as of what is in the
    queue: it is the stream's number less the queue's.
    """

    scheduled: Scheduled = NOWHERE  # type: ignore[misc]  # of the others it is nothing, at no cost


@dataclass(frozen=True, slots=True)
class MessagesDeduplicated:
    """Nothing of what came was stored, for all of it had ids of messages that were: it is remembered how far its senders are.

    Attributes:
        producers: as of ``MessagesAdded``; ``temporary`` likewise.
    """

    producers: tuple[tuple[str, int], ...] = ()
    temporary: tuple[tuple[str, int], ...] = ()
    first: ClassVar[int] = -1
    """Whoever looks for the first message of what was stored finds that there is none."""


@dataclass(frozen=True, slots=True)
class MessagesAcknowledged:
    """Receivers are done with these messages."""

    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class MessagesReturned:
    """Messages came back that somebody failed to handle: ``returns`` has ranges, each with how often that has happened.

    Happens only to queues that count failures (``max_receives``, ``retry_delay``), and where some are refused for good; others remember
    nothing of a delivery. In journals from before there were two counters it is how often they were delivered, for every delivery was
    taken for a failure.

    Attributes:
        returned_us: when, microseconds since the epoch; 0 where nothing waits.
        delays: of each range the microseconds from then on for which it waits; empty where nothing does.
    """

    returns: tuple[tuple[int, int, int], ...]
    returned_us: int = 0
    delays: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MessagesExpired:
    """Nobody received these messages in their time, and no dead-letter queue wants them."""

    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class MessagesDropped:
    """These messages were the oldest of a queue over its limit, or had failed too often, and no dead-letter queue wants them."""

    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class MessagesMoved:
    """These messages are in another queue now. It is recorded in one with that queue's ``MessagesAdded``.

    Attributes:
        dead: they are its dead letters; otherwise somebody has moved them. Only the sums over it depend on that.
    """

    ranges: tuple[Range, ...]
    dead: bool = True


@dataclass(frozen=True, slots=True)
class QueuePurged:
    """These messages were dropped."""

    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class CalendarPurged:
    """What waited in the queue's calendar was dropped: of each stream what is below a position."""

    streams: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SubscriptionOwned:
    """An owner took a subscription over.

    Attributes:
        epoch: the number of its ownership; greater each time.
        min_sequence: it gets no messages below this; what counts is what its first opening says.
        owner_timeout: seconds without an owner after which its reservations end; None for never.
        opened_us: microseconds since the epoch; 0 where an older journal does not say.
    """

    name: str
    epoch: int
    min_sequence: int
    owner_timeout: float | None
    opened_us: int = 0


@dataclass(frozen=True, slots=True)
class LedgerExtended:
    """Messages were put into a subscription's ledger, from ``position`` on."""

    subscription: str
    position: int
    ranges: tuple[ReservedRange, ...]


@dataclass(frozen=True, slots=True)
class LedgerAdvanced:
    """A subscription is done with every position below ``position``."""

    subscription: str
    position: int


@dataclass(frozen=True, slots=True)
class SubscriptionReleased:
    """A subscription gave back what it had reserved below ``position``."""

    subscription: str
    position: int


@dataclass(frozen=True, slots=True)
class SubscriptionDeleted:
    """A subscription is no more, and what it had reserved is given back.

    Attributes:
        epoch: its last. One of the same name that is made later has a greater one, and begins at a later position: what belonged to this
            one can neither own nor read it.
        position: its positions ended there.
    """

    name: str
    epoch: int
    position: int


@dataclass(frozen=True, slots=True)
class SubscriptionLeft:
    """Nobody uses a subscription any more, or somebody does again. Recorded only where those that nobody uses are forgotten after a time.

    Attributes:
        epoch: its ownership then.
        left_us: when it was used last, microseconds since the epoch; 0 where it is used again.
    """

    name: str
    epoch: int
    left_us: int


@dataclass(frozen=True, slots=True)
class StagesEnded:
    """A transaction was committed. It is recorded in one with what that does to every other queue.

    Attributes:
        published: what these stages hold can be received, in the place of its numbers.
        discarded: what these hold is gone: the writer's others, of this version or an older one.
        below: of those that are gone as ``StagesDiscarded`` has it.
        ids_until_us: until when others with an id of what is published are duplicates; 0 where their ids do not count.
        duplicates: of what is published the messages that are gone at once, for their ids were those of messages that are stored.
    """

    published: tuple[StageKey, ...]
    discarded: tuple[StageKey, ...]
    below: int
    ids_until_us: int = 0
    duplicates: tuple[Range, ...] = ()


@dataclass(frozen=True, slots=True)
class StagesDiscarded:
    """What these stages hold is gone: their transaction was aborted, or given up.

    Attributes:
        below: the queue's next number then. A stage of the same name that begins with it or later is another one.
    """

    stages: tuple[StageKey, ...]
    below: int


Event: TypeAlias = (
    MessagesAdded
    | MessagesDeduplicated
    | MessagesAcknowledged
    | MessagesReturned
    | MessagesExpired
    | MessagesDropped
    | MessagesMoved
    | QueuePurged
    | CalendarPurged
    | SubscriptionOwned
    | LedgerExtended
    | LedgerAdvanced
    | SubscriptionReleased
    | SubscriptionDeleted
    | SubscriptionLeft
    | StagesEnded
    | StagesDiscarded
)

LAZY: frozenset[type[Event]] = frozenset(
    {MessagesAcknowledged, MessagesReturned, MessagesExpired, MessagesDropped, MessagesMoved, SubscriptionLeft}
)
"""Nothing waits for these to be durable: if they are lost, messages are delivered again, possibly replayed, or expire or are
dropped again, and a subscription is forgotten later."""
