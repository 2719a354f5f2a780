"""Times to live: a message whose time is over when it would be next is not delivered any more.

A message expires at the head of its queue, as in other brokers: what is behind a message that still has time waits its turn, past its
own time, and counts as stored until then. What a receiver holds does not expire; if it comes back too late, it does then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue.operations.leaving import hand_over
from actors.queue.structures.clocks import US_PER_SECOND
from actors.queue.structures.ranges import merged
from actors.queue.vocabulary.events import MessagesExpired
from actors.queue.vocabulary.settings import EXPIRY_BUDGET

if TYPE_CHECKING:
    from actors.queue.state.core import QueueCore
    from actors.queue.state.entry import Span
    from actors.queue.structures.ranges import Range


def next_ready(core: QueueCore, now: float, minimum: int = 0) -> Span | None:
    """The first span that can be delivered, with numbers of ``minimum`` or more; what expires before it is dropped.

    None where nothing can be: nothing is ready, an exclusive queue waits for a delay, or there is more to drop than may be at once.
    """
    span = core.ready.first(minimum)
    if span is None or (core.settings.exclusive and core.ready.skips(span)):
        return None
    expires = _expires(core, span)
    return span if expires is None or expires > now else _drop_expired(core, now, minimum)


def drop_expired(core: QueueCore, now: float) -> None:
    """Drop what is at the head of the queue and expired, though nobody waits for it."""
    if core.ttl_below:
        next_ready(core, now)


def next_expiry(core: QueueCore) -> float | None:
    """When the message that is next expires; None if it does not, or cannot leave yet."""
    if not core.ttl_below or (_has_dead_letter_queue(core) and core.outbox.waiting):
        return None
    span = core.ready.first()
    if span is None or (core.settings.exclusive and core.ready.skips(span)):
        return None
    return _expires(core, span)


def _expires(core: QueueCore, span: Span) -> float | None:
    """When a span expires, on the clock of deadlines."""
    if span.start >= core.ttl_below:
        return None
    entry = span.entry
    if not entry.known:
        core.log.table.load(entry)
    if entry.ttl_us is None:
        return None
    return (core.clocks.instant_us(entry.first, entry.enqueued_us) + entry.ttl_us) / US_PER_SECOND


def _drop_expired(core: QueueCore, now: float, minimum: int) -> Span | None:
    """Drop spans that are expired until one is not, which is returned."""
    ready = core.ready
    gone: list[Range] = []
    found: Span | None = None
    moves = _has_dead_letter_queue(core)
    for _ in range(EXPIRY_BUDGET):
        span = ready.first(minimum)
        if span is None or (core.settings.exclusive and ready.skips(span)):
            break
        expires = _expires(core, span)
        if expires is None or expires > now:
            found = span
            break
        if moves and core.outbox.waiting:
            # Those before it have not left yet: the rest stays where it takes no memory.
            break
        span = ready.take(span, span.stop - span.start)
        if moves:
            core.outbox.add(span)
            hand_over(core, now)
        else:
            gone.append((span.start, span.stop))
    else:
        core.unfinished_at = now
    if gone:
        core.commit(MessagesExpired(merged(sorted(gone))))
        core.grant()
    return found


def _has_dead_letter_queue(core: QueueCore) -> bool:
    """Whether what expires goes to another queue: only where one is named, since dropping is what a time to live is for."""
    return core.settings.dead_letter_queue is not None
