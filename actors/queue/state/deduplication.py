"""What a queue that deduplicates does beside its log: whether ids count, how they hold senders back, and when they are forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.queue.state.accepted_ids import AcceptedIds
from actors.queue.structures.deadlines import microseconds

if TYPE_CHECKING:
    from actors.queue.state.capacity import Capacity
    from actors.queue.state.log import QueueLog
    from actors.queue.structures.deadlines import Clocks, Due
    from actors.queue.vocabulary.settings import QueueSettings

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
        if self._accepted.is_behind:
            # The rest of it, in the next turn.
            return self.looked_at
        pause = SOON_SECONDS if self._capacity.waiting else REST_SECONDS
        return max(self._clocks.instant_of(oldest_us), self.looked_at + pause)


def deduplicate(
    heaps: tuple[Due, ...], log: QueueLog, settings: QueueSettings, clocks: Clocks, capacity: Capacity, now: float
) -> tuple[Due, ...]:
    """Have ids count in a queue, or not, as its settings say; those that are remembered are for as long as was said when they came.

    Returns:
        ``heaps``, which are the queue's, with what knows when ids are due where they count, and without it where they do not.
    """
    if settings.deduplication_window is None and log.accepted is None:
        return heaps
    others = tuple(heap for heap in heaps if not isinstance(heap, IdsDue))
    if settings.deduplication_window is None:
        log.accepted = None
        return others
    accepted = log.accepted = AcceptedIds() if log.accepted is None else log.accepted
    accepted.window_us, accepted.limit = microseconds(settings.deduplication_window), settings.max_deduplication_ids
    accepted.coming.clear()
    accepted.forget(clocks.time_us(now))
    return (*others, IdsDue(accepted, clocks, capacity, now))


def limit_with_ids(settings: QueueSettings, most: int | None) -> int | None:
    """By how many messages it is measured what senders may be granted, where a queue stores ``most`` (None: any number) at most."""
    if settings.deduplication_window is None:
        return most
    return settings.max_deduplication_ids if most is None else min(most, settings.max_deduplication_ids)


def taken_with_ids(accepted: AcceptedIds, most: int | None, messages: int, incoming: int) -> int:
    """How much of `limit_with_ids` counts as taken: that limit less the room for messages, or less that for ids where this is smaller.

    Args:
        accepted: the ids.
        most: messages that the queue stores at most; None for any number.
        messages: what is stored, or accepted.
        incoming: of these what is accepted only: each may have an id.
    """
    room, limit = accepted.room - incoming, accepted.limit
    return limit - room if most is None else min(most, limit) - min(room, most - messages)


def held_by_ids(accepted: AcceptedIds, most: int | None, messages: int) -> bool:
    """Whether there is less room for ids than for messages."""
    return most is None or accepted.room < most - messages
