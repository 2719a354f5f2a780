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
        # All below the first are dealt with, and of those behind it what was dealt with before its turn. Mostly there is none of these.
        self._next = 1
        self._ahead = RangeSet()
        # Stored and not told: numbers in a row, and others.
        self._row = 0, 0
        self._stored = RangeSet()
        self._rejected: list[Range] = []

    def __len__(self) -> int:
        """How many ranges of numbers are kept."""
        return len(self._ahead) + len(self._stored)

    @property
    def owed(self) -> bool:
        """Whether a publish is not answered."""
        return self._next <= self.last or self._row[0] < self._row[1] or bool(self._stored) or bool(self._rejected)

    def number(self, count: int) -> int:
        """So many more are published; the number of the first."""
        first = self.last + 1
        self.last += count
        return first

    def settle(self, first: int, count: int, *, stored: bool) -> None:
        """So many from ``first`` on are stored, or rejected."""
        stop = first + count
        if first != self._next:
            self._ahead.add(first, stop)
        else:
            self._next = stop
            if self._ahead:
                start, end = next(iter(self._ahead))
                if start == stop:
                    self._ahead.remove(start, end)
                    self._next = end
        if not stored:
            self._rejected.append((first, stop))
        elif self._row[1] == first:
            self._row = self._row[0], stop
        elif self._row[0] == self._row[1]:
            self._row = first, stop
        else:
            self._stored.add(first, stop)

    def answers(self) -> list[Answer]:
        """What to tell now, in this order; it is asked for once for all that came of one turn."""
        told = [
            Answer(tag, multiple=False, stored=False) for start, stop in self._rejected for tag in range(start, stop)
        ]
        self._rejected.clear()
        (start, stop), self._row = self._row, (0, 0)
        if not self._stored and start < stop <= self._next:
            # What mostly is: all in its turn.
            told.append(Answer(stop - 1, multiple=stop - start > 1, stored=True))
            return told
        if start < stop:
            self._stored.add(start, stop)
        below = self._stored.remove(0, self._next)
        if below:
            tag = below[-1][1] - 1
            told.append(Answer(tag, multiple=len(below) > 1 or below[0][1] - below[0][0] > 1, stored=True))
        for first, end in list(self._stored):
            told += [Answer(tag, multiple=False, stored=True) for tag in range(first, end)]
        self._stored = RangeSet()
        return told
