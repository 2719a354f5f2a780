"""The way back of messages that were delivered and not acknowledged: ready again, or worn out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue_state.events import MessagesReturned
from actors.queue_state.limbo import hand_over, is_worn_out

if TYPE_CHECKING:
    from actors.queue_state.core import QueueCore
    from actors.queue_state.entry import Span


def give_back(core: QueueCore, spans: list[Span], now: float, delay: float = 0.0, failed: bool = True) -> None:
    """Make spans receivable again, after ``delay`` seconds; those that failed ``max_receives`` times leave for the dead-letter queue.

    What comes back has failed unless its receiver says that nobody tried to handle it. So it counts if the receiver went away before
    it said anything: that may be what the message did to it.
    """
    if not spans:
        return
    counts = core.settings.max_receives is not None
    if failed:
        for span in spans:
            span.failures += 1
        if counts:
            remember(core, [(span.start, span.stop, span.failures) for span in spans])
    for span in spans:
        span.replayed = True
        if counts and is_worn_out(core, span.failures):
            core.limbo.add(span)
        elif delay > 0:
            core.ready.delay(span, now + delay)
        else:
            core.ready.put_back(span)
    if counts:
        hand_over(core, now)


def remember(core: QueueCore, returns: list[tuple[int, int, int]]) -> None:
    """Have it survive a restart how often ranges have failed."""
    joined: list[tuple[int, int, int]] = []
    for start, stop, failures in sorted(returns):
        if joined and joined[-1][1:] == (start, failures):
            joined[-1] = (joined[-1][0], stop, failures)
        else:
            joined.append((start, stop, failures))
    core.commit(MessagesReturned(tuple(joined)))
