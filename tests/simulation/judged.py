"""What the checkers share: promises by their names, what a queue was declared to do, and what is known of its messages."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.simulation.history import Arrived
from tests.simulation.task_rules import TaskRules

TOLERANCE = 0.002
"""Seconds: times on the wire are whole milliseconds."""
LOST = "acknowledged-lost"
DUPLICATED = "duplicated"
REORDERED = "reordered"
PHANTOM = "phantom"
RESURRECTED = "redelivered-after-acknowledgement"
EARLY = "early"
EXPIRED = "expired"
STUCK = "stuck"
SHARED = "shared"
UNCOMMITTED = "uncommitted"
BEYOND = "beyond-what-was-asked"
COUNTED = "counted-wrongly"
OLD_RECEIPT = "settled-by-an-old-receipt"
GOOD_RECEIPT = "a-good-receipt-refused"
GROUP_SHARED = "a-group-of-two-receivers"
PASSED = "passed-what-goes-first"
DROPPED = "dropped-wrongly"
BURIED = "a-dead-letter-that-cannot-be"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that must not happen.

    Attributes:
        kind: which promise is broken.
        time: virtual seconds.
        text: what happened.
    """

    kind: str
    time: float
    text: str

    def __str__(self) -> str:
        return f"{self.kind} at {self.time:.6f}: {self.text}"


@dataclass(frozen=True, slots=True)
class QueueRules:
    """What a queue was declared to do, as far as it shows.

    Attributes:
        visibility: seconds that a receiver has for a message; the least where somebody alters it, and ``longest`` the most.
        delay: seconds before the first delivery, unless the sender says otherwise.
        ttl: seconds after which it is not delivered for the first time, unless the sender says less; None for never.
        in_order: whether there is one receiver at a time, and first deliveries come in the order of the queue whoever gets them.
        single: whether one receiver has it at a time, and another only when that holds nothing or has left. Takers are beside it.
        drops: whether messages may leave the queue unacknowledged otherwise: expired, as dead letters, or moved.
        moves: whether a program moves messages out of it. An acknowledgement that comes too late may find its message under way, where it
            does not count; the message is back if the other queue is full.
        fed_by: the queues whose messages may come here, as dead letters or because a program moves them; none goes back.
        tasks: what it was declared to do with levels, limits that drop, and failures; None where nobody looks at that.
        taken_only: whether nobody but takers gets anything from it before the end, so that each of its deliveries is in the history.
        groups: whether the messages of a group go to one receiver at a time, in order, and others pass them.
        window: seconds in which one message with an id is stored; None where nobody looks at ids.
        most_ids: ids that it remembers at a time.
    """

    visibility: float
    delay: float = 0.0
    ttl: float | None = None
    in_order: bool = False
    drops: bool = False
    moves: bool = False
    fed_by: tuple[str, ...] = ()
    longest: float | None = None
    taken_only: bool = False
    single: bool = False
    groups: bool = False
    window: float | None = None
    most_ids: int | None = None
    tasks: TaskRules | None = None

    @property
    def counts_failures(self) -> bool:
        """Whether it remembers, through a restart too, how often each message has failed, and for how long that waits."""
        return self.tasks is not None and self.tasks.counts_failures


@dataclass(slots=True)
class Timing:
    """How long the broker may take.

    Attributes:
        commit: seconds until what has happened is durable: deliveries may be as late, and decided as much earlier.
        acknowledgement: seconds after which an acknowledgement that arrived survives a crash; it may be another one for each crash.
    """

    commit: float = 0.0
    acknowledgement: float = 0.0

    def is_late(self, stored: Stored, now: float) -> bool:
        """Whether a lease may be over; near its end that depends on when the broker began to count."""
        return now >= stored.lease_until - self.commit - TOLERANCE

    def is_leased(self, stored: Stored, now: float) -> bool:
        """Whether its receiver has it for certain."""
        return not (stored.maybe_returned or self.is_late(stored, now))


@dataclass(slots=True)
class Stored:
    """One sequence number of a queue, as far as deliveries have shown it.

    Attributes:
        delivery: the number of the last delivery; 0 where a crash has had it forgotten.
        lease_latest: until when its lease lasts at most, where ``lease_until`` is until when it lasts at least.
        waits: until when it may wait at most, since it was given back or has failed, where ``not_before`` is until when it waits at least.
        over: whether the last delivery was settled, by its receipt.
        least, most: the number of the next delivery; no bound where ``most`` is None.
        went_back: when it was said that nobody saw the last delivery, so that the next one may say that it is the first; None where
            that is not so.
    """

    message: str
    holder: int | None = None
    left: tuple[float, int] | None = None
    answered_late: tuple[float, int, float | None] | None = None
    lease_until: float = 0.0
    maybe_returned: bool = False
    not_before: float = 0.0
    waits: float = 0.0
    acknowledged_at: float | None = None
    maybe_acknowledged: bool = False
    delivery: int = 0
    lease_latest: float = 0.0
    over: bool = False
    least: int = 1
    most: int | None = None
    went_back: float | None = None


@dataclass(slots=True)
class QueueState:
    """What is known of a queue.

    Attributes:
        first_deliveries: whose they are, and of those the numbers and times that a later one may be behind: each number is smaller
            than that before it, each time later.
    """

    rules: QueueRules
    stored: dict[int, Stored] = field(default_factory=dict)
    sequence_of: dict[str, int] = field(default_factory=dict)
    offered: dict[str, tuple[str, int]] = field(default_factory=dict)
    confirmed: dict[str, float] = field(default_factory=dict)
    refused: dict[str, None] = field(default_factory=dict)
    arrivals: dict[str, list[Arrived]] = field(default_factory=dict)
    numbers: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    first_deliveries: dict[object, list[tuple[int, float]]] = field(default_factory=dict)
    held: dict[int, dict[int, None]] = field(default_factory=dict)
    recent: list[int] = field(default_factory=list)
    receiver: int | None = None
    deleted_at: float | None = None
    doomed: bool = False

    def overtaker(self, whose: object, sequence: int, now: float, since: float) -> int | None:
        """Note that somebody has a message for the first time: the number of one behind it that they had before, but after ``since``."""
        before = self.first_deliveries.setdefault(whose, [])
        found = next((number for number, time in before if number > sequence and time > since), None)
        while before and before[-1][0] <= sequence:
            before.pop()
        before.append((sequence, now))
        return found

    def let_go(self, sequence: int, stored: Stored, now: float) -> None:
        """Nobody holds it any more."""
        if stored.holder is not None:
            stored.left = now, stored.holder
            self.held.get(stored.holder, {}).pop(sequence, None)
            stored.holder = None
