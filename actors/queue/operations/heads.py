"""What is next of what is ready, and what has expired before it.

A message whose time to live is over when it would be next is not delivered any more. One that has none, a time of 0, is delivered by the
dispatch that follows its coming, to whoever wants it then, and expires when that is done. It expires at the head of its queue, as in other
brokers: what is behind a message that still has time waits its turn, past its own time, and counts as stored until then. What a
receiver holds does not expire; if it comes back too late, it does then.
"""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final

from actors.queue.operations.dead_letters import comes_round, hand_over
from actors.queue.state.entries import TOO_LATE
from actors.queue.state.leveled_ready import LeveledReady
from actors.queue.structures.deadlines import US_PER_SECOND
from actors.queue.structures.ranges import merged
from actors.queue.vocabulary.budgets import EXPIRY_BUDGET
from actors.queue.vocabulary.events import MessagesExpired

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.queue.state.core import QueueCore
    from actors.queue.state.entries import Entry, Span
    from actors.queue.structures.ranges import Range


ALREADY: Final = 0.0
"""Before anything on the clock of deadlines."""


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
    expires = _expires(core, span)
    if expires is None or expires > now:
        return span
    ready = core.ready
    first = partial(ready.first, minimum) if below is None else partial(ready.first_below, minimum, below)
    return _drop_expired(core, now, first)


def next_expiry(core: QueueCore) -> float | None:
    """When the message that is next expires, or of a queue with levels the first that is next in one; None if none does, or can leave."""
    if not core.ttl_below or core.judging is not None or core.parcels:
        return None
    if _has_dead_letter_queue(core) and core.outbox.waiting:
        return None
    ready = core.ready
    if isinstance(ready, LeveledReady):
        found = [_expiry(core, ready.head(number)) for number in ready.heads()]
        return min((each for each in found if each is not None), default=None)
    return _expiry(core, ready.first())


def _expiry(core: QueueCore, span: Span | None) -> float | None:
    if span is None or (core.settings.exclusive and core.ready.skips(span)):
        return None
    expires = _expires(core, span)
    return None if expires == inf else expires


def is_at_hand(core: QueueCore, entry: Entry) -> bool:
    """Whether the messages of a large entry can be had; where they cannot, nothing leaves until whoever reads them says so."""
    if entry.at_hand():
        return True
    core.ring.reading = True
    return False


def _expires(core: QueueCore, span: Span) -> float | None:
    """When a span expires, on the clock of deadlines."""
    if span.start >= core.ttl_below:
        return None
    if span.entry.large and not (span.entry.known or is_at_hand(core, span.entry)):
        # That is known when it is read.
        return inf
    entry = span.entry.read()
    if entry.ttl_us is None:
        return None
    if entry.ttl_us == 0:
        # Whatever the clocks say, that of the loop has whole milliseconds: once nobody wanted it as it came its time is over.
        return None if span.start >= core.arrived_from and not span.deliveries else ALREADY
    return (core.clocks.instant_us(entry.first, entry.enqueued_us) + entry.ttl_us) / US_PER_SECOND


def expire_heads(core: QueueCore, now: float) -> None:
    """Drop what is expired at the head of the queue, or of each level of it."""
    next_ready(core, now)
    ready = core.ready
    if not isinstance(ready, LeveledReady) or core.judging is not None:
        return
    for number in ready.heads():
        span = ready.head(number)
        if core.unfinished_at is not None:
            return
        if span is None or (core.settings.exclusive and ready.skips(span)):
            continue
        expires = _expires(core, span)
        if expires is not None and expires <= now:
            _drop_expired(core, now, partial(ready.head, number))


def _drop_expired(core: QueueCore, now: float, first: Callable[[], Span | None]) -> Span | None:
    """Drop spans that are expired, as ``first`` gives them, until one is not, which is returned."""
    ready = core.ready
    gone: list[Range] = []
    found: Span | None = None
    moves = _has_dead_letter_queue(core)
    for _ in range(EXPIRY_BUDGET):
        span = first()
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
        if moves and not comes_round(span, core.name):
            span.reason = TOO_LATE
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
    """Whether what expires goes to another queue: only where one is named, or an exchange, since dropping is what a time to live is for."""
    return core.settings.dead_letters_named
