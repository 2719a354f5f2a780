"""What waits for a delay in a queue with levels: of each level by its numbers, and all of it by when the delay is over."""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING

from actors.queue.structures.deadlines import DeadlineHeap
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
        self._levels: dict[int, SpanMap[Span]] = {}
        self.due: DeadlineHeap[Span] = DeadlineHeap()
        self.messages = 0

    def __len__(self) -> int:
        return len(self.due)

    def __iter__(self) -> Iterator[Span]:
        return merge(*self._levels.values(), key=_start_of)

    def first(self) -> Span | None:
        """The span with the lowest numbers."""
        firsts = [first for spans in self._levels.values() if (first := spans.first()) is not None]
        return min(firsts, key=_start_of, default=None)

    def are_before(self, span: Span) -> bool:
        """Whether something of a higher level waits, or of the same one with a lower number."""
        level = span.entry.level
        for number, spans in self._levels.items():
            first = spans.first()
            if first is not None and (number > level or (number == level and first.start < span.start)):
                return True
        return False

    def some_from(self, position: int, most: int) -> list[Span]:
        """See ``SpanMap``."""
        return some_of([spans.some_from(position, most) for spans in self._levels.values()])

    def insert(self, span: Span, deadline: float) -> None:
        """See ``TimedSpans``."""
        spans = self._levels.get(span.entry.level)
        if spans is None:
            spans = self._levels[span.entry.level] = SpanMap()
        spans.insert(span)
        self.due.push(span, deadline)
        self.messages += span.stop - span.start

    def pop_due(self, now: float) -> Span | None:
        """See ``TimedSpans``."""
        span = self.due.pop_due(now)
        if span is not None:
            self._levels[span.entry.level].cut(span.start, span.stop)
            self.messages -= span.stop - span.start
        return span

    def cut(self, start: int, stop: int) -> list[Span]:
        """See ``TimedSpans``."""
        all_taken: list[Span] = []
        for spans in self._levels.values():
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
            all_taken += taken
        return all_taken


def _start_of(span: Span) -> int:
    return span.start


def some_of(found: list[list[Span]]) -> list[Span]:
    """Of the next spans of each level the first, ascending, as far as none is passed over."""
    found = [spans for spans in found if spans]
    # Behind the last of its spans a level may have more.
    last = min((spans[-1].start for spans in found), default=0)
    return sorted((span for spans in found for span in spans if span.start <= last), key=_start_of)
