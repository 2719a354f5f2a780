"""The messages that nobody holds: ready, oldest first; ready after a delay; on their way to the dead-letter queue."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

from actors.queue.state.entries import Span, spans_of, stored_entry
from actors.queue.state.receivable import Receivable
from actors.queue.structures.ranges import RangeSet
from actors.queue.structures.spans import SpanMap, TimedSpans
from actors.queue.vocabulary.settings import DEAD_LETTER_BATCHES, DEAD_LETTER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.queue.state.entries import Entry, EntryTable
    from actors.queue.state.log import QueueLog
    from actors.queue.structures.ranges import Range


@dataclass(eq=False, repr=False, slots=True)
class ReadyRanges(Receivable):
    """Fresh messages, returned spans, delayed spans.

    Fresh is what has not been delivered since the start. It is one range of numbers, however many there are. It has holes where somebody
    took from its middle, where a delay is not over, and where messages are staged or were done with before the start. Returned is what
    somebody had: spans, with what is known of their deliveries. Both are delivered in the order of their numbers.

    Args:
        _table: the queue's batches.
        _fresh_start: the first number that may be fresh.
        known: the number after the last. What the log has from there on others have written to it since (``catching_up``).
        _holes: numbers among them that are not.
        _replayed_below: fresh messages with lower numbers may have been delivered before the start.

    Attributes:
        messages: how many can be delivered now.
        delayed: those that can be when their delay is over.
    """

    _table: EntryTable
    _fresh_start: int
    known: int
    _holes: RangeSet
    _replayed_below: int
    # What was staged at the start and is published now: nobody can have had it before.
    _undelivered: RangeSet = field(default_factory=RangeSet)
    # The entry that fresh messages were last offered of; and the span that was offered of them, which is in no structure.
    _front: Entry | None = None
    _offered: Span | None = None
    _returned: SpanMap[Span] = field(default_factory=SpanMap)
    delayed: TimedSpans[Span] = field(default_factory=TimedSpans)
    messages: int = field(init=False)

    def __post_init__(self) -> None:
        fresh = max(0, self.known - self._fresh_start)
        self.messages = fresh - self._holes.count_within(self._fresh_start, self.known)

    def add(self, stop: int, count: int) -> None:
        """The next ``count`` numbers, up to ``stop``, are fresh."""
        self.known = stop
        self.messages += count

    def add_delayed(self, stop: int, count: int, due: float) -> None:
        """The next ``count`` numbers, up to ``stop``, can be received from ``due`` on."""
        start = stop - count
        self.known = stop
        self._holes.add(start, stop)
        for span in spans_of(self._table, start, stop):
            self.delay(span, due)

    def add_staged(self, stop: int, count: int) -> None:
        """The next ``count`` numbers, up to ``stop``, are staged: not fresh before they are published."""
        start = stop - count
        self.known = stop
        if self._fresh_start == start and not self._holes:
            self._fresh_start = stop
        else:
            self._holes.add(start, stop)

    def publish(self, start: int, stop: int) -> None:
        """What was staged of a range, which is all of it, is fresh; it costs the same however much it is."""
        if start < self._fresh_start:
            # Nothing below the first fresh number is fresh, and so it stays but for this.
            self._holes.add(start, self._fresh_start)
            self._fresh_start = start
        self._holes.remove(start, stop)
        if start < self._replayed_below:
            self._undelivered.add(start, stop)
        self.messages += stop - start

    def carve(self, start: int, stop: int) -> list[Range]:
        """Take the fresh messages of a range out, because more is known of them; returns which they were."""
        parts = self._holes.gaps(max(start, self._fresh_start), min(stop, self.known))
        for part in parts:
            self._holes.add(*part)
            self.messages -= part[1] - part[0]
        return parts

    def _returned_to(self, _span: Span) -> SpanMap[Span]:
        return self._returned

    def skips(self, span: Span) -> bool:
        """Whether delivering ``span`` would pass over a message that waits for its delay."""
        delayed = self.delayed.first()
        return delayed is not None and delayed.start < span.start

    def first(self, minimum: int = 0) -> Span | None:
        """The first span with numbers of ``minimum`` or more, where it is; ``take`` takes from it.

        A returned span may begin below ``minimum`` only where ``minimum`` is no entry's first number, which it has to be.
        """
        returned = self._returned.first_from(minimum) if minimum else self._returned.first()
        position = max(self._fresh_start, minimum)
        if self._holes:
            position = self._holes.reach(position)
        if position >= self.known or (returned is not None and returned.start < position):
            self._offered = None
            return returned
        self._offered = span = self._fresh_span(position)
        return span

    def first_below(self, minimum: int, below: int) -> Span | None:  # noqa: ARG002 - what has levels looks on
        """As `first`; where there are levels and its first has no lower number than ``below``, the first that has."""
        return self.first(minimum)

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
        removed += [(span.start, span.stop) for span in self.delayed.cut(start, stop)]
        removed.sort()
        return removed

    def some_from(self, position: int, most: int, *, delayed: bool) -> list[Span]:
        """The next of what waits for a delay, or else of what came back, from ``position`` on: at most so many, none behind the last."""
        return (self.delayed if delayed else self._returned).some_from(position, most)

    def take_out(self, span: Span, *, delayed: bool) -> None:
        """Take out one that ``some_from`` has just returned."""
        if delayed:
            self.delayed.cut(span.start, span.stop)
        else:
            self._returned.pop_exactly(span.start, span.stop)
            self.messages -= span.stop - span.start
        self._offered = None

    def is_before(self, below: int) -> bool:
        """Whether something can be received now that has a lower number."""
        span = self.first()
        return span is not None and span.start < below

    def oldest(self, below: int) -> Iterator[Range]:
        """See ``Receivable``: the lowest numbers first."""
        while True:
            spans = (self._returned.first(), self.delayed.first())
            found = [(span.start, span.stop) for span in spans if span is not None]
            found += islice(self._holes.each_gap(self._fresh_start, self.known), 1)
            start, stop = min(found, default=(below, below))
            if start >= below:
                return
            yield start, min(stop, below)

    def in_order(self) -> Iterator[Range]:
        """What can be received now, ascending, piece by piece; it must not change meanwhile."""
        fresh = self._holes.each_gap(self._fresh_start, self.known) if self._fresh_start < self.known else ()
        if not self._returned:
            return iter(fresh)
        return merge(((span.start, span.stop) for span in self._returned), fresh)

    def drop(self, start: int, stop: int) -> None:
        """Take out everything of a range, delayed messages too."""
        self.remove(start, stop)
        self.carve(start, stop)
        reached = self._holes.reach(self._fresh_start)
        if reached > self._fresh_start:
            self._fresh_start = reached
            self._holes.remove(0, reached)
        self._front = self._offered = None

    def _fresh_span(self, position: int) -> Span:
        """The fresh messages from ``position`` on, of one entry."""
        entry = self._front
        if entry is None or not entry.first <= position < entry.stop:
            entry = self._front = stored_entry(self._table, position)
        stop = entry.stop
        if self._holes:
            stop = self._holes.gaps(position, stop)[0][1]
        # Batches are published whole, so what holds for a span's first message holds for all of it.
        replayed = position < self._replayed_below and self._undelivered.reach(position) == position
        return Span(position, stop, entry, 0, replayed)


def unheld(log: QueueLog) -> ReadyRanges:
    """Everything that is stored and neither staged nor reserved, as fresh and possibly delivered before."""
    holes = log.unwanted()
    for ledger in log.ledgers.values():
        for segment in ledger.segments(ledger.base, ledger.high):
            holes.add(segment.start, segment.stop)
    start = holes.reach(0)
    holes.remove(0, start)
    return ReadyRanges(log.table, start, log.next_sequence, holes, log.next_sequence)


@dataclass(eq=False, slots=True)
class Judging:
    """How far a queue is in judging anew what nobody holds: what waits for a delay, then what came back.

    In this order, for a delay that ends meanwhile makes one of the other.

    Attributes:
        position: what ends beyond it is still to be judged; None where nothing of both is.
        delayed: whether it is in what waits for a delay.
    """

    position: int | None
    delayed: bool = True

    def next_place(self) -> None:
        """Go on with what came back, or be done with both."""
        self.position = 0 if self.delayed else None
        self.delayed = False


@dataclass(eq=False, repr=False, slots=True)
class Outbox:
    """Spans on their way out: a few that were handed over and not answered for, and the others, which wait for those.

    So however many messages have to go, few of their batches are in memory for it. What waits under other settings than those that made
    it leave is in doubt: it is not handed over before it is judged anew.

    Args:
        now: from when on what waits at a start may be handed over.
    """

    now: float
    sent: TimedSpans[Span] = field(default_factory=TimedSpans)
    waiting: SpanMap[Span] = field(default_factory=SpanMap)
    waiting_messages: int = 0
    # One map for each time that what waited came to be in doubt while some was; none of them is empty.
    _doubted: list[SpanMap[Span]] = field(default_factory=list)
    _doubted_messages: int = 0

    @property
    def messages(self) -> int:
        """How many are leaving."""
        return self.sent.messages + self.waiting_messages + self._doubted_messages

    def add(self, span: Span) -> None:
        """Have a span leave that is in no other structure and has no deadline."""
        span.holder = None
        self.waiting_messages += span.stop - span.start
        self.waiting.join(span)

    def next_hand_over(self) -> float | None:
        """When something is to be handed over for the first time; what was is in ``sent.due``."""
        return None if self.sent or not self.waiting else self.now

    def next_to_send(self) -> Span | None:
        """Take out the span that is to be handed over now; ``sent`` is where it goes."""
        span = self.waiting.first()
        if span is None:
            return None
        # A window in bytes and in batches, but never so small that nothing fits.
        if len(self.sent) >= DEAD_LETTER_BATCHES or (self.sent and self._sent_bytes() >= DEAD_LETTER_BYTES):
            return None
        self.waiting.cut(span.start, span.stop)
        self.waiting_messages -= span.stop - span.start
        return span

    def doubt(self) -> None:
        """What was not handed over yet is to be judged anew."""
        if self.waiting:
            self._doubted.append(self.waiting)
            self._doubted_messages += self.waiting_messages
            self.waiting, self.waiting_messages = SpanMap(), 0

    def take_doubted(self) -> Span | None:
        """Take out one that is in doubt, if there is one."""
        if not self._doubted:
            return None
        span = self._doubted[-1].pop_first()
        assert span is not None
        self._doubted_messages -= span.stop - span.start
        if not self._doubted[-1]:
            self._doubted.pop()
        return span

    def drop(self, start: int, stop: int) -> None:
        """The messages of a range have left."""
        self.sent.cut(start, stop)
        for span in self.waiting.cut(start, stop)[0]:
            self.waiting_messages -= span.stop - span.start
        if self._doubted:
            for spans in self._doubted:
                for span in spans.cut(start, stop)[0]:
                    self._doubted_messages -= span.stop - span.start
            self._doubted = [spans for spans in self._doubted if spans]

    def _sent_bytes(self) -> int:
        """What is handed over has of its batches, about."""
        return sum(len(span) * span.entry.size // (span.entry.stop - span.entry.first) for span in self.sent)
