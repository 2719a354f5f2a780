"""Ascending ranges of numbers in two arrays: what may be very many, is mostly added behind and taken from the front."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.queue.structures.ranges import Range

MOST_GONE = 64
"""Ranges that are gone at the front before the arrays are cut, which is done once more than half of them are."""


class Numbers:
    """A set of numbers as ranges of sixteen bytes each, without an object for any of them."""

    __slots__ = ("_gone", "_starts", "_stops")

    def __init__(self) -> None:
        self._starts = array("q")
        self._stops = array("q")
        # So many ranges at the front are no more.
        self._gone = 0

    def __bool__(self) -> bool:
        return self._gone < len(self._starts)

    def __len__(self) -> int:
        """How many ranges, not numbers."""
        return len(self._starts) - self._gone

    def __iter__(self) -> Iterator[Range]:
        for at in range(self._gone, len(self._starts)):
            yield self._starts[at], self._stops[at]

    def first(self) -> Range:
        """The first range; there is one."""
        return self._starts[self._gone], self._stops[self._gone]

    def add(self, start: int, stop: int) -> None:
        """Add a range, some of which may be there."""
        starts, stops = self._starts, self._stops
        if not self:
            self._clear()
        if not starts or start > stops[-1]:
            starts.append(start)
            stops.append(stop)
            return
        if start >= starts[-1]:
            # The usual case: on from where it ends.
            stops[-1] = max(stop, stops[-1])
            return
        low = bisect_left(stops, start, self._gone)
        high = bisect_right(starts, stop, self._gone)
        if low < high:
            start, stop = min(start, starts[low]), max(stop, stops[high - 1])
        starts[low:high] = array("q", (start,))
        stops[low:high] = array("q", (stop,))

    def drop_below(self, number: int) -> None:
        """Take out what is lower, which is in the first range or all of it."""
        at = self._gone
        if number < self._stops[at]:
            self._starts[at] = max(number, self._starts[at])
            return
        self._gone = gone = at + 1
        if gone > MOST_GONE and 2 * gone > len(self._starts):
            del self._starts[:gone], self._stops[:gone]
            self._gone = 0

    def keep(self, which: Callable[[int, int], Iterator[Range]], position: int, most: int) -> tuple[int | None, int]:
        """Have of the ranges from a number on only what ``which`` gives of each, ascending, until so many were looked at or made.

        Returns:
            the number from which on it goes on, None where it is done; and how many ranges were looked at or made.
        """
        all_starts, all_stops = self._starts, self._stops
        at = end = bisect_right(all_stops, position, self._gone)
        starts, stops = array("q"), array("q")
        done, following = 0, None
        while end < len(all_starts) and done < most:
            start, stop = all_starts[end], all_stops[end]
            end += 1
            done += 1
            parts = which(max(start, position), stop)
            if start < position:
                _put(starts, stops, start, position)
            for part in parts:
                _put(starts, stops, *part)
                done += 1
                if done >= most and part[1] < stop:
                    # One range may have very many parts.
                    following = part[1]
                    _put(starts, stops, following, stop)
                    break
        if following is None and end < len(all_starts):
            following = all_starts[end]
        all_starts[at:end], all_stops[at:end] = starts, stops
        return following, done

    def _clear(self) -> None:
        del self._starts[:], self._stops[:]
        self._gone = 0


def _put(starts: array[int], stops: array[int], start: int, stop: int) -> None:
    """A range behind the others, which may touch the last of them."""
    if stops and stops[-1] == start:
        stops[-1] = stop
    else:
        starts.append(start)
        stops.append(stop)
