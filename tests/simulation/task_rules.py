"""What a queue was declared to do with tasks: levels, limits that drop, failures that count, and long delays."""

from __future__ import annotations

from dataclasses import dataclass

from actors import QueueSettings

LARGEST_ALTERED = 4
"""The largest limit of failures that those who alter queues give them."""
LEAST_ROOM = 8
"""The smallest limit of messages that they give them."""
LEAST_JITTER, MOST_JITTER = 0.8, 1.2
"""Of a wait between two tries, what is left of it at least, and what becomes of it at most."""


@dataclass(frozen=True, slots=True)
class TaskRules:
    """As far as it shows.

    Attributes:
        max_priority: the highest level; None for a queue without levels.
        drops_head: whether the oldest of what is ready make room.
        room: messages that may be ready then; None where that is not what bounds it, or somebody alters it.
        refused_die: whether what is refused for want of room is a dead letter.
        buries: whether what it drops is a dead letter.
        max_failures: with so many a message is not delivered again; None for no limit.
        least_failures: the least that this may have been altered to.
        drops_failed: whether those are dropped then.
        retry_delay: seconds until what has failed once comes again.
        retry_max_delay: seconds to which that grows.
        dead_of: the queue whose dead letters it has; None for another queue.
    """

    max_priority: int | None = None
    drops_head: bool = False
    room: int | None = None
    refused_die: bool = False
    buries: bool = False
    max_failures: int | None = None
    least_failures: int = 1
    drops_failed: bool = False
    retry_delay: float = 0.0
    retry_max_delay: float = 0.0
    dead_of: str | None = None

    @property
    def counts_failures(self) -> bool:
        """Whether each failure of a message is counted."""
        return self.max_failures is not None or self.retry_delay > 0

    @property
    def vanishes(self) -> bool:
        """Whether messages may be gone for good that nobody has acknowledged, and of which there is only a count."""
        return (self.drops_head and not self.buries) or self.drops_failed

    def level(self, priority: int) -> int:
        """The level of a priority."""
        return min(priority, self.max_priority or 0)

    def wait(self, failures: int) -> float:
        """Seconds that a message waits at least which has failed so often."""
        return LEAST_JITTER * self._wait(failures)

    def longest_wait(self, failures: int) -> float:
        """Seconds that it waits at most."""
        return MOST_JITTER * self._wait(failures)

    def _wait(self, failures: int) -> float:
        if self.retry_delay <= 0:
            return 0.0
        most = max(self.retry_delay, self.retry_max_delay)
        return min(most, self.retry_delay * 2.0 ** (failures - 1))


def task_rules(settings: QueueSettings, altered: bool, dead_of: str | None = None) -> TaskRules:
    """What a queue with these settings is held to; somebody changes its limits now and then if it is ``altered``."""
    most = settings.max_receives
    return TaskRules(
        max_priority=settings.max_priority,
        drops_head=settings.overflow == "drop-head",
        room=settings.max_messages if settings.max_bytes is None and not altered else None,
        refused_die=settings.overflow == "reject-dead-letter",
        buries=settings.dead_letters_named,
        max_failures=most if most is None or not altered else max(most, LARGEST_ALTERED),
        least_failures=1 if altered or most is None else most,
        drops_failed=settings.drop_failed,
        retry_delay=settings.retry_delay,
        retry_max_delay=settings.retry_max_delay,
        dead_of=dead_of,
    )
