"""Spans that each wait for a time of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from actors.queue.structures.deadlines import DeadlineHeap, HasDeadline
from actors.queue.structures.span_map import SpanMap, Spanning

if TYPE_CHECKING:
    from collections.abc import Iterator


class TimedSpan(Spanning, HasDeadline, Protocol):
    """A span that a heap of deadlines can hold."""


S = TypeVar("S", bound=TimedSpan)


class TimedSpans(Generic[S]):
    """Disjoint spans with deadlines, found by sequence number and by what is due first.

    Attributes:
        messages: how many are in them.
    """

    __slots__ = ("_due", "_spans", "messages")

    def __init__(self) -> None:
        self._spans: SpanMap[S] = SpanMap()
        self._due: DeadlineHeap[S] = DeadlineHeap()
        self.messages = 0

    def __len__(self) -> int:
        """How many spans, not messages."""
        return len(self._due)

    def __iter__(self) -> Iterator[S]:
        return iter(self._spans)

    @property
    def slots(self) -> int:
        """How many places the heap of deadlines takes."""
        return self._due.slots

    def first(self) -> S | None:
        """The span with the lowest numbers."""
        return self._spans.first()

    def insert(self, span: S, deadline: float) -> None:
        """Add a span that overlaps none and is in no heap."""
        self._spans.insert(span)
        self._due.push(span, deadline)
        self.messages += span.stop - span.start

    def earliest(self) -> float | None:
        """The next deadline."""
        return self._due.earliest()

    def pop_due(self, now: float) -> S | None:
        """Take out the span with the earliest deadline if that is not after ``now``."""
        span = self._due.pop_due(now)
        if span is not None:
            self._spans.cut(span.start, span.stop)
            self.messages -= span.stop - span.start
        return span

    def cut(self, start: int, stop: int) -> list[S]:
        """Take a range out; returns the spans in it. What is left of a span on either side keeps its deadline."""
        taken, rest = self._spans.cut(start, stop)
        for span in taken:
            self.messages -= span.stop - span.start
            if span.deadline is not None:
                self._due.forget(span)
        if rest is not None:
            # The part below the cut kept the object that the heap has.
            kept = self._spans.first_from(start - 1)
            assert kept is not None
            assert kept.deadline is not None
            self._due.push(rest, kept.deadline)
        return taken
