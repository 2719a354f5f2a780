"""How often messages that came back have been delivered, for queues that count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue_state.ranges import RangeSet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.queue_state.ranges import FrozenRanges, Range


class Returns:
    """Ranges of messages by delivery count; what is in none was never given back.

    A few range sets, one for each count up to the queue's ``max_receives``: what comes back together is one range.
    """

    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        self._ranges: dict[int, RangeSet] = {}

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Returns):
            return NotImplemented
        return self._ranges == other._ranges

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """Every range with its count: start, stop, deliveries."""
        for deliveries, ranges in sorted(self._ranges.items()):
            for start, stop in ranges:
                yield start, stop, deliveries

    def frozen(self) -> list[tuple[int, FrozenRanges]]:
        """A picture of it as it is: ranges by count."""
        return [(deliveries, ranges.frozen()) for deliveries, ranges in sorted(self._ranges.items())]

    def note(self, start: int, stop: int, deliveries: int) -> None:
        """The messages of a range have been delivered so often."""
        self.forget(start, stop)
        self._ranges.setdefault(deliveries, RangeSet()).add(start, stop)

    def forget(self, start: int, stop: int) -> None:
        """The messages of a range are gone."""
        for deliveries, ranges in list(self._ranges.items()):
            ranges.remove(start, stop)
            if not ranges:
                del self._ranges[deliveries]

    def within(self, start: int, stop: int) -> list[tuple[Range, int]]:
        """The parts of a range that were given back, ascending, each with its count."""
        found: list[tuple[Range, int]] = []
        for deliveries, ranges in self._ranges.items():
            found += [((max(start, low), min(stop, high)), deliveries) for low, high in ranges.meeting(start, stop)]
        return sorted(found)
