"""What a start finds in a queue that nobody holds anything of: the history of what came back, and delays that are not over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue.state.entries import spans_of
from actors.queue.structures.deadlines import US_PER_SECOND
from actors.queue.vocabulary.settings import REJECTED_FAILURES

if TYPE_CHECKING:
    from actors.queue.state.core import QueueCore
    from actors.queue.structures.ranges import Range


def restore_history(core: QueueCore, now: float) -> None:
    """Give back their history to what was returned, and what is left of their delays to those whose delay is not over.

    What has no history of its own stays one range with holes, however much it is. Only what was returned before, and what waits for
    a delay, becomes spans.
    """
    log = core.log
    for first, due in _remaining_delays(core, now):
        for part in core.ready.carve(first, log.delayed[first][0]):
            # Some of it may have been delivered before a time of day that came twice.
            for piece, failures in log.returns.over(*part):
                _restore_range(core, piece, failures, due)
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
    # Only where the time of day went back can more be left of a delay than there was, and then the newest batch shows it. In all
    # other cases each batch need not be read for when it was stored.
    if remaining and clocks.due(remaining[-1][0], core.enqueued_us(remaining[-1][0])) > now:
        remaining = [
            (first, min(due, now + (log.delayed[first][1] - core.enqueued_us(first)) / US_PER_SECOND))
            for first, due in remaining
        ]
    return remaining


def _restore_range(core: QueueCore, part: Range, failures: int, due: float | None) -> None:
    # So often they have been delivered at least; deliveries that did not fail are forgotten by a restart.
    deliveries = 1 if failures == REJECTED_FAILURES else failures
    for span in spans_of(core.log.table, *part, deliveries, replayed=True, failures=failures):
        core.put_back(span, due)
