"""A queue notices what others have written to its log: a publish to several queues, a commit, what another queue got rid of.

The durable part of a queue, its log, has each event in the instant in which it is recorded, whoever recorded it. What the queue
knows beside it (what is ready, what waits for a delay, what is staged) is made by the queue itself as it stores messages. So what
others store is made known here, before the queue does anything else: each number once, from where the queue left off to where its log
is.

Who writes to a queue's log does two things more. It calls ``note_time`` before, in the same instant: the time of day may be set before the
queue comes to it. And it has the queue asked for something soon after, for a queue that nobody asks does not look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue.state.entries import spans_of
from actors.queue.structures.ranges import RangeSet

if TYPE_CHECKING:
    from actors.queue.state.core import QueueCore
    from actors.queue.structures.ranges import Range


def catch_up(core: QueueCore, now: float) -> None:
    """Make known what others have stored since the queue was asked for something. It costs nothing where they have not.

    Nothing is delivered: who calls this dispatches, before or after what it is about to do.
    """
    log, ready = core.log, core.ready
    start, stop = ready.known, log.next_sequence
    if start == stop:
        return
    # What they stored may have been committed since, and is delivered for that reason.
    core.depend_on(log.published_by)
    core.last_event = max(core.last_event, log.added_by)
    core.ttl_below = max(core.ttl_below, log.ttl_below)
    position = start
    for low, high in _withheld(core, start, stop):
        ready.add(low, low - position)
        ready.add_staged(high, high - low)
        position = high
    ready.add(stop, stop - position)
    core.staged.beside.clear()
    if log.delayed:
        _delay(core, start, stop, now)
    # A queue that is full by it holds its senders back from now on.
    core.grant()


def _withheld(core: QueueCore, start: int, stop: int) -> list[Range]:
    """What is not ready of the numbers that others have stored, ascending: what is staged, and what was staged and discarded since."""
    log, staged = core.log, core.staged
    withheld = RangeSet(_within(log.acknowledged, start, stop))
    if log.stages or staged.stages:
        # A stage that a commit took out of the log is the queue's until it acts on that, with what it did not know of it.
        for key, stage in {**staged.stages, **log.stages}.items():
            if parts := _within(stage.ranges, start, stop):
                staged.written(key, stage, parts)
                withheld.extend(parts)
    return list(withheld)


def _within(ranges: RangeSet, start: int, stop: int) -> list[Range]:
    return [(max(start, low), min(stop, high)) for low, high in ranges.meeting(start, stop)]


def _delay(core: QueueCore, start: int, stop: int, now: float) -> None:
    """Have what waits for a delay wait for what is left of it."""
    log, ready = core.log, core.ready
    for first, _, _ in log.table.extents(start, stop):
        if first not in log.delayed:
            continue
        after, due_us = log.delayed[first]
        due = core.clocks.due(first, due_us)
        if due <= now:
            log.delay_ended(first)
            continue
        for part in ready.carve(first, after):
            for span in spans_of(log.table, *part):
                ready.delay(span, due)
