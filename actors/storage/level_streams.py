"""Which numbers of streams are levels of queues: a queue with levels has its own number and those that follow it."""

from __future__ import annotations

from bisect import bisect_right, insort


class LevelStreams:
    """The queues that have levels, by their numbers."""

    __slots__ = ("_highest", "_numbers")

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._highest: dict[int, int] = {}

    def add(self, number: int, levels: int) -> None:
        """A queue has so many levels above its lowest."""
        if number not in self._highest:
            insort(self._numbers, number)
        self._highest[number] = number + levels

    def remove(self, number: int) -> None:
        """A queue is gone, if it was one of them."""
        if self._highest.pop(number, None) is not None:
            self._numbers.remove(number)

    def owner(self, stream: int) -> int:
        """The number of the queue that has a stream for a level; the stream's own where none has."""
        if not self._numbers:
            return stream
        at = bisect_right(self._numbers, stream) - 1
        if at < 0:
            return stream
        number = self._numbers[at]
        return number if stream <= self._highest[number] else stream
