"""What a start finds in a queue that nobody holds anything of: the history of what came back, and delays that are not over."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from actors.queue.state.entries import spans_of, stored_entry
from actors.queue.state.grouped_ready import GroupedReady
from actors.queue.state.leveled_log import LeveledLog
from actors.queue.state.leveled_ready import LeveledReady
from actors.queue.state.ready import ReadyRanges, unheld
from actors.queue.structures.deadlines import US_PER_SECOND
from actors.queue.vocabulary.calendar import NEAR_SECONDS
from actors.queue.vocabulary.settings import REJECTED_FAILURES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.queue.state.entries import EntryTable, Span
    from actors.queue.state.groups import Groups
    from actors.queue.state.log import QueueLog
    from actors.queue.structures.deadlines import Clocks
    from actors.queue.structures.ranges import Range
    from actors.queue.vocabulary.settings import QueueSettings


def ready_of(log: QueueLog, groups: Groups | None) -> ReadyRanges | LeveledReady:
    """All of it that nobody has reserved, as fresh."""
    if isinstance(log, LeveledLog):
        return LeveledReady(log)
    return unheld(log) if groups is None else GroupedReady.of(unheld(log), groups)


def remembered(
    log: QueueLog, ready: ReadyRanges | LeveledReady, clocks: Clocks, now: float, settings: QueueSettings
) -> Iterator[tuple[Span, float | None]]:
    """What is more than fresh: taken out of what is ready, span by span, each with when its delay is over.

    What has no history of its own stays one range with holes, however much it is. Only what was returned before, and what waits for
    a delay, becomes spans.

    Args:
        log: what is stored.
        ready: all of it that nobody has reserved, as fresh; whoever asks puts back what comes before it asks for more.
        clocks: of the queue.
        now: the time of the start.
        settings: of the queue. Where nobody counts failures, nor keeps what is refused, a history is that of settings that are no more.
    """
    waiting = (
        # Somebody had what is to be tried again, whether or not anybody counts that.
        *((each, 1) for each in _remaining_retries(log, clocks, now)),
        # What was sent with a delay may have been delivered before a time of day that came twice.
        *((each, 0) for each in _remaining_delays(log, clocks, now, settings)),
    )
    for (start, stop, due), least in waiting:
        for part in ready.carve(start, stop):
            for piece, failures in log.returns.over(*part):
                for span in _failed(log, piece, settings.failures_of_account(failures), least):
                    yield span, due
    if settings.counts_failures or settings.keeps_dead_letters:
        for start, stop, recorded in list(log.returns):
            if not (failures := settings.failures_of_account(recorded)):
                continue
            for part in ready.carve(start, stop):
                for span in _failed(log, part, failures):
                    yield span, None


def _remaining_retries(log: QueueLog, clocks: Clocks, now: float) -> list[tuple[int, int, float]]:
    """What waits to be tried again, each with until when; never longer than it was to."""
    remaining: list[tuple[int, int, float]] = []
    if not (retries := log.retries):
        return remaining
    wall_us = clocks.time_us(now)
    for each in list(retries):
        left_us = min(each.due_us - wall_us, each.delay_us)
        if left_us > 0:
            remaining.append((each.start, each.stop, now + left_us / US_PER_SECOND))
        else:
            retries.forget(each.start, each.stop)
    return remaining


def _remaining_delays(
    log: QueueLog, clocks: Clocks, now: float, settings: QueueSettings
) -> list[tuple[int, int, float]]:
    """The batches whose delay is not over, each with when it is; never longer than the delay was."""
    remaining: list[tuple[int, float]] = []
    for first, (_, due_us) in sorted(log.delayed.items()):
        due = clocks.due(first, due_us)
        if due <= now or log.table.at(first) is None:
            log.delay_ended(first)
        else:
            remaining.append((first, due))
    # Only where the time of day went back can more be left of a delay than there was, and then the newest batch shows it, or where there
    # is a calendar more is left than waits in the queue. In all other cases each batch need not be read for when it was stored.
    went_back = bool(remaining) and clocks.due(remaining[-1][0], stored_us(log.table, remaining[-1][0])) > now
    most = now + NEAR_SECONDS if log.table.calendar is not None and not settings.exclusive else inf
    remaining = [
        (first, _left_of(log, first, due, now) if went_back or due > most else due) for first, due in remaining
    ]
    return [(first, log.delayed[first][0], due) for first, due in remaining]


def _left_of(log: QueueLog, first: int, due: float, now: float) -> float:
    """When a delay is over, by when its batch was stored."""
    return min(due, now + (log.delayed[first][1] - stored_us(log.table, first)) / US_PER_SECOND)


def stored_us(table: EntryTable, first: int) -> int:
    """When the batch was stored that begins with ``first``, microseconds since the epoch."""
    return stored_entry(table, first).read().enqueued_us


def _failed(log: QueueLog, part: Range, failures: int, least: int = 0) -> Iterator[Span]:
    # So often they have been delivered at least; deliveries that did not fail are forgotten by a restart.
    deliveries = max(least, 1 if failures == REJECTED_FAILURES else failures)
    return spans_of(log.table, *part, deliveries, replayed=True, failures=failures)
