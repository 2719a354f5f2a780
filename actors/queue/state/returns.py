"""How often what came back has failed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.queue.structures.ranges import Range, RangeSet

if TYPE_CHECKING:
    from actors.queue.structures.ranges import FrozenRanges


@dataclass(slots=True)
class Returns:
    """Ranges of messages by how often they have failed; what is in none never did.

    A few range sets, one for each count up to the queue's ``max_receives``: what comes back together is one range.
    """

    _ranges: dict[int, RangeSet] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """Every range with its count: start, stop, failures."""
        for failures, ranges in sorted(self._ranges.items()):
            for start, stop in ranges:
                yield start, stop, failures

    def frozen(self) -> list[tuple[int, FrozenRanges]]:
        """A picture of it as it is: ranges by count."""
        return [(failures, ranges.frozen()) for failures, ranges in sorted(self._ranges.items())]

    def note(self, start: int, stop: int, failures: int) -> None:
        """The messages of a range have failed so often."""
        self.forget(start, stop)
        self._ranges.setdefault(failures, RangeSet()).add(start, stop)

    def forget(self, start: int, stop: int) -> None:
        """The messages of a range are gone."""
        for failures, ranges in list(self._ranges.items()):
            ranges.remove(start, stop)
            if not ranges:
                del self._ranges[failures]

    def within(self, start: int, stop: int) -> list[tuple[Range, int]]:
        """The parts of a range that have failed, ascending, each with its count."""
        found: list[tuple[Range, int]] = []
        for failures, ranges in self._ranges.items():
            found += [((max(start, low), min(stop, high)), failures) for low, high in ranges.meeting(start, stop)]
        return sorted(found)

    def over(self, start: int, stop: int) -> Iterator[tuple[Range, int]]:
        """All of a range in parts, ascending, each with its count: 0 for what was never given back."""
        position = start
        for (low, high), failures in self.within(start, stop):
            if position < low:
                yield (position, low), 0
            yield (low, high), failures
            position = high
        if position < stop:
            yield (position, stop), 0
