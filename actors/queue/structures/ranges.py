"""Ranges of sequence numbers, half-open ``(start, stop)``, and sets of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from actors.errors import InvalidRequestError

Range = tuple[int, int]


def checked_ranges(pairs: Sequence[tuple[int, int]]) -> list[Range]:
    """The protocol's pairs of first and count as ascending ranges; they may overlap, as answers to two deliveries of a message do.

    Raises:
        InvalidRequestError: a pair that names no message.
    """
    if len(pairs) == 1:
        first, count = pairs[0]
        if first >= 0 and count > 0:
            return [(first, first + count)]
    ranges = sorted((first, first + count) for first, count in pairs)
    for start, stop in ranges:
        if not 0 <= start < stop:
            raise InvalidRequestError(f"a range of {stop - start} messages from {start} on names no message")
    return ranges


def merged(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Ascending ``ranges``, those that touch or overlap made one."""
    result: list[Range] = []
    for start, stop in ranges:
        if result and result[-1][1] >= start:
            result[-1] = (result[-1][0], max(stop, result[-1][1]))
        else:
            result.append((start, stop))
    return tuple(result)


CHUNK_RANGES = 512
"""Half of the most that one of the short lists holds, as in ``SpanMap``."""


FrozenRanges: TypeAlias = tuple[tuple[list[int], list[int]], ...]
"""What a ``RangeSet`` was at one time, to be looked at bit by bit while that changes: starts and stops of some hundred ranges at a time."""


_NONE: frozenset[int] = frozenset()


class RangeSet:
    """A set of sequence numbers kept as ascending ranges that neither overlap nor touch.

    Lists of short lists, for the reason that ``SpanMap`` has: a queue acknowledged in odd places has a million ranges, and a change in
    the middle of one long list moves megabytes. What neighbours in several short lists is joined or cut by whole lists.
    """

    __slots__ = ("_counts", "_lent", "_lows", "_starts", "_stops")

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        # Never an empty short list. _lows[i] is _starts[i][0], _counts[i] how many numbers are in the ranges of _starts[i].
        self._starts: list[list[int]] = []
        self._stops: list[list[int]] = []
        self._lows: list[int] = []
        self._counts: list[int] = []
        # The short lists that a frozen picture has too, by id: each is copied before it changes.
        self._lent: set[int] | frozenset[int] = _NONE
        for start, stop in ranges:
            self.add(start, stop)

    @classmethod
    def of_disjoint(cls, flat: Sequence[int]) -> RangeSet:
        """The set that ``flat`` lists, start and stop of each range in turn, as another set gave them."""
        ranges = cls()
        for at in range(0, len(flat), 2 * CHUNK_RANGES):
            part = flat[at : at + 2 * CHUNK_RANGES]
            ranges._starts.append(list(part[::2]))
            ranges._stops.append(list(part[1::2]))
        ranges._lows = [starts[0] for starts in ranges._starts]
        ranges._counts = [sum(stops) - sum(starts) for starts, stops in zip(ranges._starts, ranges._stops, strict=True)]
        return ranges

    def copy(self) -> RangeSet:
        """Another set of the same numbers."""
        other = RangeSet()
        other._starts = [starts.copy() for starts in self._starts]
        other._stops = [stops.copy() for stops in self._stops]
        other._lows, other._counts = self._lows.copy(), self._counts.copy()
        return other

    def frozen(self) -> FrozenRanges:
        """A picture of the set as it is, at the cost of a copy of the list of lists; short lists that change later are copied then."""
        self._lent = set(map(id, self._starts))
        return tuple(zip(self._starts, self._stops, strict=True))

    def __bool__(self) -> bool:
        return bool(self._lows)

    def __len__(self) -> int:
        """How many ranges, not numbers."""
        return sum(map(len, self._starts))

    def __iter__(self) -> Iterator[Range]:
        for starts, stops in zip(self._starts, self._stops, strict=True):
            yield from zip(starts, stops, strict=True)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RangeSet):
            return NotImplemented
        # Where the short lists end is not the same in two sets of the same numbers.
        return sum(self._counts) == sum(other._counts) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"RangeSet({list(self)})"

    def add(self, start: int, stop: int) -> int:
        """Add a range; returns how many of its numbers are new."""
        all_stops = self._stops
        if all_stops and all_stops[-1][-1] == start:
            # The usual case: on from where it ends.
            if self._lent:
                self._own(-1)
            all_stops[-1][-1] = stop
            self._counts[-1] += stop - start
            return stop - start
        if not all_stops or all_stops[-1][-1] < start:
            self._append(start, stop)
            return stop - start
        which = max(0, bisect_right(self._lows, start) - 1)
        index = bisect_left(all_stops[which], start)
        if index == len(all_stops[which]):
            which, index = which + 1, 0
        starts = self._starts[which]
        if starts[index] > stop:
            self._insert(which, index, start, stop)
            return stop - start
        last = which
        if starts[-1] <= stop:
            last = bisect_right(self._lows, stop) - 1
        after = bisect_right(self._starts[last], stop)
        low = min(start, starts[index])
        high = max(stop, all_stops[last][after - 1])
        known = self._cut(which, index, last, after, [low], [high])
        return high - low - known

    def extend(self, ranges: Iterable[Range]) -> None:
        """Add several ranges."""
        for start, stop in ranges:
            self.add(start, stop)

    def remove(self, start: int, stop: int) -> list[Range]:
        """Remove a range; returns the parts of it that were in the set."""
        which, index = self._locate(start)
        if which == len(self._lows) or self._starts[which][index] >= stop:
            return []
        last = max(which, bisect_left(self._lows, stop) - 1)
        after = bisect_left(self._starts[last], stop)
        removed = [(max(start, low), min(stop, high)) for low, high in self._between(which, index, last, after)]
        ends = ((self._starts[which][index], start), (stop, self._stops[last][after - 1]))
        kept = [part for part in ends if part[0] < part[1]]
        self._cut(which, index, last, after, [part[0] for part in kept], [part[1] for part in kept])
        return removed

    def reach(self, position: int) -> int:
        """The end of the range that holds ``position``; ``position`` itself if none does."""
        # Asked for with each batch, so without asking for the place first.
        which = bisect_right(self._lows, position) - 1
        if which >= 0:
            stops = self._stops[which]
            index = bisect_right(stops, position)
            if index < len(stops) and self._starts[which][index] <= position:
                return stops[index]
        return position

    def count_within(self, start: int, stop: int) -> int:
        """How many numbers of a range are in the set; it costs little however many ranges those are."""
        which, index = self._locate(start)
        if which == len(self._lows) or self._starts[which][index] >= stop:
            return 0
        last = max(which, bisect_left(self._lows, stop) - 1)
        after = bisect_left(self._starts[last], stop)
        # All from the first range on, without the lists between and what is behind; then what sticks out at both ends.
        if which == last:
            count = sum(self._stops[which][index:after]) - sum(self._starts[which][index:after])
        else:
            count = sum(self._stops[which][index:]) - sum(self._starts[which][index:])
            count += sum(self._counts[which + 1 : last])
            count += sum(self._stops[last][:after]) - sum(self._starts[last][:after])
        before = max(0, start - self._starts[which][index])
        return count - before - max(0, self._stops[last][after - 1] - stop)

    def meeting(self, start: int, stop: int) -> list[Range]:
        """The ranges, whole, that have a number in a range."""
        which, index = self._locate(start)
        if which == len(self._lows) or self._starts[which][index] >= stop:
            return []
        last = max(which, bisect_left(self._lows, stop) - 1)
        return list(self._between(which, index, last, bisect_left(self._starts[last], stop)))

    def gaps(self, start: int, stop: int) -> list[Range]:
        """The parts of a range that are not in the set."""
        if not self._stops or self._stops[-1][-1] <= start:
            return [(start, stop)] if start < stop else []
        which, index = self._locate(start)
        if self._starts[which][index] >= stop:
            return [(start, stop)] if start < stop else []
        return list(self.each_gap(start, stop))

    def each_gap(self, start: int, stop: int) -> Iterator[Range]:
        """The same one by one, for who needs only the first of them; the set must not change meanwhile."""
        position = start
        which, index = self._locate(start)
        while which < len(self._lows):
            starts = self._starts[which]
            after = bisect_left(starts, stop, index)
            for low, high in zip(starts[index:after], self._stops[which][index:after], strict=True):
                if position < low:
                    yield position, low
                position = high
            if after < len(starts):
                break
            which, index = which + 1, 0
        if position < stop:
            yield position, stop

    # Where, in short lists.

    def _locate(self, position: int) -> tuple[int, int]:
        """The first range that ends beyond ``position``; the number of short lists if there is none."""
        which = bisect_right(self._lows, position) - 1
        if which < 0:
            return 0, 0
        stops = self._stops[which]
        index = bisect_right(stops, position)
        return (which, index) if index < len(stops) else (which + 1, 0)

    def _between(self, which: int, index: int, last: int, after: int) -> Iterator[Range]:
        """The ranges from one place on, up to before another."""
        for at in range(which, last + 1):
            first, stop = index if at == which else 0, after if at == last else None
            yield from zip(self._starts[at][first:stop], self._stops[at][first:stop], strict=True)

    # Changes.

    def _own(self, which: int) -> None:
        """Have short lists that no picture shares."""
        starts = self._starts[which]
        if id(starts) in self._lent:
            self._lent -= {id(starts)}
            self._starts[which] = starts.copy()
            self._stops[which] = self._stops[which].copy()

    def _append(self, start: int, stop: int) -> None:
        """A range behind all others."""
        if self._lows and len(self._starts[-1]) < CHUNK_RANGES:
            if self._lent:
                self._own(-1)
            self._starts[-1].append(start)
            self._stops[-1].append(stop)
            self._counts[-1] += stop - start
        else:
            self._starts.append([start])
            self._stops.append([stop])
            self._lows.append(start)
            self._counts.append(stop - start)

    def _insert(self, which: int, index: int, start: int, stop: int) -> None:
        """A range before the one that is there, touching none."""
        if self._lent:
            self._own(which)
        starts, stops = self._starts[which], self._stops[which]
        starts.insert(index, start)
        stops.insert(index, stop)
        self._counts[which] += stop - start
        if index == 0:
            self._lows[which] = start
        if len(starts) > 2 * CHUNK_RANGES:
            self._split(which)

    def _cut(self, which: int, index: int, last: int, after: int, starts: list[int], stops: list[int]) -> int:
        """Put ranges in the place of those from one place on, up to before another; returns how many numbers those had."""
        if self._lent:
            self._own(which)
        if which == last:
            old_starts, old_stops = self._starts[which], self._stops[which]
            gone = sum(old_stops[index:after]) - sum(old_starts[index:after])
            old_starts[index:after] = starts
            old_stops[index:after] = stops
            self._counts[which] += sum(stops) - sum(starts) - gone
        else:
            gone = sum(self._counts[which : last + 1])
            self._starts[which][index:] = starts
            self._stops[which][index:] = stops
            self._starts[which] += self._starts[last][after:]
            self._stops[which] += self._stops[last][after:]
            del self._starts[which + 1 : last + 1], self._stops[which + 1 : last + 1]
            del self._lows[which + 1 : last + 1], self._counts[which + 1 : last + 1]
            self._counts[which] = sum(self._stops[which]) - sum(self._starts[which])
            gone -= self._counts[which] - sum(stops) + sum(starts)
        if not self._starts[which]:
            del self._starts[which], self._stops[which], self._lows[which], self._counts[which]
        else:
            self._lows[which] = self._starts[which][0]
            if len(self._starts[which]) > 2 * CHUNK_RANGES:
                self._split(which)
        return gone

    def _split(self, which: int) -> None:
        starts, stops = self._starts[which], self._stops[which]
        middle = len(starts) // 2
        self._starts[which : which + 1] = [starts[:middle], starts[middle:]]
        self._stops[which : which + 1] = [stops[:middle], stops[middle:]]
        self._lows.insert(which + 1, starts[middle])
        upper = sum(stops[middle:]) - sum(starts[middle:])
        self._counts[which] -= upper
        self._counts.insert(which + 1, upper)
