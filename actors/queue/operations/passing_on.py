"""A queue that waits for an exchange passes on what is due, which the exchange routes then: it leaves as dead letters do.

Its messages have a time to live of 0, so what can be received expires at once, and nobody receives it. Most of them were stored with their
delay. What came another way (a commit, a dead letter, a schedule) was not: it is ready, and has its wait before it.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from actors.queue.structures.deadlines import US_PER_SECOND
from actors.queue.vocabulary.replies import DeadLetter
from actors.queue.vocabulary.settings import DEAD_LETTER_PART_BYTES, DEAD_LETTER_TIMEOUT
from actors.queue.vocabulary.waiting import having_waited, waits_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.batch import MessageBatch
    from actors.queue.state.core import QueueCore
    from actors.queue.state.entries import Entry, Span

US_PER_MS: Final = 1000
TOLERANCE: Final = 0.001
"""Seconds before its time at which a message is due: one that was delayed for exactly so long is not delayed again for a rounding."""
PART_MESSAGES: Final = 1_024
"""Messages of a batch that are looked at, one by one, and handed over together;"""
MOST_UNDER_WAY: Final = 4 * PART_MESSAGES
"""and so many that are handed over and have not arrived: what is due at one time may be far more, and a turn has some milliseconds."""
PIECE_COST: Final = 3
"""What it costs to have some messages wait until one time, or go on together, in messages that are looked at."""
PASS_BUDGET: Final = PART_MESSAGES
"""Messages that are looked at in one go, about: some milliseconds of work."""
MORE_BYTES: Final = 64
"""What a message's headers may take more behind its wait."""


def pass_on_some(core: QueueCore, now: float) -> int:
    """Have some of what is on its way out be passed on, or wait; returns what that cost, as of `PASS_BUDGET`."""
    cost, outbox = 0, core.outbox
    while cost < PASS_BUDGET and outbox.sent.messages < MOST_UNDER_WAY and (span := outbox.next_to_send()) is not None:
        cost += pass_on(core, span, now)
    return cost


def pass_on(core: QueueCore, span: Span, now: float) -> int:
    """Have what is due of a span, which is in no structure, go to the exchange, and the rest wait until it is; returns what that cost."""
    if span.stop - span.start > PART_MESSAGES:
        core.outbox.add(span.part(span.start + PART_MESSAGES, span.stop))
        span = span.part(span.start, span.start + PART_MESSAGES)
    cost, entry, start = 0, span.entry, span.start
    batch = entry.part(start, span.stop)
    for due, messages in groupby(_dues(core, entry, batch), key=lambda due: max(due, now)):
        if cost >= PASS_BUDGET:
            # It is looked at in another turn.
            core.outbox.add(span.part(start, span.stop))
            break
        stop = start + sum(1 for _ in messages)
        cost += stop - start + PIECE_COST
        if due > now + TOLERANCE:
            core.ready.delay(span.part(start, stop).taken_back(), due)
        else:
            _hand_over(core, span.part(start, stop), now)
        start = stop
    return cost


def _dues(core: QueueCore, entry: Entry, batch: MessageBatch) -> Iterator[float]:
    """When each message is due, on the clock of deadlines."""
    since_us = core.clocks.instant_us(entry.first, entry.enqueued_us)
    headers = [b""] * len(batch) if batch.headers is None else batch.headers.tolist()
    return ((since_us + max(0, waits_for(packed)) * US_PER_MS) / US_PER_SECOND for packed in headers)


def _hand_over(core: QueueCore, span: Span, now: float) -> None:
    entry = span.entry
    batch = entry.part(span.start, span.stop)
    count = max(1, min(batch.count_within(DEAD_LETTER_PART_BYTES), DEAD_LETTER_PART_BYTES // MORE_BYTES))
    if count < len(batch):
        core.outbox.add(span.part(span.start + count, span.stop))
        span, batch = span.part(span.start, span.start + count), batch.slice(0, count)
    core.outbox.sent.insert(span, now + DEAD_LETTER_TIMEOUT)
    core.effects.append(
        DeadLetter(
            None,
            having_waited(batch),
            ((span.start, span.stop),),
            max(entry.event, core.barrier),
            entry.published,
            core.settings.dead_letter_exchange,
        )
    )
