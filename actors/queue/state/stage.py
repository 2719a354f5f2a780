"""What one stage holds back: messages that have their numbers and are stored, and that nobody can receive yet."""

from __future__ import annotations

from actors.queue.structures.ranges import RangeSet


class Stage:
    """The messages of one stage in one queue, as whole batches.

    Attributes:
        ranges: their numbers.
        messages: how many there are.
        batches: how many batches they were stored in.
        bytes: what these count for towards a limit, each with the table's overhead.
        delayed: batches that can be received only later, whenever they are published: first number to the number after the last and
            microseconds since the epoch.
    """

    __slots__ = ("batches", "bytes", "delayed", "messages", "ranges")

    def __init__(self) -> None:
        self.ranges = RangeSet()
        self.messages = 0
        self.batches = 0
        self.bytes = 0
        self.delayed: dict[int, tuple[int, int]] = {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stage):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"Stage({list(self.ranges)}, bytes={self.bytes})"

    @property
    def first(self) -> int:
        """The lowest of its numbers."""
        return next(iter(self.ranges))[0]

    def add(self, start: int, stop: int, size: int) -> None:
        """Take in a batch of ``size`` bytes."""
        self.ranges.add(start, stop)
        self.messages += stop - start
        self.batches += 1
        self.bytes += size
