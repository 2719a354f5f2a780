"""Messages that leave for the dead-letter queue: not ready, not held, and still this queue's until the other has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.queue.structures.spans import SpanMap, TimedSpans
from actors.queue.vocabulary.settings import DEAD_LETTER_BATCHES, DEAD_LETTER_BYTES

if TYPE_CHECKING:
    from actors.queue.state.entries import Span


@dataclass(eq=False, repr=False, slots=True)
class Outbox:
    """Spans on their way out: a few that were handed over and not answered for, and the others, which wait for those.

    So however many messages have to go, few of their batches are in memory for it.

    Args:
        now: from when on what waits at a start may be handed over.
    """

    now: float
    sent: TimedSpans[Span] = field(default_factory=TimedSpans)
    waiting: SpanMap[Span] = field(default_factory=SpanMap)
    waiting_messages: int = 0

    @property
    def messages(self) -> int:
        """How many are leaving."""
        return self.sent.messages + self.waiting_messages

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

    def drop(self, start: int, stop: int) -> None:
        """The messages of a range have left."""
        self.sent.cut(start, stop)
        for span in self.waiting.cut(start, stop)[0]:
            self.waiting_messages -= span.stop - span.start

    def _sent_bytes(self) -> int:
        """What is handed over has of its batches, about."""
        return sum(len(span) * span.entry.size // (span.entry.stop - span.entry.first) for span in self.sent)
