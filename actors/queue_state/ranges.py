"""Ranges of sequence numbers, half-open ``(start, stop)``, and sets of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from actors.errors import InvalidRequestError, UnknownAcknowledgementError

Range = tuple[int, int]


def checked_ranges(pairs: Sequence[tuple[int, int]], twice: bool = False) -> list[Range]:
    """The protocol's pairs of first and count as ascending ranges.

    Args:
        pairs: first numbers and counts.
        twice: whether they may name a message more than once, as answers to several deliveries of it do.

    Raises:
        InvalidRequestError: a pair that names no message.
        UnknownAcknowledgementError: two that name the same one, which is to give it back twice.
    """
    if len(pairs) == 1:
        first, count = pairs[0]
        if first >= 0 and count > 0:
            return [(first, first + count)]
    ranges = [(first, first + count) for first, count in pairs]
    if len(ranges) > 1:
        ranges.sort()
        for (_, stop), (start, end) in pairwise(ranges):
            if start < stop and not twice:
                raise UnknownAcknowledgementError(start, end, start)
    for start, stop in ranges:
        if not 0 <= start < stop:
            raise InvalidRequestError(f"a range of {stop - start} messages from {start} on names no message")
    return ranges


def merged(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Ascending disjoint ``ranges`` with neighbours that touch made one."""
    result: list[Range] = []
    for start, stop in ranges:
        if result and result[-1][1] == start:
            result[-1] = (result[-1][0], stop)
        else:
            result.append((start, stop))
    return tuple(result)


class RangeSet:
    """A set of sequence numbers kept as ascending ranges that neither overlap nor touch."""

    __slots__ = ("_starts", "_stops")

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        for start, stop in ranges:
            self.add(start, stop)

    @classmethod
    def of_disjoint(cls, flat: list[int]) -> RangeSet:
        """The set that ``flat`` lists, start and stop of each range in turn, as another set gave them."""
        ranges = cls()
        ranges._starts, ranges._stops = flat[::2], flat[1::2]
        return ranges

    def copy(self) -> RangeSet:
        """Another set of the same numbers."""
        other = RangeSet()
        other._starts, other._stops = self._starts.copy(), self._stops.copy()
        return other

    def __len__(self) -> int:
        """How many ranges, not numbers."""
        return len(self._starts)

    def __iter__(self) -> Iterator[Range]:
        return zip(self._starts, self._stops, strict=True)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RangeSet):
            return NotImplemented
        return self._starts == other._starts and self._stops == other._stops

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"RangeSet({list(self)})"

    def add(self, start: int, stop: int) -> int:
        """Add a range; returns how many of its numbers are new."""
        starts, stops = self._starts, self._stops
        if stops and stops[-1] == start:
            # The usual case: on from where it ends.
            stops[-1] = stop
            return stop - start
        low = bisect_left(stops, start)
        high = bisect_right(starts, stop)
        if low == high:
            starts.insert(low, start)
            stops.insert(low, stop)
            return stop - start
        known = sum(
            max(0, min(stop, known_stop) - max(start, known_start))
            for known_start, known_stop in zip(starts[low:high], stops[low:high], strict=True)
        )
        starts[low:high] = [min(start, starts[low])]
        stops[low:high] = [max(stop, stops[high - 1])]
        return stop - start - known

    def extend(self, ranges: Iterable[Range]) -> None:
        """Add several ranges."""
        for start, stop in ranges:
            self.add(start, stop)

    def remove(self, start: int, stop: int) -> list[Range]:
        """Remove a range; returns the parts of it that were in the set."""
        starts, stops = self._starts, self._stops
        low = bisect_right(stops, start)
        high = bisect_left(starts, stop)
        if low >= high:
            return []
        removed = [
            (max(start, known_start), min(stop, known_stop))
            for known_start, known_stop in zip(starts[low:high], stops[low:high], strict=True)
        ]
        kept = [part for part in ((starts[low], start), (stop, stops[high - 1])) if part[0] < part[1]]
        starts[low:high] = [part[0] for part in kept]
        stops[low:high] = [part[1] for part in kept]
        return removed

    def reach(self, position: int) -> int:
        """The end of the range that holds ``position``; ``position`` itself if none does."""
        index = bisect_right(self._stops, position)
        if index < len(self._starts) and self._starts[index] <= position:
            return self._stops[index]
        return position

    def count_within(self, start: int, stop: int) -> int:
        """How many numbers of a range are in the set."""
        return sum(min(stop, high) - max(start, low) for low, high in self.meeting(start, stop))

    def meeting(self, start: int, stop: int) -> list[Range]:
        """The ranges, whole, that have a number in a range."""
        low = bisect_right(self._stops, start)
        high = bisect_left(self._starts, stop)
        return list(zip(self._starts[low:high], self._stops[low:high], strict=True))

    def gaps(self, start: int, stop: int) -> list[Range]:
        """The parts of a range that are not in the set."""
        if not self._stops or self._stops[-1] <= start:
            return [(start, stop)] if start < stop else []
        result: list[Range] = []
        position = start
        low = bisect_right(self._stops, start)
        high = bisect_left(self._starts, stop)
        for known_start, known_stop in zip(self._starts[low:high], self._stops[low:high], strict=True):
            if position < known_start:
                result.append((position, known_start))
            position = known_stop
        if position < stop:
            result.append((position, stop))
        return result
