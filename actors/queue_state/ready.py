"""The messages that can be delivered, oldest first, and those that can be after a delay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue_state.deadlines import DeadlineHeap
from actors.queue_state.entry import Span
from actors.queue_state.ranges import RangeSet
from actors.queue_state.span_map import SpanMap

if TYPE_CHECKING:
    from actors.queue_state.entry import Entry
    from actors.queue_state.entry_table import EntryTable
    from actors.queue_state.ranges import Range


class ReadyRanges:
    """Fresh messages, returned spans, delayed spans.

    Fresh is what has not been delivered since the start: one range of numbers, however many there are, with holes where
    somebody took from its middle, where a delay is not over, or where a message was done with before the start. Returned
    is what somebody had: spans, with what is known of their deliveries. Both are delivered in the order of their numbers.

    Args:
        table: the queue's batches.
        start: the first number that may be fresh.
        stop: the number after the last.
        holes: numbers among them that are not.
        replayed_below: fresh messages with lower numbers may have been delivered before the start.

    Attributes:
        messages: how many can be delivered now.
        delayed_messages: how many wait for their delay.
    """

    __slots__ = (
        "_delayed",
        "_due",
        "_fresh_start",
        "_fresh_stop",
        "_front",
        "_holes",
        "_offered",
        "_replayed_below",
        "_returned",
        "_table",
        "delayed_messages",
        "messages",
    )

    def __init__(self, table: EntryTable, start: int, stop: int, holes: RangeSet, replayed_below: int) -> None:
        self._table = table
        self._fresh_start = start
        self._fresh_stop = stop
        self._holes = holes
        self._replayed_below = replayed_below
        # The entry that fresh messages were last offered of; and the span that was offered of them, which is in no structure.
        self._front: Entry | None = None
        self._offered: Span | None = None
        self._returned = SpanMap()
        self._delayed = SpanMap()
        self._due: DeadlineHeap[Span] = DeadlineHeap()
        self.messages = sum(end - begin for begin, end in holes.gaps(start, stop))
        self.delayed_messages = 0

    def add(self, stop: int, count: int) -> None:
        """The next ``count`` numbers, up to ``stop``, are fresh."""
        self._fresh_stop = stop
        self.messages += count

    def add_delayed(self, start: int, stop: int, due: float) -> None:
        """Numbers that are fresh but cannot be received before ``due``: the next ones, or some that are fresh now."""
        if start < self._fresh_stop:
            self.messages -= stop - start
        else:
            self._fresh_stop = stop
        self._holes.add(start, stop)
        position = start
        while position < stop:
            entry = self._table.at(position)
            assert entry is not None, "only stored messages are delayed"
            end = min(stop, entry.stop)
            self.delay(Span(position, end, entry, 0, position < self._replayed_below), due)
            position = end

    def put_back(self, span: Span) -> None:
        """Make a span receivable again in its old place; it is in no other structure and has no deadline."""
        span.holder = None
        self.messages += span.stop - span.start
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

        A returned span may begin below ``minimum`` only where ``minimum`` is no entry's first number, which it has to be.
        """
        returned = self._returned.first_from(minimum) if minimum else self._returned.first()
        position = max(self._fresh_start, minimum)
        if self._holes:
            position = self._holes.reach(position)
        if position >= self._fresh_stop or (returned is not None and returned.start < position):
            self._offered = None
            return returned
        self._offered = span = self._fresh_span(position)
        return span

    def take(self, span: Span, count: int) -> Span:
        """Take the first ``count`` messages of ``span``, which ``first`` has just returned."""
        start = span.start
        stop = start + count
        self.messages -= count
        if span is not self._offered:
            return self._returned.cut(start, stop)[0][0]
        self._offered = None
        span.stop = stop
        holes = self._holes
        if not holes:
            if start == self._fresh_start:
                self._fresh_start = stop
            else:
                holes.add(start, stop)
        else:
            holes.add(start, stop)
            reached = holes.reach(self._fresh_start)
            if reached > self._fresh_start:
                self._fresh_start = reached
                holes.remove(0, reached)
        return span

    def remove(self, start: int, stop: int) -> list[Range]:
        """Take out what is receivable or delayed of a range that was delivered once; returns what it was."""
        removed: list[Range] = []
        for span in self._returned.cut(start, stop)[0]:
            self.messages -= span.stop - span.start
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
        ranges += self._holes.gaps(self._fresh_start, self._fresh_stop)
        ranges.sort()
        self._fresh_start = self._fresh_stop
        self._holes = RangeSet()
        self._front = self._offered = None
        self.messages = self.delayed_messages = 0
        return ranges

    def _fresh_span(self, position: int) -> Span:
        """The fresh messages from ``position`` on, of one entry."""
        entry = self._front
        if entry is None or not entry.first <= position < entry.stop:
            entry = self._front = self._table.at(position)
            assert entry is not None, "what is fresh is stored"
        stop = entry.stop
        if self._holes:
            stop = self._holes.gaps(position, stop)[0][1]
        return Span(position, stop, entry, 0, position < self._replayed_below)

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
