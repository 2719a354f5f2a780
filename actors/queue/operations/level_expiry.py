"""What expires at the heads of a queue with levels: each level has one, and only those are looked at that may be others than before."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from actors.queue.operations.expiring import NOT_READ, Expiring, expires_at
from actors.queue.vocabulary.budgets import EXPIRY_BUDGET

if TYPE_CHECKING:
    from actors.queue.state.core import QueueCore
    from actors.queue.state.leveled_ready import LeveledReady


def next_of_levels(core: QueueCore, ready: LeveledReady) -> float | None:
    """When the first of the heads expires; None if none does."""
    _look_up(core, ready)
    due = ready.heads.first_due(_floor(core, ready))
    return None if due == inf else due


def expire_levels(core: QueueCore, ready: LeveledReady, now: float) -> None:
    """Drop what is expired at the head of each level, the highest first, as much as may go at once."""
    expiring = Expiring(core, now)
    for _ in range(EXPIRY_BUDGET):
        _look_up(core, ready)
        level = ready.heads.highest_due(_floor(core, ready), now)
        if level is None or expiring.is_held_up:
            break
        span = ready.head(level)
        assert span is not None, "it was looked up"
        if not expiring.take(span):
            core.unfinished_at = now
            break
    else:
        core.unfinished_at = now
    expiring.finish()


def _look_up(core: QueueCore, ready: LeveledReady) -> None:
    """Have the times of all heads be known that may be others."""
    heads = ready.heads
    if not heads.are_known(core.arrived_from, core.clocks.merged, reading=core.ring.reading):
        for level in heads.to_look_up():
            span = ready.head(level)
            expires = None if span is None else expires_at(core, span)
            if expires == NOT_READ:
                heads.note_unread(level)
            elif span is not None and expires is None and _has_just_come(core, span.start, span.entry.ttl_us):
                heads.note_new(level)
            else:
                heads.note(level, inf if expires is None else expires)


def _has_just_come(core: QueueCore, start: int, ttl_us: int | None) -> bool:
    """Whether it has no time to live, and those who wait may have it before it expires."""
    return ttl_us == 0 and core.arrived_from <= start < core.ttl_below


def _floor(core: QueueCore, ready: LeveledReady) -> int:
    """Below which level nothing expires, as an exclusive queue waits for what is before it."""
    return ready.waits_below() if core.settings.exclusive else 0
