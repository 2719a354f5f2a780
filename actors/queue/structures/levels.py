"""Levels by priority: the highest is at hand at once, and what a change costs grows with the logarithm of how many there are."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Sized
from typing import Generic, TypeVar

L = TypeVar("L", bound=Sized)


class Levels(Generic[L]):
    """Those of which something is in each.

    Args:
        make: makes one that is empty.
    """

    __slots__ = ("_by_priority", "_make", "_order")

    def __init__(self, make: Callable[[], L]) -> None:
        self._make = make
        self._by_priority: dict[int, L] = {}
        # Ascending: the highest is the last, which comes and goes at no cost.
        self._order: list[int] = []

    def __len__(self) -> int:
        return len(self._order)

    @property
    def top(self) -> int:
        """The highest priority; there is one."""
        return self._order[-1]

    @property
    def highest(self) -> L:
        """The level with it."""
        return self._by_priority[self._order[-1]]

    def all(self) -> Collection[L]:
        """All of them, in no order."""
        return self._by_priority.values()

    def find(self, priority: int) -> L | None:
        """The level of a priority; None where nothing is in it."""
        return self._by_priority.get(priority)

    def at(self, priority: int) -> L:
        """The same, made where there is none: something is put into it at once."""
        level = self._by_priority.get(priority)
        if level is None:
            level = self._by_priority[priority] = self._make()
            insort(self._order, priority)
        return level

    def put(self, priority: int, level: L) -> None:
        """Have a level with something in it be that of a priority, which has none."""
        self._by_priority[priority] = level
        insort(self._order, priority)

    def take(self, priority: int) -> L:
        """Take out the level of a priority, which has one."""
        if self._order[-1] == priority:
            self._order.pop()
        else:
            del self._order[bisect_left(self._order, priority)]
        return self._by_priority.pop(priority)
