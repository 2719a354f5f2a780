"""What is ready with its bytes, for queues that drop what is over a limit of bytes: others keep no such count.

A message counts as its share of its batch, of all of that and the table's overhead: no batch is read to know it. At a start, or where a
queue that lives begins to drop, the bytes are counted from the first message on, some batches in each step. Until that has come to the end
they are less than there are, so that nothing is dropped that need not be.
"""

from __future__ import annotations

from dataclasses import fields
from itertools import islice
from typing import TYPE_CHECKING, Self, TypeVar

from actors.queue.state.grouped_ready import GroupedReady
from actors.queue.state.leveled_ready import LeveledReady
from actors.queue.state.ready import ReadyRanges
from actors.queue.state.receivable import Receivable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.queue.state.entries import Entry, EntryTable, Extent, Span
    from actors.queue.structures.ranges import Range
    from actors.queue.structures.spans import SpanMap

T = TypeVar("T")
_RANGES = tuple(each.name for each in fields(ReadyRanges))
_GROUPED = (*_RANGES, *GroupedReady.__slots__)


def share(first: int, stop: int, size: int, low: int, high: int) -> int:
    """What the messages ``low`` <= n < ``high`` are of a batch of ``size`` bytes; of parts it is what it is of all of them together."""
    count = stop - first
    return size * (high - first) // count - size * (low - first) // count


class Counted(Receivable):
    """What is ready, and its bytes.

    Attributes:
        known: as of what is ready.
        bytes: of what can be delivered now, as far as it is counted.
        counted: the number up to which it is.
    """

    known: int
    bytes: int
    counted: int

    @property
    def is_counted(self) -> bool:
        """Whether all of it is."""
        return self.counted == self.known

    def count_on(self, batches: int) -> None:
        """Count so many batches more, where there are as many."""
        reached = 0
        for extent in islice(self._batches().extents(self.counted, self.known), batches):
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
            for extent in self._batches().extents(start, stop)
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
        return share(extent.first, extent.stop, extent.size + self._batches().overhead, low, high)

    def _of_entry(self, entry: Entry, start: int, stop: int) -> int:
        stop = min(stop, self.counted)
        if start >= stop:
            return 0
        return share(entry.first, entry.stop, entry.extent_bytes + self._batches().overhead, start, stop)

    def _batches(self) -> EntryTable:
        """The queue's table."""
        raise NotImplementedError

    def _ready_within(self, start: int, stop: int) -> list[Range]:
        """What is ready of a part of one batch."""
        raise NotImplementedError

    def _returned_within(self, start: int, stop: int) -> list[Span]:
        """What came back with a message in a range."""
        raise NotImplementedError


class CountedReady(Counted, ReadyRanges):
    """See ``ReadyRanges``."""

    @classmethod
    def of(cls, ready: ReadyRanges) -> Self:
        """The same, nothing of it counted yet."""
        found = _copied(ready, cls, _RANGES)
        found.bytes = 0
        found.counted = min((start for start, _ in islice(found.in_order(), 1)), default=found.known)
        return found

    def _batches(self) -> EntryTable:
        return self._table

    def _ready_within(self, start: int, stop: int) -> list[Range]:
        parts = self._holes.gaps(max(start, self._fresh_start), stop) if stop > self._fresh_start else []
        return parts + _parts(self._returned_within(start, stop), start, stop)

    def _returned_within(self, start: int, stop: int) -> list[Span]:
        return _within(self._returned, start, stop)


class CountedGroups(CountedReady, GroupedReady):
    """See ``GroupedReady``."""

    @classmethod
    def of(cls, ready: ReadyRanges) -> Self:  # type: ignore[override]  # one that has its groups
        """The same, nothing of it counted yet."""
        found = _copied(ready, cls, _GROUPED)
        found.bytes = 0
        found.counted = min((start for start, _ in islice(found.in_order(), 1)), default=found.known)
        return found


class CountedLevels(Counted, LeveledReady):
    """See ``LeveledReady``."""

    @classmethod
    def of(cls, ready: LeveledReady) -> Self:
        """The same, nothing of it counted yet."""
        found = _copied(ready, cls, LeveledReady.__slots__)
        found.bytes = found.counted = 0
        return found

    def _batches(self) -> EntryTable:
        return self._table

    def _ready_within(self, start: int, stop: int) -> list[Range]:
        parts = _parts(self._returned_within(start, stop), start, stop)
        for extent in self._table.leveled(start, stop):
            level = self._level(extent.level)
            low, high = max(start, extent.first, level.start), min(stop, extent.stop)
            parts += level.holes.gaps(low, high) if low < high else []
        return parts

    def _returned_within(self, start: int, stop: int) -> list[Span]:
        numbers = {extent.level for extent in self._table.leveled(start, stop)}
        return [span for number in numbers for span in _within(self._level(number).returned, start, stop)]


def counted_or_not(ready: ReadyRanges | LeveledReady, *, counts: bool) -> ReadyRanges | LeveledReady:
    """The same, with its bytes or without."""
    if counts == isinstance(ready, Counted):
        return ready
    if isinstance(ready, GroupedReady):
        return CountedGroups.of(ready) if counts else _copied(ready, GroupedReady, _GROUPED)
    if isinstance(ready, LeveledReady):
        return CountedLevels.of(ready) if counts else _copied(ready, LeveledReady, LeveledReady.__slots__)
    return CountedReady.of(ready) if counts else _copied(ready, ReadyRanges, _RANGES)


def _copied(ready: object, kind: type[T], names: Iterable[str]) -> T:
    """The same with these attributes, as another kind of it."""
    found = kind.__new__(kind)
    for name in names:
        setattr(found, name, getattr(ready, name))
    return found


def _within(spans: SpanMap[Span], start: int, stop: int) -> list[Span]:
    found: list[Span] = []
    span = spans.first_from(start)
    while span is not None and span.start < stop:
        found.append(span)
        span = spans.first_from(span.stop)
    return found


def _parts(spans: list[Span], start: int, stop: int) -> list[Range]:
    return [(max(start, span.start), min(stop, span.stop)) for span in spans]
