"""A look at some stored messages, as somebody who wants to see them has it: it changes nothing and is recorded nowhere."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from actors.queue.operations.browsing import lowest_stored, read_step, stored_within
from actors.queue.structures.deadlines import US_PER_SECOND
from actors.queue.vocabulary.replies import PeekedMessages, PeekedRange

if TYPE_CHECKING:
    from actors.queue.state.core import QueueCore
    from actors.queue.vocabulary.moves import PeekMessages


def peek(core: QueueCore, command: PeekMessages, now: float) -> PeekedMessages:
    """The first stored messages from a number on, or the last ones there are, as many as one step has."""
    count, stop = command.count, core.log.next_sequence
    start = _from_the_end(core, count) if command.start is None else command.start
    ranges, rest, _ = read_step(core, start, stop, count)
    found: list[PeekedRange] = []
    for messages in ranges:
        age_us = round(now * US_PER_SECOND) - core.clocks.instant_us(messages.first, messages.enqueued_us)
        found.append(PeekedRange(messages, max(0, age_us)))
    if rest is not None and not stored_within(core, rest, stop):
        rest = None
    return PeekedMessages(tuple(found), rest)


def _from_the_end(core: QueueCore, count: int) -> int:
    """The number from which on so many messages are stored; of the first where there are fewer."""
    lowest, stop = lowest_stored(core), core.log.next_sequence
    # The greatest number from which on there are enough; what is stored from a number on only falls.
    before = bisect_right(range(lowest, stop), -count, key=lambda start: -stored_within(core, start, stop))
    return max(lowest, lowest + before - 1)
