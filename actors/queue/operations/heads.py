"""What is next of what is ready, and what has expired before it.

A message whose time to live is over when it would be next is not delivered any more. One that has none, a time of 0, is delivered by the
dispatch that follows its coming, to whoever wants it then, and expires when that is done. It expires at the head of its queue, as in other
brokers: what is behind a message that still has time waits its turn, past its own time, and counts as stored until then. What a
receiver holds does not expire; if it comes back too late, it does then.
"""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING

from actors.queue.operations.expiring import Expiring, expires_at
from actors.queue.operations.level_expiry import expire_levels, next_of_levels
from actors.queue.state.leveled_ready import LeveledReady
from actors.queue.vocabulary.budgets import EXPIRY_BUDGET

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.queue.state.core import QueueCore
    from actors.queue.state.entries import Span


def next_ready(core: QueueCore, now: float, minimum: int = 0, below: int | None = None) -> Span | None:
    """The first span that can be delivered, with numbers of ``minimum`` or more; what expires before it is dropped.

    With ``below`` it is the first that begins with a lower number, where a queue with levels has others before it. Otherwise the caller
    looks.

    None where nothing can be: nothing is ready, an exclusive queue waits for a delay, there is more to drop than may be at once, or what
    is ready is being judged.
    """
    if core.judging is not None:
        return None
    span = core.ready.first(minimum) if below is None else core.ready.first_below(minimum, below)
    if span is None or (core.settings.exclusive and core.ready.skips(span)):
        return None
    expires = expires_at(core, span)
    if expires is None or expires > now:
        return span
    ready = core.ready
    first = partial(ready.first, minimum) if below is None else partial(ready.first_below, minimum, below)
    return _drop_expired(core, now, first)


def next_expiry(core: QueueCore) -> float | None:
    """When the message that is next expires, or of a queue with levels the first that is next in one; None if none does, or can leave."""
    if not core.ttl_below or core.judging is not None or core.parcels:
        return None
    if core.settings.dead_letters_named and core.outbox.waiting:
        return None
    ready = core.ready
    if isinstance(ready, LeveledReady):
        return next_of_levels(core, ready)
    span = ready.first()
    if span is None or (core.settings.exclusive and core.ready.skips(span)):
        return None
    expires = expires_at(core, span)
    return None if expires == inf else expires


def expire_heads(core: QueueCore, now: float) -> None:
    """Drop what is expired at the head of the queue, or of each level of it."""
    ready = core.ready
    if not isinstance(ready, LeveledReady):
        next_ready(core, now)
    elif core.judging is None:
        expire_levels(core, ready, now)


def _drop_expired(core: QueueCore, now: float, first: Callable[[], Span | None]) -> Span | None:
    """Drop spans that are expired, as ``first`` gives them, until one is not, which is returned."""
    ready = core.ready
    expiring = Expiring(core, now)
    found: Span | None = None
    for _ in range(EXPIRY_BUDGET):
        span = first()
        if span is None or (core.settings.exclusive and ready.skips(span)):
            break
        expires = expires_at(core, span)
        if expires is None or expires > now:
            found = span
            break
        if expiring.is_held_up:
            break
        if not expiring.take(span):
            core.unfinished_at = now
            break
    else:
        core.unfinished_at = now
    expiring.finish()
    return found
