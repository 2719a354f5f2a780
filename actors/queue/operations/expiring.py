"""When a message that would be next expires, and what becomes of it then: it is dropped, or leaves for where dead letters go."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from actors.queue.operations.dead_letters import comes_round, hand_over
from actors.queue.operations.passing_on import PASS_BUDGET
from actors.queue.state.entries import TOO_LATE
from actors.queue.structures.deadlines import US_PER_SECOND
from actors.queue.structures.ranges import merged
from actors.queue.vocabulary.events import MessagesExpired

if TYPE_CHECKING:
    from actors.queue.state.core import QueueCore
    from actors.queue.state.entries import Entry, Span
    from actors.queue.structures.ranges import Range

ALREADY: Final = 0.0
"""Before anything on the clock of deadlines."""
NOT_READ: Final = inf
"""Behind anything: it is looked at again when it is known."""


def is_at_hand(core: QueueCore, entry: Entry) -> bool:
    """Whether the messages of a large entry can be had; where they cannot, nothing leaves until whoever reads them says so."""
    if entry.at_hand():
        return True
    core.ring.reading = True
    return False


def expires_at(core: QueueCore, span: Span) -> float | None:
    """When a span expires, on the clock of deadlines; None for never, and `NOT_READ` where that is to be read first."""
    if span.start >= core.ttl_below:
        return None
    if span.entry.large and not (span.entry.known or is_at_hand(core, span.entry)):
        return NOT_READ
    entry = span.entry.read()
    if entry.ttl_us is None:
        return None
    if entry.ttl_us == 0:
        # Whatever the clocks say, that of the loop has whole milliseconds: once nobody wanted it as it came its time is over.
        return None if span.start >= core.arrived_from and not span.deliveries else ALREADY
    return (core.clocks.instant_us(entry.first, entry.enqueued_us) + entry.ttl_us) / US_PER_SECOND


class Expiring:
    """What is dropped in one go, of which one record is made."""

    __slots__ = ("_core", "_gone", "_left", "_moves", "_now")

    def __init__(self, core: QueueCore, now: float) -> None:
        self._core = core
        self._now = now
        # Only where a place is named, or an exchange, since dropping is what a time to live is for.
        self._moves = core.settings.dead_letters_named
        self._gone: list[Range] = []
        self._left = PASS_BUDGET

    @property
    def is_held_up(self) -> bool:
        """Whether those before it have not left yet: the rest stays where it takes no memory."""
        return self._moves and bool(self._core.outbox.waiting)

    def take(self, span: Span) -> bool:
        """Have a span go that has expired, which what is ready has just given; returns whether others may go in this turn."""
        core = self._core
        span = core.ready.take(span, span.stop - span.start)
        if self._moves and not comes_round(span, core.name):
            span.reason = TOO_LATE
            core.outbox.add(span)
            self._left -= hand_over(core, self._now)
        else:
            self._gone.append((span.start, span.stop))
        return self._left > 0

    def finish(self) -> None:
        """Make the record of what is dropped, if anything is."""
        if self._gone:
            self._core.commit(MessagesExpired(merged(sorted(self._gone))))
            self._core.grant()
