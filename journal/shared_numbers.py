"""Streams that share one numbering: each number is an item of one of them, so each of them has gaps where the others have items.

What is asked here of several streams is answered without reading more than the index rows of the segment in which a number is. A stream
may have its next item far behind it: a summary says where that is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING

from journal.reader import Located, located

if TYPE_CHECKING:
    from journal.catalog import Catalog
    from journal.format import StreamRows


class SharedNumbers:
    """What a `Journal` answers about such streams."""

    _catalog: Catalog

    def nearest(self, stream: int, position: int) -> int | None:
        """The first item of the record that holds ``position``, or else of the next one behind it; None where there is none."""
        catalog = self._catalog
        known = catalog.streams.get(stream)
        if known is None:
            return None
        at = bisect_right(known.firsts, position) - 1
        if at >= 0 and catalog.stop_in(known.segments[at], stream) > position:
            rows = catalog.rows(known.segments[at])[stream]
            row = bisect_right(rows.firsts, position) - 1
            return rows.firsts[row if _stop_of(rows, row) > position else row + 1]
        return known.firsts[at + 1] if at + 1 < len(known.firsts) else None

    def stop_before(self, stream: int, first: int) -> int:
        """One more than the last item of a stream below ``first``, which a record of it begins with; 0 where there is none."""
        catalog = self._catalog
        known = catalog.streams.get(stream)
        at = -1 if known is None else bisect_left(known.firsts, first) - 1
        if known is None or at < 0:
            return 0
        segment = known.segments[at]
        stop = catalog.stop_in(segment, stream)
        if stop <= first:
            return stop
        rows = catalog.rows(segment)[stream]
        return _stop_of(rows, bisect_left(rows.firsts, first) - 1)

    def items_within(self, stream: int, start: int, stop: int) -> int:
        """How many items a stream has of start <= n < stop; of segments that lie within nothing is read."""
        catalog = self._catalog
        known = catalog.streams.get(stream)
        if known is None:
            return 0
        count = 0
        for at in range(max(0, bisect_right(known.firsts, start) - 1), len(known.firsts)):
            if known.firsts[at] >= stop:
                break
            segment = known.segments[at]
            end = catalog.stop_in(segment, stream)
            if end <= start:
                continue
            if segment.summary is not None and start <= known.firsts[at] and end <= stop:
                count += segment.summary.items[bisect_left(segment.summary.stream, stream)]
            else:
                count += _count(catalog.rows(segment)[stream], start, stop)
        return count

    def holder(self, streams: Iterable[int], sequence: int) -> tuple[int, Located] | None:
        """Which of the streams holds an item, and by which record; None where none does."""
        catalog = self._catalog
        all_known = catalog.streams
        for stream in streams:
            known = all_known.get(stream)
            if known is None:
                continue
            at = bisect_right(known.firsts, sequence) - 1
            if at < 0 or catalog.stop_in(known.segments[at], stream) <= sequence:
                continue
            rows = catalog.rows(known.segments[at])[stream]
            row = bisect_right(rows.firsts, sequence) - 1
            if _stop_of(rows, row) > sequence:
                place = catalog.find(stream, sequence)
                assert place is not None, "its row was just seen"
                return stream, located(place)
        return None

    def spans_of_all(self, streams: Iterable[int], start: int, stop: int) -> Iterator[tuple[int, Located]]:
        """The records that hold items of start <= n < stop of any of the streams, ascending, each with its stream.

        Each is looked for when it is asked for, so segments may come and go between two of them.
        """
        catalog = self._catalog
        next_ones = [
            (first, stream) for stream in streams if (first := self.nearest(stream, start)) is not None and first < stop
        ]
        heapify(next_ones)
        while next_ones:
            first, stream = next_ones[0]
            place = catalog.find(stream, max(first, start))
            found = None if place is None else located(place)
            if found is not None and found.first < stop:
                yield stream, found
                following = self.nearest(stream, found.stop)
                if following is not None and following < stop:
                    heapreplace(next_ones, (following, stream))
                    continue
            heappop(next_ones)


def _stop_of(rows: StreamRows, row: int) -> int:
    return rows.firsts[row] + rows.counts[row]


def _count(rows: StreamRows, start: int, stop: int) -> int:
    """How many of start <= n < stop these rows have."""
    low = max(0, bisect_right(rows.firsts, start) - 1)
    high = bisect_left(rows.firsts, stop)
    if low >= high:
        return 0
    count = sum(rows.counts[low:high])
    count -= max(0, min(start, _stop_of(rows, low)) - rows.firsts[low])
    return count - max(0, _stop_of(rows, high - 1) - stop)
