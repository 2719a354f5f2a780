"""Both ends of a dead letter's way: the queue that takes it, and the answer to the queue that it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue.operations.dispatch import dispatch
from actors.queue.operations.leaving import hand_over, hand_over_span
from actors.queue.structures.deadlines import each_due
from actors.queue.vocabulary.commands import DeadLettersMoved
from actors.queue.vocabulary.events import MessagesAdded, MessagesMoved
from actors.queue.vocabulary.replies import Tell
from actors.queue.vocabulary.settings import TIMER_BUDGET

if TYPE_CHECKING:
    from actors.queue.state.core import QueueCore
    from actors.queue.vocabulary.commands import StoreDeadLetters


def store_dead_letters(core: QueueCore, command: StoreDeadLetters, now: float) -> None:
    """Store what another queue could not get rid of."""
    log, wall_us, origin = core.log, core.wall_us, command.origin
    first = log.next_sequence
    ttl_us = core.usual_timing[1]
    core.note_time(now, wall_us)
    # It is a part of what the other queue stores, and outlives that here.
    batch = command.batch.compact()
    # In one instant they are here and not there.
    core.commit(MessagesAdded(first, batch, wall_us, ttl_us=ttl_us), {origin.queue: MessagesMoved(origin.ranges)})
    core.ready.add(log.next_sequence, len(batch))
    if ttl_us is not None:
        core.ttl_below = log.next_sequence
    core.effects.append(Tell(command.source, DeadLettersMoved(origin.ranges), core.last_event))
    dispatch(core, now)


def dead_letters_moved(core: QueueCore, command: DeadLettersMoved, now: float) -> None:
    """The dead-letter queue has these messages."""
    core.log.apply(MessagesMoved(command.ranges))
    for start, stop in command.ranges:
        core.outbox.drop(start, stop)
    hand_over(core, now)
    core.grant()
    # What is expired at the head may have waited for these to leave.
    dispatch(core, now)


def hand_over_again(core: QueueCore, now: float) -> None:
    """Hand over what was not answered for in time, if it is still here, and what waits since the start."""
    hand_over(core, now)
    for span in each_due(core.outbox.sent.pop_due, now, TIMER_BUDGET):
        parts = core.log.acknowledged.gaps(span.start, span.stop)
        for start, stop in parts:
            hand_over_span(core, span.part(start, stop), now)
        if parts != [(span.start, span.stop)]:
            hand_over(core, now)
            core.grant()
