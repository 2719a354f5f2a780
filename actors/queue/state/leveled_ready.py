"""The messages of a queue with levels that nobody holds: the highest level first, and in each the oldest first.

Each level has what a queue without levels has once: a cursor over its fresh messages, with holes, and what came back. The numbers are the
queue's, so between two messages of a level are those of others. Where a level's cursor is on its way its next batch is looked up among its
own, so a backlog takes no memory, whatever its levels, and what is behind other levels' is found at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import merge
from typing import TYPE_CHECKING

from actors.queue.state.entries import Span, spans_of
from actors.queue.state.level_heads import LevelHeads
from actors.queue.state.leveled_delays import LeveledDelays, some_of
from actors.queue.state.receivable import Receivable
from actors.queue.structures.ranges import RangeSet
from actors.queue.structures.spans import SpanMap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.queue.state.entries import Entry
    from actors.queue.state.leveled_log import LeveledLog
    from actors.queue.state.levels import LeveledTable
    from actors.queue.structures.ranges import Range


@dataclass(eq=False, repr=False, slots=True)
class LevelReady:
    """One level's fresh messages and what came back to it.

    Attributes:
        number: the level's.
        messages: how many can be delivered now.
        fresh: how many of them have not been delivered since the start.
        start: the first number that may be fresh.
        holes: numbers of the level from there on that are not, and any numbers of others between them.
        front: the entry that fresh messages were last offered of.
        returned: what came back.
    """

    number: int
    messages: int = 0
    fresh: int = 0
    start: int = 0
    holes: RangeSet = field(default_factory=RangeSet)
    front: Entry | None = None
    returned: SpanMap[Span] = field(default_factory=SpanMap)


class LeveledReady(Receivable):
    """As ``ReadyRanges``, of a queue with levels.

    Args:
        log: the queue's.

    Attributes:
        messages: how many can be delivered now.
        delayed: those that can be when their delay is over.
        known: the number behind the last that is known here.
        heads: when the first of each level expires; told of each that may be another.
    """

    __slots__ = (
        "_levels",
        "_offered",
        "_order",
        "_replayed_below",
        "_table",
        "_undelivered",
        "delayed",
        "heads",
        "known",
        "messages",
    )

    delayed: LeveledDelays

    def __init__(self, log: LeveledLog) -> None:
        self._table: LeveledTable = log.leveled_table
        self.known = self._replayed_below = log.next_sequence
        self.delayed = LeveledDelays()
        self.heads = LevelHeads()
        self.messages = 0
        self._undelivered = RangeSet()
        self._offered: Span | None = None
        self._levels: dict[int, LevelReady] = {}
        # The highest first.
        self._order: list[LevelReady] = []
        for number, known in log.levels.by_number.items():
            level = self._level(number)
            level.holes = known.acknowledged.copy()
            level.messages = level.fresh = known.stored
        for stage in log.stages.values():
            for start, stop in stage.ranges:
                self._withhold(start, stop)
        for ledger in log.ledgers.values():
            for segment in ledger.segments(ledger.base, ledger.high):
                for level, count in self._withhold(segment.start, segment.stop):
                    level.messages -= count
                    level.fresh -= count
        self.messages = sum(level.messages for level in self._order)

    def _level(self, number: int) -> LevelReady:
        level = self._levels.get(number)
        if level is None:
            level = self._levels[number] = LevelReady(number)
            self.heads.changed.add(number)
            self._order = sorted(self._levels.values(), key=lambda each: -each.number)
        return level

    def _hole(self, level: LevelReady, first: int, start: int, stop: int) -> None:
        """A part of the batch that begins with ``first`` is not fresh.

        What is between it and the batch before is of other levels: with that, neighbours in the level come to be one range.
        """
        begin = start
        if start == first:
            begin = min(start, max(level.start, self._table.stop_before(level.number, start)))
        level.holes.add(begin, stop)

    def _withhold(self, start: int, stop: int) -> list[tuple[LevelReady, int]]:
        """What a range has is not fresh; returns how much that is of which levels."""
        found: list[tuple[LevelReady, int]] = []
        for extent in self._table.leveled(start, stop):
            level = self._level(extent.level)
            low, high = max(start, extent.first), min(stop, extent.stop)
            found.append((level, high - low - level.holes.count_within(low, high)))
            self._hole(level, extent.first, low, high)
        return found

    def add(self, stop: int, count: int) -> None:
        """See ``ReadyRanges``."""
        start = stop - count
        self.known = stop
        self.messages += count
        for number, first, after, _ in self._table.leveled(start, stop):
            level = self._level(number)
            here = min(stop, after) - max(start, first)
            if not level.messages:
                self.heads.changed.add(number)
            level.messages += here
            level.fresh += here

    def add_delayed(self, stop: int, count: int, due: float) -> None:
        """See ``ReadyRanges``."""
        start = stop - count
        self.known = stop
        self._withhold(start, stop)
        for span in spans_of(self._table, start, stop):
            self.delay(span, due)

    def add_staged(self, stop: int, count: int) -> None:
        """See ``ReadyRanges``."""
        self.known = stop
        self._withhold(stop - count, stop)

    def publish(self, start: int, stop: int) -> None:
        """See ``ReadyRanges``; it costs as much as there are batches."""
        for number, first, after, _ in self._table.leveled(start, stop):
            level = self._level(number)
            low, high = max(start, first), min(stop, after)
            if low < level.start:
                # Nothing below the first fresh number is fresh, and so it stays but for this.
                level.holes.add(low, level.start)
                level.start = low
            level.holes.remove(low, high)
            level.messages += high - low
            level.fresh += high - low
            self.messages += high - low
            if low < self._replayed_below:
                self._undelivered.add(low, high)
            level.front = None
            self.heads.changed.add(number)

    def carve(self, start: int, stop: int) -> list[Range]:
        """See ``ReadyRanges``."""
        parts: list[Range] = []
        for extent in self._table.leveled(start, min(stop, self.known)):
            level = self._level(extent.level)
            low, high = max(start, extent.first, level.start), min(stop, extent.stop, self.known)
            for part in level.holes.gaps(low, high) if low < high else ():
                self._hole(level, extent.first, *part)
                self._take_fresh(level, part[1] - part[0])
                parts.append(part)
        return parts

    def _take_fresh(self, level: LevelReady, count: int) -> None:
        self.heads.changed.add(level.number)
        level.messages -= count
        level.fresh -= count
        self.messages -= count

    def _returned_to(self, span: Span) -> SpanMap[Span]:
        level = self._level(span.entry.level)
        level.messages += span.stop - span.start
        self.heads.changed.add(level.number)
        return level.returned

    def _take_returned(self, level: LevelReady, start: int, stop: int) -> list[Span]:
        """Take out what came back to a level of a range."""
        if not level.returned or not (spans := level.returned.cut(start, stop)[0]):
            return []
        count = sum(span.stop - span.start for span in spans)
        level.messages -= count
        self.messages -= count
        self.heads.changed.add(level.number)
        return spans

    def skips(self, span: Span) -> bool:
        """See ``ReadyRanges``: one of its level before it, or of a higher one."""
        return self.delayed.are_before(span)

    def first(self, minimum: int = 0) -> Span | None:
        """See ``ReadyRanges``."""
        for level in self._order:
            if level.messages:
                span = self._first_of(level, minimum)
                if span is not None:
                    return span
        return None

    def first_below(self, minimum: int, below: int) -> Span | None:
        """See ``ReadyRanges``: of the highest level that has one."""
        for level in self._order:
            if level.messages:
                span = self._first_of(level, minimum)
                if span is not None and span.start < below:
                    return span
        return None

    def head(self, number: int) -> Span | None:
        """The first span of a level, to be taken as of `first`."""
        level = self._levels.get(number)
        return None if level is None or not level.messages else self._first_of(level, 0)

    def waits_below(self) -> int:
        """Below which level nothing can be delivered in an exclusive queue, as something of that level waits for a delay; 0 for none."""
        highest = self.delayed.highest()
        if highest is None:
            return 0
        level, number = highest
        head = self.head(level)
        return level + int(head is None or number < head.start)

    def _first_of(self, level: LevelReady, minimum: int) -> Span | None:
        returned = level.returned.first_from(minimum) if minimum else level.returned.first()
        self._offered = None
        if not level.fresh or (returned is not None and returned.start < level.start):
            return returned
        from_start = minimum <= level.start
        span = self._fresh_from(level, max(level.start, minimum), from_start)
        if span is None and from_start:
            # It has some, and their batches are not there.
            raise self._table.lost(level.start)
        if span is None or (returned is not None and returned.start < span.start):
            return returned
        self._offered = span
        return span

    def _fresh_from(self, level: LevelReady, position: int, from_start: bool) -> Span | None:
        """The first fresh messages of a level from ``position`` on, of one entry."""
        holes = level.holes
        while True:
            if holes:
                position = holes.reach(position)
            if position >= self.known:
                return None
            entry = level.front
            if entry is None or not entry.first <= position < entry.stop:
                entry = self._table.next_in(level.number, position)
                if entry is None or entry.first >= self.known:
                    return None
                level.front = entry
            position = max(position, entry.first)
            if not holes or holes.reach(position) == position:
                break
        if from_start and position > level.start:
            # There is none of the level between.
            level.start = position
            if holes:
                holes.remove(0, position)
        stop = entry.stop
        if holes:
            stop = holes.gaps(position, stop)[0][1]
        replayed = position < self._replayed_below and self._undelivered.reach(position) == position
        return Span(position, stop, entry, 0, replayed)

    def take(self, span: Span, count: int) -> Span:
        """See ``ReadyRanges``."""
        start = span.start
        stop = start + count
        level = self._levels[span.entry.level]
        if span is not self._offered:
            return self._take_returned(level, start, stop)[0]
        self._offered = None
        span.stop = stop
        self._take_fresh(level, count)
        if start == level.start:
            level.start = stop
            if level.holes:
                level.start = level.holes.reach(stop)
                level.holes.remove(0, level.start)
        else:
            self._hole(level, span.entry.first, start, stop)
        return span

    def remove(self, start: int, stop: int) -> list[Range]:
        """See ``ReadyRanges``; what is stored of the range is looked up, and whose numbers those are."""
        removed: list[Range] = []
        for number, first, after, _ in list(self._table.leveled(start, stop)):
            low, high = max(start, first), min(stop, after)
            spans = self._take_returned(self._level(number), low, high) + self.delayed.cut_of(number, low, high)
            removed += [(span.start, span.stop) for span in spans]
        removed.sort()
        return removed

    def some_from(self, position: int, most: int, *, delayed: bool) -> list[Span]:
        """See ``ReadyRanges``."""
        if delayed:
            return self.delayed.some_from(position, most)
        return some_of([level.returned.some_from(position, most) for level in self._order])[:most]

    def take_out(self, span: Span, *, delayed: bool) -> None:
        """See ``ReadyRanges``."""
        if delayed:
            self.delayed.cut_of(span.entry.level, span.start, span.stop)
        else:
            self._take_returned(self._levels[span.entry.level], span.start, span.stop)
        self._offered = None

    def is_before(self, below: int) -> bool:
        """See ``ReadyRanges``."""
        return self.first_below(0, below) is not None

    def oldest(self, below: int) -> Iterator[Range]:
        """See ``Receivable``: level by level, and each piece is of one batch."""
        for level in self._order:
            while level.messages and (span := self._first_of(level, 0)) is not None and span.start < below:
                yield span.start, min(span.stop, below)
        for span in self.delayed.oldest(below):
            yield span.start, min(span.stop, below)

    def in_order(self) -> Iterator[Range]:
        """See ``ReadyRanges``: as it is delivered, so the highest level first, and each piece of one level."""
        for level in self._order:
            if level.messages:
                yield from merge(((span.start, span.stop) for span in level.returned), self._each_fresh(level))

    def _each_fresh(self, level: LevelReady) -> Iterator[Range]:
        position = level.start
        while level.fresh:
            position = level.holes.reach(position)
            entry = self._table.next_in(level.number, position) if position < self.known else None
            if entry is None or entry.first >= self.known:
                return
            yield from level.holes.gaps(max(position, entry.first), entry.stop)
            position = entry.stop

    def drop(self, start: int, stop: int) -> None:
        """See ``ReadyRanges``."""
        self.remove(start, stop)
        self.carve(start, stop)
        for number, _, _, _ in self._table.leveled(start, stop):
            level = self._level(number)
            level.front = None
            reached = level.holes.reach(level.start)
            if reached > level.start:
                level.start = reached
                level.holes.remove(0, reached)
        self._offered = None
