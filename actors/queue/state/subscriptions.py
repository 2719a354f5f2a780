"""A subscription: its ledger, which has messages at positions, who owns it, and a reservation that waits."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from actors.errors import DataLossError, StaleEpochError
from actors.queue.vocabulary.replies import FetchedMessages
from actors.queue.vocabulary.settings import RETURN_GRACE_SECONDS

if TYPE_CHECKING:
    from actors.queue.state.entries import EntryTable
    from actors.queue.structures.deadlines import DeadlineHeap
    from actors.queue.structures.ranges import Range
    from actors.queue.vocabulary.replies import Connection


class Segment(NamedTuple):
    """Consecutive messages with one delivery history at consecutive positions from ``position`` on, of however many batches."""

    position: int
    start: int
    stop: int
    delivery_count: int
    possibly_replayed: bool

    def clipped(self, low: int, high: int) -> Segment:
        """The part of it at positions ``low`` <= p < ``high``, which it must have."""
        position = self.position
        if low <= position and position + self.stop - self.start <= high:
            return self
        start = self.start + max(0, low - position)
        stop = min(self.stop, self.start + high - position)
        return self._replace(position=max(low, position), start=start, stop=stop)


def pieces(name: str, segments: Iterable[Segment], table: EntryTable) -> Iterator[tuple[FetchedMessages, int]]:
    """What segments of the ledger ``name`` hold, a piece of a batch at a time, with the number of the event that stored it.

    Each is read as it is reached, which is in the queue's own turn. Raises DataLossError where it has been acknowledged meanwhile.
    """
    for position, start, stop, delivery_count, possibly_replayed in segments:
        at = start
        while at < stop:
            entry = table.at(at)
            where = position + at - start
            if entry is None:
                raise DataLossError(name, where, position + stop - start, where, where)
            end = min(stop, entry.stop)
            batch = entry.part(at, end)
            facts = entry.enqueued_us, delivery_count, possibly_replayed, entry.published
            yield FetchedMessages(where, at, batch, *facts), entry.event
            at = end


@dataclass(slots=True)
class Ledger:
    """Positions ``base`` (all below are done with) to ``high``, appended at the end, dropped from the front.

    Attributes:
        epoch: the number of its ownership.
        min_sequence: the lowest queue number that it takes.
        owner_timeout: seconds; None for never.
        opened_us: when its owner took it, microseconds since the epoch; 0 where nobody knows.
        left_us: when it was last used since then; 0 while it is, and where nobody knows.
    """

    name: str
    min_sequence: int
    position: InitVar[int] = 0
    epoch: int = 0
    base: int = field(init=False)
    high: int = field(init=False)
    owner_timeout: float | None = None
    opened_us: int = 0
    left_us: int = 0
    _segments: list[Segment] = field(default_factory=list)
    _positions: list[int] = field(default_factory=list)

    def __post_init__(self, position: int) -> None:
        self.base = self.high = position

    def __repr__(self) -> str:
        return f"Ledger({self.name!r}, epoch={self.epoch}, {self.base}..{self.high})"

    def facts(self) -> list[Any]:
        """What a checkpoint has of it before its segments; ``opened_us`` and ``left_us`` are behind them."""
        return [self.name, self.epoch, self.base, self.min_sequence, self.owner_timeout]

    def all_segments(self) -> list[Segment]:
        """The segments from ``base`` to ``high``: a list of the caller's own."""
        return self._segments.copy()

    @classmethod
    def restored(cls, snapshot: list[Any]) -> Ledger:
        """The ledger of these ``facts``, a list of its segments' fields but their positions, ``opened_us`` and ``left_us``."""
        name, epoch, base, min_sequence, owner_timeout, segments, *times = snapshot
        ledger = cls(name, min_sequence)
        ledger.epoch = epoch
        ledger.base = ledger.high = base
        ledger.owner_timeout = owner_timeout
        # An older checkpoint has none of them, or the first.
        ledger.opened_us, ledger.left_us = (*times, 0, 0)[:2]
        for start, stop, delivery_count, possibly_replayed in segments:
            ledger.append(start, stop, delivery_count, possibly_replayed)
        return ledger

    def append(self, start: int, stop: int, delivery_count: int, possibly_replayed: bool) -> None:
        """Put messages with one delivery history at the next positions."""
        last = self._segments[-1] if self._segments else None
        if last is not None and last[2:] == (start, delivery_count, possibly_replayed):
            self._segments[-1] = last._replace(stop=stop)
        else:
            self._segments.append(Segment(self.high, start, stop, delivery_count, possibly_replayed))
            self._positions.append(self.high)
        self.high += stop - start

    def segments(self, low: int, high: int) -> tuple[Segment, ...]:
        """What is at the positions ``low`` <= p < ``high``, all of which it must hold."""
        if low >= high:
            return ()
        begin = bisect_right(self._positions, low) - 1
        end = bisect_left(self._positions, high)
        found = self._segments[begin:end]
        found[0] = found[0].clipped(low, high)
        found[-1] = found[-1].clipped(low, high)
        return tuple(found)

    def drop_below(self, position: int) -> list[Range]:
        """Be done with every position below ``position``; returns the messages' ranges.

        Positions below ``base`` are done with already; there are none from ``high`` on.
        """
        position = min(position, self.high)
        if position <= self.base:
            return []
        dropped = [(segment.start, segment.stop) for segment in self.segments(self.base, position)]
        keep = bisect_right(self._positions, position) - 1
        segment = self._segments[keep]
        if segment.position + segment.stop - segment.start <= position:
            keep += 1
        else:
            self._segments[keep] = segment.clipped(position, self.high)
            self._positions[keep] = position
        del self._segments[:keep], self._positions[:keep]
        self.base = position
        return dropped


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

    priority: ClassVar[int] = 0
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
class Absence:
    """That nobody uses a subscription. ``deadline`` is when that is looked at again, and ``heap`` is what knows that."""

    ledger: Ledger
    deadline: float | None = None
    heap: object | None = None


@dataclass(eq=False, slots=True)
class Ownership:
    """Who owns a subscription now.

    Attributes:
        client: what the owner calls itself, or the last one did; empty where it does not say.
        used: when it was last asked something or was connected, on the clock of deadlines; None where nobody knows.
        noted: whether its ledger says the same.
        connection: the owner's; None while none is connected.
        arrival: the number of the owner's connection, in the order in which they were accepted.
        deadline: when its reservations end for want of an owner; None while they do not. ``heap`` is what knows that.
        waiting: the owner's reservation that waits.
        absence: when to look whether it is to be forgotten.
    """

    ledger: Ledger
    client: str = ""
    used: float | None = None
    noted: bool = False
    connection: Connection | None = None
    arrival: int = 0
    deadline: float | None = None
    heap: object | None = None
    waiting: Reservation | None = None
    absence: Absence = field(init=False)

    def __post_init__(self) -> None:
        self.absence = Absence(self.ledger)


def await_use(owners: Iterable[Ownership], unused: DeadlineHeap[Absence], expiry: float | None, now: float) -> float:
    """Look soon which subscriptions nobody uses; none goes before a grace from now on is over. Returns when that is.

    Args:
        owners: who owns each subscription.
        unused: the looks that are due, made anew.
        expiry: seconds that a subscription may stay unused; None for ever.
        now: monotonic seconds.
    """
    for owner in owners:
        if owner.absence.deadline is not None:
            unused.forget(owner.absence)
        if expiry is not None:
            unused.push(owner.absence, now)
    return now + min(RETURN_GRACE_SECONDS, expiry or 0.0)
