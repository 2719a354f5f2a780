"""The messages that can be delivered, oldest first, and those that can be after a delay."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from actors.queue_state.deadlines import DeadlineHeap
from actors.queue_state.entry import Entry, Span
from actors.queue_state.span_map import SpanMap

if TYPE_CHECKING:
    from actors.queue_state.ranges import Range


class ReadyRanges:
    """Fresh entries in a queue, returned spans in order before them, delayed spans beside them.

    Every returned message has a lower number than every fresh one, because fresh ones are taken from the front only.

    Attributes:
        messages: how many can be delivered now.
        bytes: their bytes.
        delayed_messages: how many wait for their delay.
    """

    __slots__ = ("_delayed", "_due", "_fresh", "_fresh_start", "_returned", "bytes", "delayed_messages", "messages")

    def __init__(self) -> None:
        self._fresh: deque[Entry] = deque()
        self._fresh_start = 0
        self._returned = SpanMap()
        self._delayed = SpanMap()
        self._due: DeadlineHeap[Span] = DeadlineHeap()
        self.messages = 0
        self.bytes = 0
        self.delayed_messages = 0

    def add(self, entry: Entry) -> None:
        """Add a whole entry with higher numbers than any other."""
        if not self._fresh:
            self._fresh_start = entry.first
        self._fresh.append(entry)
        self.messages += entry.stop - entry.first
        self.bytes += entry.size

    def put_back(self, span: Span) -> None:
        """Make a span receivable again in its old place; it is in no other structure and has no deadline."""
        span.holder = None
        self.messages += span.stop - span.start
        self.bytes += span.entry.bytes_of(span.start, span.stop)
        self._returned.join(span)

    def delay(self, span: Span, due: float) -> None:
        """Make a span receivable again in its old place at ``due``."""
        span.holder = None
        self.delayed_messages += span.stop - span.start
        self._delayed.insert(span)
        self._due.push(span, due)

    def next_due(self) -> float | None:
        """When the next delay ends."""
        return self._due.earliest()

    def release_due(self, now: float, budget: int) -> None:
        """Put back up to ``budget`` spans whose delay is over."""
        for _ in range(budget):
            span = self._due.pop_due(now)
            if span is None:
                return
            self._delayed.cut(span.start, span.stop)
            self.delayed_messages -= span.stop - span.start
            self.put_back(span)

    def first(self, minimum: int = 0) -> Span | None:
        """The first span with numbers of ``minimum`` or more, where it is; ``take`` takes from it.

        ``minimum`` is the first number of an entry, or below or above all of them.
        """
        fresh = self._fresh
        if minimum and fresh and self._fresh_start < minimum:
            self._set_aside(minimum)
        span = self._returned.first_from(minimum) if minimum else self._returned.first()
        if span is not None:
            return span
        if not fresh:
            return None
        entry = fresh[0]
        return Span(self._fresh_start, entry.stop, entry, 0, False)

    def take(self, span: Span, count: int) -> Span:
        """Take the first ``count`` messages of ``span``, which ``first`` has just returned."""
        start = span.start
        stop = start + count
        entry = span.entry
        whole = stop == span.stop
        self.messages -= count
        self.bytes -= entry.bytes_of(start, stop)
        fresh = self._fresh
        if not fresh or start < self._fresh_start:
            return self._returned.cut(start, stop)[0][0]
        if whole:
            fresh.popleft()
            if fresh:
                self._fresh_start = fresh[0].first
            return span
        self._fresh_start = stop
        span.stop = stop
        return span

    def remove(self, start: int, stop: int) -> list[Range]:
        """Take out what is receivable or delayed of a range that was delivered once; returns what it was."""
        removed: list[Range] = []
        for span in self._returned.cut(start, stop)[0]:
            self.messages -= span.stop - span.start
            self.bytes -= span.entry.bytes_of(span.start, span.stop)
            removed.append((span.start, span.stop))
        for span in self._cut_delayed(start, stop):
            self.delayed_messages -= span.stop - span.start
            removed.append((span.start, span.stop))
        removed.sort()
        return removed

    def clear(self) -> list[Range]:
        """Take out everything, delayed messages too; returns what it was, ascending."""
        ranges = [(span.start, span.stop) for span in self._returned.clear()]
        for span in self._delayed.clear():
            self._due.forget(span)
            ranges.append((span.start, span.stop))
        ranges.sort()
        if self._fresh:
            ranges.append((self._fresh_start, self._fresh[0].stop))
            ranges += [(entry.first, entry.stop) for entry in list(self._fresh)[1:]]
            self._fresh.clear()
        self.messages = self.bytes = self.delayed_messages = 0
        return ranges

    def oldest(self) -> Entry | None:
        """The entry of the message that is next."""
        span = self._returned.first()
        if span is not None:
            return span.entry
        return self._fresh[0] if self._fresh else None

    def restore(self, entries: Iterable[tuple[Entry, list[Range]]]) -> None:
        """Fill it, being empty, with ranges of entries in ascending order, all possibly delivered before."""
        for entry, ranges in entries:
            for start, stop in ranges:
                self.put_back(Span(start, stop, entry, 0, True))

    def _cut_delayed(self, start: int, stop: int) -> list[Span]:
        cut, rest = self._delayed.cut(start, stop)
        for span in cut:
            if span.deadline is not None:
                self._due.forget(span)
        if rest is not None:
            # The part below the cut kept the object that the heap has.
            kept = self._delayed.first_from(start - 1)
            assert kept is not None
            assert kept.deadline is not None
            self._due.push(rest, kept.deadline)
        return cut

    def _set_aside(self, minimum: int) -> None:
        """Move fresh messages below ``minimum`` to the returned ones, so that taking from the front passes them over.

        Each is moved once in its life, and keeps its history: it was not delivered.
        """
        fresh = self._fresh
        while fresh and self._fresh_start < minimum:
            entry = fresh.popleft()
            self._returned.insert(Span(self._fresh_start, entry.stop, entry, 0, False))
            if fresh:
                self._fresh_start = fresh[0].first
