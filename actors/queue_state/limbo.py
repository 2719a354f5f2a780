"""Messages that leave for the dead-letter queue: not ready, not held, and still this queue's until the other has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.batch import OFFSET_BYTES
from actors.queue_state.dead_letter_headers import packed_facts, with_facts
from actors.queue_state.effects import EXPIRED, MAX_RECEIVES, DeadLetter
from actors.queue_state.settings import (
    DEAD_LETTER_BATCHES,
    DEAD_LETTER_BYTES,
    DEAD_LETTER_PART_BYTES,
    DEAD_LETTER_TIMEOUT,
)
from actors.queue_state.span_map import SpanMap
from actors.queue_state.timed_spans import TimedSpans

if TYPE_CHECKING:
    from actors.batch import MessageBatch
    from actors.queue_state.core import QueueCore
    from actors.queue_state.entry import Span

MAP_BYTES = 3 + OFFSET_BYTES
"""What headers take beside themselves: a map around them, and an offset."""


class Limbo:
    """Spans on their way out: a few that were handed over and not answered for, and the others, which wait for those.

    So however many messages have to go, few of their batches are in memory for it.

    Args:
        now: from when on what waits at a start may be handed over.
    """

    __slots__ = ("_now", "sent", "waiting", "waiting_messages")

    def __init__(self, now: float) -> None:
        self._now = now
        self.sent = TimedSpans()
        self.waiting = SpanMap()
        self.waiting_messages = 0

    @property
    def messages(self) -> int:
        """How many are leaving."""
        return self.sent.messages + self.waiting_messages

    def add(self, span: Span) -> None:
        """Have a span leave that is in no other structure and has no deadline."""
        span.holder = None
        self.waiting_messages += span.stop - span.start
        self.waiting.join(span)

    def next_deadline(self) -> float | None:
        """When something is to be handed over, or handed over again."""
        return self.sent.earliest() if self.sent or not self.waiting else self._now

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


def is_worn_out(core: QueueCore, failures: int) -> bool:
    """Whether messages that have failed so often may not be delivered again."""
    limit = core.settings.max_receives
    return limit is not None and failures >= limit


def hand_over(core: QueueCore, now: float) -> None:
    """Ask for what leaves to be stored in the dead-letter queue, as much as may be under way."""
    while (span := core.limbo.next_to_send()) is not None:
        hand_over_span(core, span, now)


def hand_over_span(core: QueueCore, span: Span, now: float) -> None:
    """Ask for a span, which is in no structure, to be stored in the dead-letter queue, and wait for the answer.

    Its messages get headers that say why they are dead, so of a span of many small ones it is the first only, and the rest waits.
    """
    reason = MAX_RECEIVES if is_worn_out(core, span.failures) else EXPIRED
    entry = span.entry
    batch = entry.part(span.start, span.stop)
    facts = packed_facts(reason, core.name, entry.enqueued_us, span.deliveries)
    count = _fitting(batch, len(facts) + MAP_BYTES)
    if count < len(batch):
        core.limbo.add(span.part(span.start + count, span.stop))
        span, batch = span.part(span.start, span.start + count), batch.slice(0, count)
    core.limbo.sent.insert(span, now + DEAD_LETTER_TIMEOUT)
    core.effects.append(
        DeadLetter(
            core.settings.dead_letter_queue,
            span.start,
            with_facts(batch, facts),
            ((span.start, span.stop),),
            reason,
            max(entry.event, core.barrier),
        )
    )


def _fitting(batch: MessageBatch, more: int) -> int:
    """How many of the first messages make a batch that fits a frame with so many bytes more on each; one in any case."""
    most = DEAD_LETTER_PART_BYTES
    count = min(batch.count_within(most), most // more)
    if count > 1 and batch.prefix_bytes(count) > most:
        count -= 1
    return max(1, count)
