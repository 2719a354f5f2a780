"""A purge: all that is ready or waits for a delay when it begins is dropped, step by step."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from actors.queue.operations.calendar import purge_calendar
from actors.queue.structures.ranges import merged
from actors.queue.vocabulary.budgets import PURGE_BUDGET
from actors.queue.vocabulary.events import QueuePurged

if TYPE_CHECKING:
    from actors.queue.state.core import QueueCore
    from actors.queue.structures.ranges import Range


def begin_purge(core: QueueCore) -> tuple[int, int]:
    """Drop what has no number yet; returns below which number to go on by ``purge_step``, and how many messages are gone."""
    return core.log.next_sequence, purge_calendar(core)


def purge_step(core: QueueCore, below: int) -> int:
    """Drop the first of what is ready or delayed with numbers less than ``below``; returns how many messages, 0 if there are none.

    A backlog may be a million ranges, or one range of a million batches: each step is bounded by the batches that it touches.
    """
    ranges: list[Range] = []
    left = PURGE_BUDGET
    for start, end in core.ready.oldest(below):
        stop = end
        for extent in islice(core.log.table.extents(start, stop), left):
            left -= 1
            stop = min(end, extent.stop)
        stop = stop if left == 0 else end
        core.ready.drop(start, stop)
        ranges.append((start, stop))
        if left == 0:
            break
    if ranges:
        core.commit(QueuePurged(merged(sorted(ranges))))
        core.grant()
    return sum(stop - start for start, stop in ranges)
