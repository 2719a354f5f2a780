"""What is ready with its bytes, for queues that drop what is over a limit of bytes: others keep no such count.

A message counts as its share of its batch, of all of that and the table's overhead: no batch is read to know it. At a start, or where a
queue that lives begins to drop, the bytes are counted from the first message on, some batches in each step. Until that has come to the end
they are less than there are, so that nothing is dropped that need not be.
"""

from __future__ import annotations

from dataclasses import fields
from itertools import islice
from typing import TYPE_CHECKING, Self

from actors.queue.state.ready import ReadyRanges

if TYPE_CHECKING:
    from actors.queue.state.entries import Entry, Extent, Span
    from actors.queue.structures.ranges import Range


def share(first: int, stop: int, size: int, low: int, high: int) -> int:
    """What the messages ``low`` <= n < ``high`` are of a batch of ``size`` bytes; of parts it is what it is of all of them together."""
    count = stop - first
    return size * (high - first) // count - size * (low - first) // count


class CountedReady(ReadyRanges):
    """See ``ReadyRanges``.

    Attributes:
        bytes: of what can be delivered now, as far as it is counted.
        counted: the number up to which it is.
    """

    __slots__ = ("bytes", "counted")
    bytes: int
    counted: int

    @classmethod
    def of(cls, ready: ReadyRanges) -> Self:
        """The same, nothing of it counted yet."""
        found = cls.__new__(cls)
        for each in fields(ReadyRanges):
            setattr(found, each.name, getattr(ready, each.name))
        found.bytes = 0
        found.counted = min((start for start, _ in islice(found.in_order(), 1)), default=found.known)
        return found

    def plain(self) -> ReadyRanges:
        """See ``ReadyRanges``."""
        found = ReadyRanges.__new__(ReadyRanges)
        for each in fields(ReadyRanges):
            setattr(found, each.name, getattr(self, each.name))
        return found

    @property
    def is_counted(self) -> bool:
        """Whether all of it is."""
        return self.counted == self.known

    def count_on(self, batches: int) -> None:
        """Count so many batches more, where there are as many."""
        reached = 0
        for extent in islice(self._table.extents(self.counted, self.known), batches):
            reached += 1
            low, high = max(extent.first, self.counted), min(extent.stop, self.known)
            self.bytes += sum(self._share(extent, *part) for part in self._ready_within(low, high))
            self.counted = high
        if reached < batches:
            self.counted = self.known

    def size_of(self, start: int, stop: int) -> int:
        """The bytes of a range of messages that are stored, as far as they are counted."""
        stop = min(stop, self.counted)
        if start >= stop:
            return 0
        return sum(
            self._share(extent, max(start, extent.first), min(stop, extent.stop))
            for extent in self._table.extents(start, stop)
        )

    def add(self, stop: int, count: int) -> None:
        """See ``ReadyRanges``."""
        was_counted = self.is_counted
        super().add(stop, count)
        if was_counted:
            self.counted = stop
            self.bytes += self.size_of(stop - count, stop)

    def add_delayed(self, stop: int, count: int, due: float) -> None:
        """See ``ReadyRanges``."""
        was_counted = self.is_counted
        super().add_delayed(stop, count, due)
        if was_counted:
            self.counted = stop

    def add_staged(self, stop: int, count: int) -> None:
        """See ``ReadyRanges``."""
        was_counted = self.is_counted
        super().add_staged(stop, count)
        if was_counted:
            self.counted = stop

    def publish(self, start: int, stop: int) -> None:
        """See ``ReadyRanges``."""
        super().publish(start, stop)
        self.bytes += self.size_of(start, stop)

    def carve(self, start: int, stop: int) -> list[Range]:
        """See ``ReadyRanges``."""
        parts = super().carve(start, stop)
        self.bytes -= sum(self.size_of(*part) for part in parts)
        return parts

    def put_back(self, span: Span) -> None:
        """See ``ReadyRanges``."""
        self.bytes += self._of_entry(span.entry, span.start, span.stop)
        super().put_back(span)

    def take(self, span: Span, count: int) -> Span:
        """See ``ReadyRanges``."""
        self.bytes -= self._of_entry(span.entry, span.start, span.start + count)
        return super().take(span, count)

    def remove(self, start: int, stop: int) -> list[Range]:
        """See ``ReadyRanges``."""
        for span in self._returned_within(start, stop):
            self.bytes -= self._of_entry(span.entry, max(start, span.start), min(stop, span.stop))
        return super().remove(start, stop)

    def take_out(self, span: Span, *, delayed: bool) -> None:
        """See ``ReadyRanges``."""
        super().take_out(span, delayed=delayed)
        if not delayed:
            self.bytes -= self._of_entry(span.entry, span.start, span.stop)

    def _share(self, extent: Extent, low: int, high: int) -> int:
        return share(extent.first, extent.stop, extent.size + self._table.overhead, low, high)

    def _of_entry(self, entry: Entry, start: int, stop: int) -> int:
        stop = min(stop, self.counted)
        if start >= stop:
            return 0
        return share(entry.first, entry.stop, entry.extent_bytes + self._table.overhead, start, stop)

    def _ready_within(self, start: int, stop: int) -> list[Range]:
        parts = self._holes.gaps(max(start, self._fresh_start), stop) if stop > self._fresh_start else []
        parts += [(max(start, each.start), min(stop, each.stop)) for each in self._returned_within(start, stop)]
        return parts

    def _returned_within(self, start: int, stop: int) -> list[Span]:
        found: list[Span] = []
        span = self._returned.first_from(start)
        while span is not None and span.start < stop:
            found.append(span)
            span = self._returned.first_from(span.stop)
        return found
