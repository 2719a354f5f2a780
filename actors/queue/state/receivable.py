"""What every set of ready messages can be told, be it of a queue with levels or without; and what each does of it alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.queue.state.entries import Span
    from actors.queue.state.leveled_delays import LeveledDelays
    from actors.queue.structures.ranges import Range
    from actors.queue.structures.spans import SpanMap, TimedSpans


class Receivable:
    """The messages of a queue that nobody holds: see ``ReadyRanges``, which says what each of these does."""

    __slots__ = ()

    messages: int
    delayed: TimedSpans[Span] | LeveledDelays

    def add(self, stop: int, count: int) -> None:
        """See ``ReadyRanges``."""
        raise NotImplementedError

    def add_delayed(self, stop: int, count: int, due: float) -> None:
        """See ``ReadyRanges``."""
        raise NotImplementedError

    def add_staged(self, stop: int, count: int) -> None:
        """See ``ReadyRanges``."""
        raise NotImplementedError

    def publish(self, start: int, stop: int) -> None:
        """See ``ReadyRanges``."""
        raise NotImplementedError

    def carve(self, start: int, stop: int) -> list[Range]:
        """See ``ReadyRanges``."""
        raise NotImplementedError

    def put_back(self, span: Span) -> None:
        """Make a span receivable again in its old place; it is in no other structure and has no deadline."""
        span.holder = None
        self.messages += span.stop - span.start  # type: ignore[misc]  # the slot is of what is made of this
        self._returned_to(span).join(span)

    def _returned_to(self, span: Span) -> SpanMap[Span]:
        """Where a span is from now on that came back."""
        raise NotImplementedError

    def delay(self, span: Span, due: float) -> None:
        """Make a span receivable again in its old place at ``due``."""
        span.holder = None
        self.delayed.insert(span, due)

    def release_due(self, now: float) -> Span | None:
        """Put back the span whose delay has been over longest, if there is one; returns it as it was."""
        span = self.delayed.pop_due(now)
        if span is not None:
            self.put_back(span)
        return span

    def take(self, span: Span, count: int) -> Span:
        """See ``ReadyRanges``."""
        raise NotImplementedError

    def remove(self, start: int, stop: int) -> list[Range]:
        """See ``ReadyRanges``."""
        raise NotImplementedError

    def take_out(self, span: Span, *, delayed: bool) -> None:
        """See ``ReadyRanges``."""
        raise NotImplementedError

    def oldest(self, below: int) -> Iterator[Range]:
        """What can be received now or after a delay, piece by piece, as far as its numbers are less than ``below``.

        Each piece is to be dropped before the next is asked for.
        """
        raise NotImplementedError
