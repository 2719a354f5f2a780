"""Publisher confirms: what a channel's client is told of what it has published (RabbitMQ's extension: ``confirm.select``).

Publishes are numbered from one on. What is stored in its queues is acknowledged, what a queue rejects is not
(``basic.nack``). Where everything up to a number is dealt with, one answer says so.
"""

from __future__ import annotations

from typing import NamedTuple

from actors.queue.structures.ranges import Range, RangeSet


class Answer(NamedTuple):
    """``basic.ack``, or ``basic.nack`` where ``stored`` is false; with ``multiple`` it answers for all before it too."""

    tag: int
    multiple: bool
    stored: bool


class Confirms:
    """One channel's.

    Attributes:
        last: the number of the last publish; 0 before the first.
    """

    def __init__(self) -> None:
        self.last = 0
        self._open = RangeSet()
        self._stored = RangeSet()
        self._rejected: list[Range] = []

    def __len__(self) -> int:
        """How many ranges of numbers are kept."""
        return len(self._open) + len(self._stored)

    @property
    def owed(self) -> bool:
        """Whether a publish is not answered."""
        return bool(self._open) or bool(self._stored) or bool(self._rejected)

    def number(self, count: int) -> int:
        """So many more are published; the number of the first."""
        first = self.last + 1
        self.last += count
        self._open.add(first, first + count)
        return first

    def settle(self, first: int, count: int, *, stored: bool) -> None:
        """So many from ``first`` on are stored, or rejected."""
        self._open.remove(first, first + count)
        if stored:
            self._stored.add(first, first + count)
        else:
            self._rejected.append((first, first + count))

    def answers(self) -> list[Answer]:
        """What to tell now, in this order; it is asked for once for all that came of one turn."""
        told = [
            Answer(tag, multiple=False, stored=False) for start, stop in self._rejected for tag in range(start, stop)
        ]
        self._rejected.clear()
        # All below this is dealt with.
        low = next(iter(self._open))[0] if self._open else self.last + 1
        below = self._stored.remove(0, low)
        if below:
            tag = below[-1][1] - 1
            told.append(Answer(tag, multiple=len(below) > 1 or below[0][1] - below[0][0] > 1, stored=True))
        for start, stop in list(self._stored):
            told += [Answer(tag, multiple=False, stored=True) for tag in range(start, stop)]
        self._stored = RangeSet()
        return told
