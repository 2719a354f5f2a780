"""What waits for a delay in a queue with levels: of each level by its numbers, and all of it by when the delay is over."""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING

from actors.queue.structures.deadlines import DeadlineHeap
from actors.queue.structures.levels import Levels
from actors.queue.structures.spans import SpanMap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.queue.state.entries import Span


class LeveledDelays:
    """What waits for a delay; as ``TimedSpans``, by level.

    Attributes:
        messages: how many are in them.
        due: their deadlines; to be looked at only.
    """

    __slots__ = ("_levels", "due", "messages")

    def __init__(self) -> None:
        # Of each level that has some.
        self._levels: Levels[SpanMap[Span]] = Levels(SpanMap)
        self.due: DeadlineHeap[Span] = DeadlineHeap()
        self.messages = 0

    def __len__(self) -> int:
        return len(self.due)

    def __iter__(self) -> Iterator[Span]:
        return merge(*self._levels.all(), key=_start_of)

    def first(self) -> Span | None:
        """The span with the lowest numbers."""
        firsts = [first for spans in self._levels.all() if (first := spans.first()) is not None]
        return min(firsts, key=_start_of, default=None)

    def oldest(self, below: int) -> Iterator[Span]:
        """Those with numbers less than ``below``, level by level; each is to be taken out before the next is asked for."""
        for spans in list(self._levels.all()):
            while (span := spans.first()) is not None and span.start < below:
                yield span

    def highest(self) -> tuple[int, int] | None:
        """The highest level of which something waits, and the first number of it that does; None where nothing waits."""
        if not self._levels:
            return None
        first = self._levels.highest.first()
        assert first is not None, "a level that has nothing is no more"
        return self._levels.top, first.start

    def are_before(self, span: Span) -> bool:
        """Whether something of a higher level waits, or of the same one with a lower number."""
        highest = self.highest()
        if highest is None:
            return False
        level, number = highest
        return level > span.entry.level or (level == span.entry.level and number < span.start)

    def some_from(self, position: int, most: int) -> list[Span]:
        """See ``SpanMap``."""
        return some_of([spans.some_from(position, most) for spans in self._levels.all()])

    def insert(self, span: Span, deadline: float) -> None:
        """See ``TimedSpans``."""
        self._levels.at(span.entry.level).insert(span)
        self.due.push(span, deadline)
        self.messages += span.stop - span.start

    def pop_due(self, now: float) -> Span | None:
        """See ``TimedSpans``."""
        span = self.due.pop_due(now)
        if span is not None:
            level = span.entry.level
            spans = self._levels.at(level)
            spans.cut(span.start, span.stop)
            if not spans:
                self._levels.take(level)
            self.messages -= span.stop - span.start
        return span

    def cut_of(self, level: int, start: int, stop: int) -> list[Span]:
        """What ``cut`` of ``TimedSpans`` is, of one level."""
        spans = self._levels.find(level)
        if spans is None:
            return []
        taken, rest = spans.cut(start, stop)
        for span in taken:
            self.messages -= span.stop - span.start
            if span.deadline is not None:
                self.due.forget(span)
        if rest is not None:
            # The part below the cut kept the object that the heap has.
            kept = spans.first_from(start - 1)
            assert kept is not None
            assert kept.deadline is not None
            self.due.push(rest, kept.deadline)
        if not spans:
            self._levels.take(level)
        return taken


def _start_of(span: Span) -> int:
    return span.start


def some_of(found: list[list[Span]]) -> list[Span]:
    """Of the next spans of each level the first, ascending, as far as none is passed over."""
    found = [spans for spans in found if spans]
    # Behind the last of its spans a level may have more.
    last = min((spans[-1].start for spans in found), default=0)
    return sorted((span for spans in found for span in spans if span.start <= last), key=_start_of)
