"""What a queue with priorities knows of its levels: what is done with in each, and how much of each is stored.

All levels share the queue's numbers: each message has one, and is of one level. So a level's set of numbers that are done with may run
over the numbers of the others, as if those were done with too: whoever asks it asks of numbers of this level. While high levels are
consumed and low ones wait it stays one range in each, however the numbers alternate. What is done with of the queue as a whole is asked of
``Levels``, which looks up whose numbers they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from actors.queue.state.entries import EntryTable
from actors.queue.structures.ranges import RangeSet, merged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from actors.queue.state.entries import Entry
    from actors.queue.structures.ranges import Range


class LeveledExtent(NamedTuple):
    """A stored batch of a level: its numbers ``first`` <= n < ``stop`` and its bytes."""

    level: int
    first: int
    stop: int
    size: int


class LeveledTable(EntryTable, Protocol):
    """The stored batches of a queue with levels; what it answers of a level it looks up in that level's batches alone."""

    def leveled(self, start: int, stop: int) -> Iterator[LeveledExtent]:
        """The batches with a message in a range, ascending, whatever their level; those that are gone are passed over."""

    def next_in(self, level: int, position: int) -> Entry | None:
        """The entry of a level that holds ``position``, or else its next one behind it; None where there is none."""

    def nearest(self, level: int, position: int) -> int | None:
        """The first number of the same entry."""

    def stop_before(self, level: int, first: int) -> int:
        """One more than the last number that a level has below ``first``, with which a batch of it begins; 0 where it has none."""

    def count_in(self, level: int, start: int, stop: int) -> int:
        """How many numbers of a range are of a level, of those whose batches are there."""


class Level:
    """One level of a queue.

    Attributes:
        acknowledged: the numbers of the level that nobody wants any more, and any numbers of others between them.
        stored: messages not acknowledged and not staged.
    """

    __slots__ = ("acknowledged", "stored")

    def __init__(self, acknowledged: RangeSet | None = None, stored: int = 0) -> None:
        self.acknowledged = RangeSet() if acknowledged is None else acknowledged
        self.stored = stored


class Levels:
    """Every number of a queue that nobody wants any more, as the sets of its levels have it; what it answers is exact.

    It is asked as a ``RangeSet`` is.

    Args:
        table: the queue's batches.

    Attributes:
        by_number: the levels of which there was a message, by their number.
        stop: the queue's next number.
    """

    __slots__ = ("_lowest", "_table", "by_number", "stop")

    def __init__(self, table: LeveledTable) -> None:
        self._table = table
        self.by_number: dict[int, Level] = {}
        self.stop = 0
        # What was the lowest number that is not done with, and its level; None where that is not known.
        self._lowest: tuple[int, int] | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Levels):
            return NotImplemented
        # Over whose numbers a level's set runs is not the same in two of the same events.
        return (
            self.stop == other.stop
            and self.gaps(0, self.stop) == other.gaps(0, other.stop)
            and self._counts() == other._counts()
        )

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"Levels({ {number: level.acknowledged for number, level in self.by_number.items()} })"

    def _counts(self) -> dict[int, int]:
        return {number: level.stored for number, level in self.by_number.items() if level.stored}

    def at(self, number: int) -> Level:
        """A level, which is made where there was no message of it."""
        level = self.by_number.get(number)
        if level is None:
            level = self.by_number[number] = Level()
        return level

    def restore(self, stop: int, levels: Iterable[tuple[int, RangeSet, int]]) -> None:
        """Have what a checkpoint has: of each level its number, what is done with in it, and how many messages are stored."""
        self.stop = stop
        self.by_number = {number: Level(acknowledged, stored) for number, acknowledged, stored in levels}

    def end(self, extent: LeveledExtent, start: int, stop: int) -> int:
        """Nobody wants the messages of a range any more, which are of one batch; returns how many of them somebody did."""
        done = self.at(extent.level).acknowledged
        new = stop - start - done.count_within(start, stop)
        if new:
            # What is between it and the batch before is of others, so that neighbours in the level come to be one range.
            done.add(self._table.stop_before(extent.level, extent.first) if start == extent.first else start, stop)
        return new

    def add(self, start: int, stop: int) -> int:
        """See ``RangeSet``: of whatever level the numbers are."""
        parts = list(self._table.leveled(start, stop))
        return sum(self.end(part, max(start, part.first), min(stop, part.stop)) for part in parts)

    def reach(self, position: int) -> int:
        """The lowest number from ``position`` on that is not done with; the queue's next number where all are."""
        if position >= self.stop:
            return position
        if position == 0 and self._lowest is not None:
            level, number = self._lowest
            if self.by_number[level].acknowledged.reach(number) == number:
                return number
        found = [
            (wanted, level) for level in self.by_number if (wanted := self._wanted_from(level, position)) is not None
        ]
        if not found:
            return self.stop
        lowest, level = min(found)
        if position == 0:
            self._lowest = level, lowest
        return lowest

    def _wanted_from(self, number: int, position: int) -> int | None:
        """The lowest number from ``position`` on that is of a level and not done with; None where there is none."""
        done, table = self.by_number[number].acknowledged, self._table
        while True:
            position = done.reach(position)
            if position >= self.stop:
                return None
            first = table.nearest(number, position)
            if first is None or first >= self.stop:
                return None
            if first <= position or done.reach(first) == first:
                return max(first, position)
            position = first

    def each_gap(self, start: int, stop: int) -> Iterator[Range]:
        """The parts of a range that are not done with, batch by batch."""
        for level, first, after, _ in self._table.leveled(start, min(stop, self.stop)):
            yield from self.at(level).acknowledged.gaps(max(start, first), min(stop, after))
        if stop > self.stop:
            yield max(start, self.stop), stop

    def gaps(self, start: int, stop: int) -> list[Range]:
        """The parts of a range that are not done with."""
        return list(merged(self.each_gap(start, stop))) if start < stop else []

    def meeting(self, start: int, stop: int) -> list[Range]:
        """The parts of a range that are done with."""
        parts: list[Range] = []
        position = start
        for low, high in self.gaps(start, stop):
            if position < low:
                parts.append((position, low))
            position = high
        if position < stop:
            parts.append((position, stop))
        return parts

    def count_within(self, start: int, stop: int) -> int:
        """How many numbers of a range are done with; it costs little however many batches those are."""
        end = min(stop, self.stop)
        return max(0, end - start) - sum(self.wanted_within(number, start, end) for number in self.by_number)

    def wanted_within(self, number: int, start: int, stop: int) -> int:
        """How many numbers of a range are of a level and not done with."""
        gaps = self.by_number[number].acknowledged.gaps(start, stop)
        return sum(self._table.count_in(number, low, high) for low, high in gaps)

    def wanted_about(self, number: int, start: int, stop: int) -> int:
        """The same, about: at least one where there is one, and all of them where none is done with."""
        level = self.by_number.get(number)
        wanted = stop - start if level is None else stop - start - level.acknowledged.count_within(start, stop)
        return max(1, self._table.count_in(number, start, stop) * wanted // (stop - start)) if wanted else 0
