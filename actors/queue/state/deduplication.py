"""What a queue that deduplicates does beside its log: whether ids count, how they hold senders back, and when they are forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.queue.state.accepted_ids import AcceptedIds
from actors.queue.structures.deadlines import microseconds

if TYPE_CHECKING:
    from actors.queue.state.capacity import Capacity
    from actors.queue.state.core import QueueCore
    from actors.queue.structures.deadlines import Clocks

SOON_SECONDS: Final = 0.05
"""How often ids are forgotten while somebody waits for that: not for each of thousands that come to it one by one."""
REST_SECONDS: Final = 1.0
"""And how often while nobody does."""


class IdsDue:
    """When the queue is to look for ids that it may forget. It is among the heaps of what is due.

    Args:
        accepted: the ids.
        clocks: of the queue.
        capacity: of its senders.

    Attributes:
        looked_at: when it has looked, seconds on the clock of deadlines.
    """

    __slots__ = ("_accepted", "_capacity", "_clocks", "looked_at")

    def __init__(self, accepted: AcceptedIds, clocks: Clocks, capacity: Capacity, now: float) -> None:
        self._accepted = accepted
        self._clocks = clocks
        self._capacity = capacity
        self.looked_at = now

    @property
    def live(self) -> int:
        """How many ids there are."""
        return len(self._accepted)

    def earliest(self) -> float | None:
        """When the first is due, but not at once again."""
        oldest_us = self._accepted.oldest_us
        if oldest_us is None:
            return None
        pause = SOON_SECONDS if self._capacity.waiting else REST_SECONDS
        return max(self._clocks.instant_of(oldest_us), self.looked_at + pause)


def deduplicate(core: QueueCore, now: float) -> None:
    """Have ids count, or not, as the queue's settings say; those that are remembered are for as long as was said when they came."""
    window, log = core.settings.deduplication_window, core.log
    due: tuple[IdsDue, ...] = ()
    if window is None:
        log.accepted = None
    else:
        accepted = log.accepted = AcceptedIds() if log.accepted is None else log.accepted
        accepted.window_us, accepted.limit = microseconds(window), core.settings.max_deduplication_ids
        accepted.forget(core.clocks.time_us(now))
        due = (IdsDue(accepted, core.clocks, core.capacity, now),)
    if due or any(isinstance(heap, IdsDue) for heap in core.heaps):
        core.heaps = (*(heap for heap in core.heaps if not isinstance(heap, IdsDue)), *due)


def forget_ids(core: QueueCore, now: float) -> None:
    """Forget the ids whose window is over, and have those who wait for that go on."""
    if core.log.accepted is None:
        return
    core.log.accepted.forget(core.clocks.time_us(now))
    for heap in core.heaps:
        if isinstance(heap, IdsDue):
            heap.looked_at = now
    core.grant()


def taken(core: QueueCore) -> tuple[int, int]:
    """Messages and bytes by which it is judged what senders may be granted: what is stored or accepted; more where ids leave less room."""
    log = core.log
    messages, size = log.stored_messages + core.incoming_messages, log.stored_bytes + core.incoming_bytes
    return (messages if log.accepted is None else with_ids(core, log.accepted, messages)), size


def with_ids(core: QueueCore, accepted: AcceptedIds, messages: int) -> int:
    """As many messages as leave no more room than there is for their ids, where ``messages`` leave more."""
    most = core.settings.max_messages
    if most is None or core.drops:
        # What ids take is all that there is a limit of.
        return len(accepted) + core.incoming_messages
    return max(messages, most - accepted.room + core.incoming_messages)
