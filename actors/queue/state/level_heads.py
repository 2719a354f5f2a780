"""When the head of each level of a queue expires: looked up again where it is another head, and not for each question.

A queue with levels has up to 256 heads, and after each command it is asked which of them expires first. A command changes a head or two.
So what is ready notes whose head may be another, and the others' times stay as they were found.
"""

from __future__ import annotations

from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Final

from actors.limits import MAX_PRIORITY
from actors.queue.structures.minima import Minima

if TYPE_CHECKING:
    from collections.abc import Iterator

READ_AT_ONCE: Final = 4
"""Heads that are asked for at a time where batches have to be read for when they expire, and are so large that this is done beside."""


class LevelHeads:
    """See the module's docstring.

    Attributes:
        changed: the levels whose heads are to be looked up, or may have come to be others.
    """

    __slots__ = ("_arrived_from", "_clock_changes", "_dues", "_new", "_unread", "changed")

    def __init__(self) -> None:
        self.changed: set[int] = set()
        self._dues: Minima | None = None
        # Heads that have no time to live and have just come; and such as have to be read to know it.
        self._new: set[int] = set()
        self._unread: set[int] = set()
        self._arrived_from = self._clock_changes = 0

    def are_known(self, arrived_from: int, clock_changes: int, *, reading: bool) -> bool:
        """Whether none is to be looked up.

        Args:
            arrived_from: as of the queue's; what had just come has not any more when it is another.
            clock_changes: how often what the clocks say of messages that are stored has changed.
            reading: whether the queue waits for a large batch to be read already.
        """
        if arrived_from != self._arrived_from:
            self._arrived_from = arrived_from
            self.changed |= self._new
        if clock_changes != self._clock_changes:
            self._clock_changes = clock_changes
            self.changed.update(range(MAX_PRIORITY + 1))
        if self._unread and not reading:
            self.changed.update(islice(self._unread, READ_AT_ONCE))
        return not self.changed

    def to_look_up(self) -> Iterator[int]:
        """The levels whose heads are to be looked up; of each `note` or one of the others is to be told."""
        while self.changed:
            number = self.changed.pop()
            self._new.discard(number)
            self._unread.discard(number)
            yield number

    def note(self, level: int, due: float) -> None:
        """The head of a level expires then; ``inf`` where there is none, or it never does."""
        if self._dues is None:
            self._dues = Minima(MAX_PRIORITY + 1)
        self._dues.set(level, due)

    def note_new(self, level: int) -> None:
        """The head of a level expires when those have had it who waited for it."""
        self._new.add(level)
        self.note(level, inf)

    def note_unread(self, level: int) -> None:
        """It is known when it is read."""
        self._unread.add(level)
        self.note(level, inf)

    def first_due(self, floor: int) -> float:
        """When the first of the heads from a level on expires; ``inf`` for never."""
        return inf if self._dues is None else self._dues.least(floor)

    def highest_due(self, floor: int, now: float) -> int | None:
        """The highest level, from ``floor`` on, whose head has expired."""
        level = None if self._dues is None else self._dues.last_within(now)
        return None if level is None or level < floor else level
