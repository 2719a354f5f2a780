"""Disjoint spans in the order of their sequence numbers, and such as wait for a time of their own.

A list of short lists. A receiver may hold, and a queue may get back, a million spans. To insert into the front of one long list, or to
delete from it, would move megabytes each time.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

from actors.queue.structures.deadlines import DeadlineHeap, HasDeadline

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK_SPANS = 512
"""Half of the most that one of the short lists holds."""


class Spanning(Protocol):
    """Consecutive numbers ``start`` <= n < ``stop``, which can be cut in parts and joined with what continues them."""

    start: int
    stop: int

    def part(self, start: int, stop: int) -> Self:
        """A new span of some of its numbers, which are like the others in everything else."""

    def continues(self, other: Self) -> bool:
        """Whether it begins where ``other`` ends, and the two can be one."""


S = TypeVar("S", bound=Spanning)


@dataclass(eq=False, repr=False, slots=True)
class SpanMap(Generic[S]):
    """Spans that do not overlap, found by sequence number, cut out by range."""

    # Never an empty chunk. _starts[i][j] is _chunks[i][j].start, _lows[i] is _starts[i][0]: bisecting needs no calls.
    _chunks: list[list[S]] = field(default_factory=list)
    _starts: list[list[int]] = field(default_factory=list)
    _lows: list[int] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def __iter__(self) -> Iterator[S]:
        for chunk in self._chunks:
            yield from chunk

    def first(self) -> S | None:
        """The span with the lowest numbers."""
        return self._chunks[0][0] if self._chunks else None

    def insert(self, span: S) -> None:
        """Add a span that overlaps none."""
        start = span.start
        if not self._lows:
            self._chunks.append([span])
            self._starts.append([start])
            self._lows.append(start)
            return
        which = max(0, bisect_right(self._lows, start) - 1)
        starts = self._starts[which]
        index = bisect_right(starts, start)
        starts.insert(index, start)
        self._chunks[which].insert(index, span)
        if index == 0:
            self._lows[which] = start
        if len(starts) > 2 * CHUNK_SPANS:
            self._split(which)

    def join(self, span: S) -> None:
        """Add a span, made one with the neighbour that it continues or that continues it.

        What is joined must be in no heap of deadlines, as one of the two objects is dropped.
        """
        if self._lows:
            which = max(0, bisect_right(self._lows, span.start) - 1)
            chunk, starts = self._chunks[which], self._starts[which]
            index = bisect_right(starts, span.start)
            if index and span.continues(chunk[index - 1]):
                chunk[index - 1].stop = span.stop
                if index < len(chunk) and chunk[index].continues(chunk[index - 1]):
                    chunk[index - 1].stop = chunk[index].stop
                    del chunk[index], starts[index]
                return
            if index < len(chunk) and chunk[index].continues(span):
                chunk[index].start = starts[index] = span.start
                if index == 0:
                    self._lows[which] = span.start
                return
        self.insert(span)

    def first_from(self, position: int) -> S | None:
        """The first span with a number of ``position`` or more; it may begin below it."""
        which, index = self._locate(position)
        return self._chunks[which][index] if which < len(self._chunks) else None

    def some_from(self, position: int, most: int) -> list[S]:
        """The next spans with a number of ``position`` or more, at most so many; none where there are no more."""
        which, index = self._locate(position)
        return self._chunks[which][index : index + most] if which < len(self._chunks) else []

    def reach(self, position: int) -> int:
        """The end of the span that holds ``position``; ``position`` itself if none does."""
        which, index = self._locate(position)
        if which < len(self._chunks):
            span = self._chunks[which][index]
            if span.start <= position:
                return span.stop
        return position

    def pop_exactly(self, start: int, stop: int) -> S | None:
        """Take out the span of just this range, if there is one; the usual case of ``cut`` at a fraction of its cost."""
        which = bisect_right(self._lows, start) - 1
        if which < 0:
            return None
        starts, chunk = self._starts[which], self._chunks[which]
        index = bisect_right(starts, start) - 1
        span = chunk[index]
        if span.start != start or span.stop != stop:
            return None
        del chunk[index], starts[index]
        if not chunk:
            del self._chunks[which], self._starts[which], self._lows[which]
        elif index == 0:
            self._lows[which] = starts[0]
        return span

    def cut(self, start: int, stop: int) -> tuple[list[S], S | None]:
        """Take a range out.

        Returns:
            the spans that were in it: a span wholly inside as the same object, of one partly inside a new object while
            the old one keeps the rest; and, where the range lies within one span, the new object for the rest beyond it.
        """
        taken: list[S] = []
        which, index = self._locate(start)
        chunks = self._chunks
        while which < len(chunks):
            chunk, starts = chunks[which], self._starts[which]
            span = chunk[index]
            if span.start < start:
                if span.stop > stop:
                    rest = span.part(stop, span.stop)
                    taken.append(span.part(start, stop))
                    span.stop = start
                    self.insert(rest)
                    return taken, rest
                taken.append(span.part(start, span.stop))
                span.stop = start
                index += 1
            begin = index
            count = len(chunk)
            while index < count and chunk[index].stop <= stop:
                index += 1
            taken += chunk[begin:index]
            more = index == count
            if not more and chunk[index].start < stop:
                span = chunk[index]
                taken.append(span.part(span.start, stop))
                span.start = starts[index] = stop
            del chunk[begin:index], starts[begin:index]
            if chunk:
                self._lows[which] = starts[0]
                which += 1
            else:
                del chunks[which], self._starts[which], self._lows[which]
            if not more:
                break
            index = 0
        return taken, None

    def pop_first(self) -> S | None:
        """Take out the span with the lowest numbers, if there is one."""
        span = self.first()
        if span is not None:
            self.pop_exactly(span.start, span.stop)
        return span

    def clear(self) -> list[S]:
        """Take out everything."""
        taken = [span for chunk in self._chunks for span in chunk]
        self._chunks, self._starts, self._lows = [], [], []
        return taken

    def _locate(self, position: int) -> tuple[int, int]:
        """Where the first span is that ends beyond ``position``; the number of chunks if there is none."""
        which = bisect_right(self._lows, position) - 1
        if which < 0:
            return 0, 0
        chunk = self._chunks[which]
        index = bisect_right(self._starts[which], position) - 1
        if chunk[index].stop <= position:
            index += 1
            if index == len(chunk):
                return which + 1, 0
        return which, index

    def _split(self, which: int) -> None:
        chunk, starts = self._chunks[which], self._starts[which]
        self._chunks[which : which + 1] = [chunk[:CHUNK_SPANS], chunk[CHUNK_SPANS:]]
        self._starts[which : which + 1] = [starts[:CHUNK_SPANS], starts[CHUNK_SPANS:]]
        self._lows.insert(which + 1, starts[CHUNK_SPANS])


class TimedSpan(Spanning, HasDeadline, Protocol):
    """A span that a heap of deadlines can hold."""


T = TypeVar("T", bound=TimedSpan)


@dataclass(eq=False, repr=False, slots=True)
class TimedSpans(Generic[T]):
    """Disjoint spans with deadlines, found by sequence number and by what is due first.

    Attributes:
        messages: how many are in them.
        due: their deadlines; to be looked at only.
    """

    _spans: SpanMap[T] = field(default_factory=SpanMap)
    due: DeadlineHeap[T] = field(default_factory=DeadlineHeap)
    messages: int = 0

    def __len__(self) -> int:
        """How many spans, not messages."""
        return len(self.due)

    def __iter__(self) -> Iterator[T]:
        return iter(self._spans)

    def first(self) -> T | None:
        """The span with the lowest numbers."""
        return self._spans.first()

    def some_from(self, position: int, most: int) -> list[T]:
        """See ``SpanMap``."""
        return self._spans.some_from(position, most)

    def insert(self, span: T, deadline: float) -> None:
        """Add a span that overlaps none and is in no heap."""
        self._spans.insert(span)
        self.due.push(span, deadline)
        self.messages += span.stop - span.start

    def pop_due(self, now: float) -> T | None:
        """Take out the span with the earliest deadline if that is not after ``now``."""
        span = self.due.pop_due(now)
        if span is not None:
            self._spans.cut(span.start, span.stop)
            self.messages -= span.stop - span.start
        return span

    def cut(self, start: int, stop: int) -> list[T]:
        """Take a range out; returns the spans in it. What is left of a span on either side keeps its deadline."""
        taken, rest = self._spans.cut(start, stop)
        for span in taken:
            self.messages -= span.stop - span.start
            if span.deadline is not None:
                self.due.forget(span)
        if rest is not None:
            # The part below the cut kept the object that the heap has.
            kept = self._spans.first_from(start - 1)
            assert kept is not None
            assert kept.deadline is not None
            self.due.push(rest, kept.deadline)
        return taken
