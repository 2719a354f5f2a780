"""Deadlines on a clock that nobody sets, and the ages of messages by that clock.

A message carries the time of day at which it was stored, because that means something to people and after a restart. A time of day can
be set forward and back, though, and that must expire nothing and freeze nothing. So ages are measured on the clock of deadlines, which
never goes back. All that is kept is how the time of day related to it when messages were stored. That is one number, and another for each
time that it was set since.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count, islice
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

US_PER_SECOND = 1_000_000


def time_of_day_us(wall_clock: Callable[[], float]) -> int:
    """The time of day of a clock that gives seconds since the epoch; the wire has none before 1970, whatever the clock was set to."""
    return max(0, int(wall_clock() * US_PER_SECOND))


def both_clocks(loop: AbstractEventLoop, wall_clock: Callable[[], float]) -> tuple[float, int]:
    """Now, in seconds on the clock of deadlines, and the time of day, in microseconds since the epoch."""
    # The time of day first: a pause between the two has things be due that much late, and never before their time.
    wall_us = time_of_day_us(wall_clock)
    return loop.time(), wall_us


def microseconds(seconds: float) -> int:
    """A time as events have it, not made nothing by rounding."""
    return max(1, round(seconds * US_PER_SECOND)) if seconds else 0


CLOCK_TOLERANCE_US = 10_000
"""Microseconds by which the time of day may move against the other clock before that is noted: reading both takes a moment, and network
time corrects a little all the time."""
MAX_CLOCK_CHANGES = 64
"""Changes of the time of day that are told apart for the messages that are stored; of more, the two nearest are taken as one."""


class Clocks:
    """How the times of day on messages relate to the clock of deadlines.

    Args:
        now: the time of the start, seconds on the clock of deadlines.
        wall_us: the time of day then, microseconds since the epoch.
        before: messages with lower numbers were stored before the start. What the time of day did in between nobody knows: their age is
            what it says, and 0 where it says that they are of the future.

    Attributes:
        merged: how often two changes came to be one: what is said of messages that are stored may be another then.
    """

    __slots__ = ("_before", "_firsts", "_offsets", "_start_us", "merged")

    def __init__(self, now: float, wall_us: int, before: int) -> None:
        self._start_us = round(now * US_PER_SECOND)
        self._before = before
        self.merged = 0
        # The time of day less the clock of deadlines, and the first message for which it was so much.
        self._offsets = [wall_us - self._start_us]
        self._firsts = [0]

    def mark(self, first: int, now: float, wall_us: int, oldest: int) -> None:
        """Note how the clocks relate as messages from ``first`` on are stored; ``oldest`` is the lowest number that still is."""
        offset = wall_us - round(now * US_PER_SECOND)
        if abs(offset - self._offsets[-1]) <= CLOCK_TOLERANCE_US:
            return
        firsts, offsets = self._firsts, self._offsets
        if firsts[-1] == first:
            offsets[-1] = offset
            return
        firsts.append(first)
        offsets.append(offset)
        while firsts[1:] and firsts[1] <= oldest:
            del firsts[0], offsets[0]
        if len(firsts) > MAX_CLOCK_CHANGES:
            # The newest stays, for it is what the next messages are measured by.
            nearest = min(range(1, len(offsets) - 1), key=lambda index: abs(offsets[index] - offsets[index - 1]))
            del firsts[nearest], offsets[nearest]
            self.merged += 1

    def instant_us(self, sequence: int, enqueued_us: int) -> int:
        """When a message with the time of day ``enqueued_us`` was stored, microseconds on the clock of deadlines."""
        instant = enqueued_us - self._offset(sequence)
        return min(instant, self._start_us) if sequence < self._before else instant

    def due(self, sequence: int, time_us: int) -> float:
        """When it is the time of day ``time_us``, as a message stored with it meant it, seconds on the clock of deadlines."""
        return (time_us - self._offset(sequence)) / US_PER_SECOND

    def time_us(self, instant: float) -> int:
        """The time of day at an instant of the clock of deadlines, by the last of the differences that are known."""
        return max(0, round(instant * US_PER_SECOND) + self._offsets[-1])

    def instant_of(self, time_us: int) -> float:
        """The reverse of `time_us`."""
        return (time_us - self._offsets[-1]) / US_PER_SECOND

    def _offset(self, sequence: int) -> int:
        return self._offsets[max(0, bisect_right(self._firsts, sequence) - 1)]


MIN_COMPACTED = 64
"""Below so many items a heap is not worth rebuilding."""


class HasDeadline(Protocol):
    """What a heap of deadlines holds; ``deadline`` and ``heap`` are the heap's, and None while no heap has it."""

    deadline: float | None
    heap: object | None


class Due(Protocol):
    """What knows when something is to be done: a heap of deadlines, mostly."""

    @property
    def live(self) -> int:
        """Whether there is anything."""

    def earliest(self) -> float | None:
        """When the first of it is."""


T = TypeVar("T", bound=HasDeadline)
D = TypeVar("D")


class DeadlineHeap(Generic[T]):
    """A heap with lazy deletion: what is forgotten stays until it comes up or until half of the heap is like it.

    So a heap is at most twice as large as what is in it, or ``MIN_COMPACTED``, and each operation costs O(log n) over
    time. An item is in one heap at most. It may go from one to another, and be due there at the very time at which it was due here. So it
    knows which heap has it, and a place that it left is told from one that it has.

    Attributes:
        live: how many items are in it.
    """

    __slots__ = ("_heap", "_ticket", "live")

    def __init__(self) -> None:
        # The ticket keeps items from being compared. It is also what an item knows of its heap: with the heap itself neither were free
        # before the collector comes by, nor the messages behind them.
        self._heap: list[tuple[float, int, T]] = []
        self.live = 0
        self._ticket = count()

    def __len__(self) -> int:
        return self.live

    def push(self, item: T, deadline: float) -> None:
        """Add an item that is in no heap."""
        item.deadline = deadline
        item.heap = self._ticket
        heappush(self._heap, (deadline, next(self._ticket), item))
        self.live += 1

    def forget(self, item: T) -> None:
        """Take an item out; it is in this heap."""
        item.deadline = item.heap = None
        self.live -= 1
        if not self.live:
            self._heap.clear()
        elif len(self._heap) > MIN_COMPACTED and len(self._heap) > 2 * self.live:
            self._heap = [slot for slot in self._heap if slot[2].deadline == slot[0] and slot[2].heap is self._ticket]
            heapify(self._heap)

    def earliest(self) -> float | None:
        """The next deadline."""
        heap = self._heap
        while heap:
            deadline, _, item = heap[0]
            if item.deadline == deadline and item.heap is self._ticket:
                return deadline
            heappop(heap)
        return None

    def pop_due(self, now: float) -> T | None:
        """Take out the earliest item if its deadline is not after ``now``."""
        deadline = self.earliest()
        if deadline is None or deadline > now:
            return None
        item = heappop(self._heap)[2]
        item.deadline = item.heap = None
        self.live -= 1
        return item


def each_due(pop: Callable[[float], D | None], now: float, most: int) -> Iterator[D]:
    """What ``pop`` takes out that is due, one after another, and no more than ``most``."""
    return islice(iter(lambda: pop(now), None), most)
