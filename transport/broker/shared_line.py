"""A line that many stand in, of whom some bring a great deal: those who bring it take turns, and none of them fills it."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedLine(Generic[T]):
    """What waits, of several who wait, with so many places in all.

    Each turn is of the next who has something there, whatever the others have. In a full line the last of whoever has the most makes room
    for one who has less. What goes first is in a line of its own, before all others, and without a bound: the caller has it.

    Args:
        places: how many may wait; of those that go first, any number.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._first: deque[T] = deque()
        self._of: OrderedDict[str, deque[T]] = OrderedDict()
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting + len(self._first)

    def go_first(self, item: T) -> None:
        """Stand before all that do not."""
        self._first.append(item)

    def join(self, whose: str, item: T) -> T | None:
        """Stand in line behind what is there of ``whose``; returns what finds no place: None, another's item, or this one."""
        out: T | None = None
        if self._waiting >= self._places:
            own = len(self._of.get(whose, ()))
            most = max(self._of, key=lambda each: len(self._of[each]), default=None)
            if most is None or len(self._of[most]) <= own + 1:
                # It would have as many as that one then.
                return item
            out = self._of[most].pop()
            self._waiting -= 1
        self._of.setdefault(whose, deque()).append(item)
        self._waiting += 1
        return out

    def take(self) -> T | None:
        """Whose turn it is; None where nothing waits."""
        if self._first:
            return self._first.popleft()
        if not self._of:
            return None
        whose, items = self._of.popitem(last=False)
        item = items.popleft()
        self._waiting -= 1
        if items:
            self._of[whose] = items
        return item
