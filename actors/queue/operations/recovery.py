"""What is ready, delayed and leaving after a start: made from the log, as nobody holds anything.

What has no history of its own stays one range with holes, however much it is. Only what was returned before, and what waits for a
delay, becomes spans.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue.state.entries import spans_of, stored_entry
from actors.queue.structures.deadlines import US_PER_SECOND

if TYPE_CHECKING:
    from actors.queue.state.core import QueueCore
    from actors.queue.structures.ranges import Range


def restore(core: QueueCore, now: float) -> None:
    """Give back their history to what was returned, and what is left of their delays to those whose delay is not over."""
    log = core.log
    for first, due in _remaining_delays(core, now):
        for part in core.ready.carve(first, log.delayed[first][0]):
            _restore_part(core, part, due)
    if core.settings.max_receives is not None:
        # Where nobody counts, a history is that of settings that are no more.
        for start, stop, failures in list(log.returns):
            for part in core.ready.carve(start, stop):
                _restore_range(core, part, failures, None)


def _remaining_delays(core: QueueCore, now: float) -> list[tuple[int, float]]:
    """First numbers of the batches whose delay is not over, each with when it is; never longer than the delay was."""
    log, clocks = core.log, core.clocks
    remaining: list[tuple[int, float]] = []
    for first, (_, due_us) in sorted(log.delayed.items()):
        due = clocks.due(first, due_us)
        if due <= now or log.table.at(first) is None:
            log.delay_ended(first)
        else:
            remaining.append((first, due))
    # Only where the time of day went back can more be left of a delay than there was, and then the newest batch shows it. In all other
    # cases each batch need not be read for when it was stored.
    if remaining and clocks.due(remaining[-1][0], _enqueued_us(core, remaining[-1][0])) > now:
        remaining = [
            (first, min(due, now + (log.delayed[first][1] - _enqueued_us(core, first)) / US_PER_SECOND))
            for first, due in remaining
        ]
    return remaining


def _enqueued_us(core: QueueCore, first: int) -> int:
    return stored_entry(core.log.table, first).read().enqueued_us


def _restore_part(core: QueueCore, part: Range, due: float) -> None:
    """Restore a range that waits for a delay, some of which may have been delivered before a time of day that came twice."""
    for piece, failures in core.log.returns.over(*part):
        _restore_range(core, piece, failures, due)


def _restore_range(core: QueueCore, part: Range, failures: int, due: float | None) -> None:
    # So often they have been delivered at least; deliveries that did not fail are forgotten by a restart.
    for span in spans_of(core.log.table, *part, failures, replayed=True, failures=failures):
        if core.settings.worn_out(failures):
            core.outbox.add(span)
        elif due is not None:
            core.ready.delay(span, due)
        else:
            core.ready.put_back(span)
