"""Things with a deadline, the earliest first, and cheap to forget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count, islice
from typing import Generic, Protocol, TypeVar

MIN_COMPACTED = 64
"""Below so many items a heap is not worth rebuilding."""


class HasDeadline(Protocol):
    """What a heap of deadlines holds; ``deadline`` and ``heap`` are the heap's, and None while no heap has it."""

    deadline: float | None
    heap: object | None


T = TypeVar("T", bound=HasDeadline)
D = TypeVar("D")


class DeadlineHeap(Generic[T]):
    """A heap with lazy deletion: what is forgotten stays until it comes up or until half of the heap is like it.

    So a heap is at most twice as large as what is in it, or ``MIN_COMPACTED``, and each operation costs O(log n) over
    time. An item is in one heap at most, but may go from one to another, to be due there at the very time at which it was due
    here: so it knows which heap has it, and a place that it left is told from one that it has.

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

    @property
    def slots(self) -> int:
        """How many places the heap takes, with those of what is forgotten."""
        return len(self._heap)

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
