"""What waits to be tried again: how long, and what a restart has to know of it.

A delay grows with each failure, and differs a little from message to message, so that what has failed together does not come back
together. What makes it differ is the message's number: a queue that begins anew, or is told the same again, comes to the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from actors.limits import MAX_VISIBILITY_SECONDS
from actors.queue.structures.spans import SpanMap
from actors.queue.vocabulary.settings import MAX_DELAYED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.queue.vocabulary.settings import QueueSettings

RETRY_FACTOR: Final = 2
"""By which the delay grows with each failure."""
RETRY_JITTER: Final = 0.2
"""The share of a delay by which it may be longer or shorter."""
_SPREAD, _SPREAD_AGAIN = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F
"""Odd numbers whose multiples are far apart in 64 bits: those of numbers in a row are spread evenly."""
_HALF = 1 << 63


def retry_delay(settings: QueueSettings, failures: int, number: int) -> float:
    """Seconds until what has failed so often can be received again; 0 for at once.

    Args:
        settings: the queue's.
        failures: one or more.
        number: of the first message that waits so long.
    """
    first = settings.retry_delay
    if first <= 0:
        return 0.0
    most = max(first, settings.retry_max_delay)
    delay = first
    for _ in range(failures - 1):
        if delay >= most:
            break
        delay *= RETRY_FACTOR
    return min(min(delay, most) * (1 + RETRY_JITTER * _spread(number, failures)), MAX_VISIBILITY_SECONDS)


def _spread(number: int, failures: int) -> float:
    """A number from -1 to 1 that looks random."""
    return ((number * _SPREAD + failures * _SPREAD_AGAIN) % (2 * _HALF)) / _HALF - 1


@dataclass(eq=False, slots=True)
class Retry:
    """Messages ``start`` <= n < ``stop`` that wait.

    Attributes:
        due_us: until when, microseconds since the epoch.
        delay_us: for how long they were to, at most; a time of day that went back makes it no longer.
    """

    start: int
    stop: int
    due_us: int
    delay_us: int

    def part(self, start: int, stop: int) -> Retry:
        """As of ``Spanning``."""
        return Retry(start, stop, self.due_us, self.delay_us)

    def continues(self, other: Retry) -> bool:
        """As of ``Spanning``."""
        return self.start == other.stop and self.due_us == other.due_us and self.delay_us == other.delay_us


@dataclass(eq=False, repr=False, slots=True)
class Retries:
    """All of a queue: what has failed and may not be received before its time. Whoever knows that it is over says so with ``forget``."""

    _waiting: SpanMap[Retry] = field(default_factory=SpanMap)
    # Noted since it was last looked at how many there are.
    _noted: int = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __iter__(self) -> Iterator[Retry]:
        """In the order of their numbers."""
        return iter(self._waiting)

    def rows(self) -> list[tuple[int, int, int, int]]:
        """All as they are."""
        return [(each.start, each.stop, each.due_us, each.delay_us) for each in self._waiting]

    def note(self, start: int, stop: int, due_us: int, delay_us: int) -> None:
        """The messages of a range wait until then, whatever was known of them."""
        self._waiting.cut(start, stop)
        self._waiting.join(Retry(start, stop, due_us, delay_us))
        self._noted += 1
        if self._noted > MAX_DELAYED and len(self._waiting) > 2 * MAX_DELAYED:
            self._forget_ended()

    def forget(self, start: int, stop: int) -> None:
        """The messages of a range wait no more."""
        self._waiting.cut(start, stop)

    def _forget_ended(self) -> None:
        # A replay sees them begin and not end. No more than `MAX_DELAYED` wait at a time, and those are due last.
        self._noted = 0
        last = sorted(self._waiting.clear(), key=lambda each: each.due_us)[-MAX_DELAYED:]
        for each in sorted(last, key=lambda each: each.start):
            self._waiting.insert(each)
