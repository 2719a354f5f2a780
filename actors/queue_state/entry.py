"""One stored batch, and spans: pieces of it on their way through the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue_state.ranges import RangeSet

if TYPE_CHECKING:
    from actors.batch import MessageBatch
    from actors.queue_state.leases import Receiver
    from actors.queue_state.ranges import Range


class Entry:
    """A stored batch whose messages have the sequence numbers ``first`` <= n < ``stop``.

    Attributes:
        size: bytes of the whole batch's body.
        remaining: messages not yet acknowledged.
        acknowledged: which ones are; None while none is.
    """

    __slots__ = ("acknowledged", "batch", "enqueued_us", "first", "remaining", "size", "stop")

    def __init__(self, first: int, batch: MessageBatch, enqueued_us: int) -> None:
        count = len(batch)
        self.first = first
        self.stop = first + count
        self.batch = batch
        self.enqueued_us = enqueued_us
        self.size = batch.nbytes
        self.remaining = count
        self.acknowledged: RangeSet | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entry):
            return NotImplemented
        return (
            self.first == other.first
            and self.enqueued_us == other.enqueued_us
            and self.remaining == other.remaining
            and self.acknowledged == other.acknowledged
            and self.batch == other.batch
        )

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"Entry({self.first}..{self.stop - 1}, remaining={self.remaining})"

    def acknowledge(self, start: int, stop: int) -> int:
        """Acknowledge what of a range is in this entry; returns how many messages were not acknowledged before."""
        start = max(start, self.first)
        stop = min(stop, self.stop)
        if stop - start == self.stop - self.first and self.acknowledged is None:
            # The usual case: all at once. The entry is dropped now, so the set is never built.
            added = self.remaining
            self.remaining = 0
            return added
        if self.acknowledged is None:
            self.acknowledged = RangeSet()
        added = self.acknowledged.add(start, stop)
        self.remaining -= added
        return added

    def unacknowledged(self) -> list[Range]:
        """The ranges that are still to be acknowledged."""
        if self.remaining == 0:
            return []
        if self.acknowledged is None:
            return [(self.first, self.stop)]
        return self.acknowledged.gaps(self.first, self.stop)

    def part(self, start: int, stop: int) -> MessageBatch:
        """The messages ``start`` <= n < ``stop``, sharing the buffers."""
        first = self.first
        return self.batch.slice(start - first, stop - first)

    def bytes_of(self, start: int, stop: int) -> int:
        """Bytes of a range, such that the parts of a batch add up to the whole."""
        if stop - start == self.stop - self.first:
            return self.size
        prefix = self.batch.prefix_bytes
        return prefix(stop - self.first) - prefix(start - self.first)


class Span:
    """Consecutive messages of one entry with one delivery history: ready, delayed, leased or reserved.

    It is moved from structure to structure rather than copied, which is why it can change.

    Attributes:
        deliveries: how often these messages have been delivered.
        replayed: whether they may have been delivered before.
        deadline: when its lease or delay ends, in seconds; None while no heap of deadlines has it.
        holder: the receiver that leases it, or None.
    """

    __slots__ = ("deadline", "deliveries", "entry", "holder", "replayed", "start", "stop")

    def __init__(self, start: int, stop: int, entry: Entry, deliveries: int, replayed: bool) -> None:
        self.start = start
        self.stop = stop
        self.entry = entry
        self.deliveries = deliveries
        self.replayed = replayed
        self.deadline: float | None = None
        self.holder: Receiver | None = None

    def __repr__(self) -> str:
        return f"Span({self.start}..{self.stop - 1}, deliveries={self.deliveries}, replayed={self.replayed})"

    def __len__(self) -> int:
        return self.stop - self.start

    def part(self, start: int, stop: int) -> Span:
        """A new span of some of its messages with the same history, in no structure yet."""
        return Span(start, stop, self.entry, self.deliveries, self.replayed)

    def continues(self, other: Span) -> bool:
        """Whether it begins where ``other`` ends and the two can be delivered as one."""
        return (
            self.start == other.stop
            and self.entry is other.entry
            and self.deliveries == other.deliveries
            and self.replayed == other.replayed
        )
