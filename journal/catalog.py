"""All segments of a journal, and where in them each item is; the thread that appends owns it.

In memory are a summary for each segment, and the rows of the one that is being written and of ``LOADED_INDEXES`` others: it
grows with the number of segments, not of records.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from journal.errors import JournalDamagedError, JournalUsageError
from journal.files import Files
from journal.format import SEGMENT_HEADER_BYTES, StreamRows, unpack_segment_header
from journal.index import load_rows
from journal.segment import Segment

LOADED_INDEXES = 4
"""Segments, besides the one being written, whose rows stay in memory: a few readers at different places do not thrash."""
MAX_U32 = (1 << 32) - 1
MAX_FIRST = (1 << 64) - 1 - MAX_U32
"""Behind an item with this number or a lower one, any number of items has numbers that fit."""
OPEN_FILES = 16
"""Segments kept open for reading: a process has some thousand files, and most are for connections."""


class Place(NamedTuple):
    """Where a record is: row ``row`` of ``rows``, which are those of its stream in ``segment``."""

    segment: Segment
    rows: StreamRows
    row: int


class Stream:
    """The segments that hold records of one stream, ascending, and its first item in each."""

    __slots__ = ("firsts", "segments")

    def __init__(self) -> None:
        self.firsts: array[int] = array("Q")
        self.segments: list[Segment] = []


class Catalog:
    """The segments in order of their first lsn; the last is the one being written.

    Attributes:
        segments: all of them.
        streams: where each stream has items; to be looked at only.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self.segments: list[Segment] = []
        self.streams: dict[int, Stream] = {}
        self._loaded: OrderedDict[Segment, None] = OrderedDict()
        self._open: OrderedDict[Segment, int] = OrderedDict()

    def add(self, segment: Segment) -> None:
        """Enter a segment behind the last, with the records it has."""
        self.segments.append(segment)
        self._enter(segment)
        if segment.sealed and segment.rows is not None:
            self._keep_loaded(segment)

    def enter(self, segment: Segment, offset: int, length: int, stream: int, first: int, count: int) -> None:
        """Have the segment being written hold items of a stream, by the record at ``offset`` that is about to be appended.

        Raises:
            JournalUsageError: numbers that are none, or items that do not follow those before; nothing has changed.
        """
        assert segment.rows is not None
        rows = segment.rows.get(stream)
        # Mostly it is plain to see that all is well; `check` says what is not.
        if rows is None or first < rows.firsts[-1] + rows.counts[-1] or first > MAX_FIRST or not 0 < count <= MAX_U32:
            self.check(stream, first, count)
        if rows is None:
            rows = segment.rows[stream] = StreamRows.empty()
            known = self.streams.setdefault(stream, Stream())
            known.firsts.append(first)
            known.segments.append(segment)
        rows.firsts.append(first)
        rows.counts.append(count)
        rows.offsets.append(offset)
        rows.lengths.append(length)

    def check(self, stream: int, first: int, count: int) -> None:
        """Raise what `enter` would."""
        if not (0 < count <= MAX_U32 and 0 <= stream <= MAX_U32 and 0 <= first <= (1 << 64) - 1 - count):
            raise JournalUsageError(f"{count} items of stream {stream} from {first} on: out of range")
        known = self.streams.get(stream)
        if known is not None and first < (stop := self.stop_in(known.segments[-1], stream)):
            raise JournalUsageError(f"items of stream {stream} from {first} on do not follow those up to {stop}")

    @property
    def last_stream(self) -> int:
        """The greatest number of a stream that some segment has items of; -1 where none has."""
        return max(self.streams, default=-1)

    def seal(self, segment: Segment) -> None:
        """The segment being written is full; its rows may be dropped once its index is on disk."""
        segment.seal()
        self._keep_loaded(segment)

    def remove(self, segments: Iterable[Segment]) -> None:
        """Forget segments; what they held is found no more."""
        gone = set(segments)
        if not gone:
            return
        self.segments = [segment for segment in self.segments if segment not in gone]
        for segment in gone:
            assert segment.summary is not None
            for stream in segment.summary.stream:
                self._leave(stream, segment)
            self._loaded.pop(segment, None)
            file = self._open.pop(segment, None)
            if file is not None:
                self._files.close(file)

    def replace(self, sources: Iterable[Segment], combined: Segment) -> None:
        """Put a segment in the place of those whose live records it holds."""
        self.remove(sources)
        at = bisect_left([segment.header.first_lsn for segment in self.segments], combined.header.first_lsn)
        self.segments.insert(at, combined)
        self._enter(combined)
        self._keep_loaded(combined)

    def find(self, stream: int, position: int) -> Place | None:
        """The record with the first item at or behind ``position``, or None where there is none."""
        known = self.streams.get(stream)
        if known is None:
            return None
        for at in range(max(0, bisect_right(known.firsts, position) - 1), len(known.segments)):
            segment = known.segments[at]
            rows = self.rows(segment)[stream]
            row = bisect_right(rows.firsts, position) - 1
            if row < 0 or rows.firsts[row] + rows.counts[row] <= position:
                row += 1
            if row < len(rows.firsts):
                return Place(segment, rows, row)
        return None

    def rows(self, segment: Segment) -> dict[int, StreamRows]:
        """Every record of a segment, by stream; loaded if need be, and JournalDamagedError where it cannot be."""
        if segment.rows is None:
            # Rows that a scan has made stay: it reads the whole segment, and would again and again.
            segment.rows, segment.indexed = load_rows(self._files, segment)
            self._keep_loaded(segment)
        elif segment.sealed:
            self._loaded.move_to_end(segment)
            self.trim()
        return segment.rows

    def trim(self) -> None:
        """Drop the rows that were not asked for the longest, of those that can be loaded again: their index is on disk.

        Indexes are written behind the appending thread's back, so this is called whenever somebody looks.
        """
        surplus = len(self._loaded) - LOADED_INDEXES
        if surplus <= 0:
            return
        newest = next(reversed(self._loaded))
        for oldest in [loaded for loaded in self._loaded if loaded.indexed and loaded is not newest][:surplus]:
            del self._loaded[oldest]
            oldest.rows = None

    def file(self, segment: Segment) -> int:
        """The segment's file, open for reading; JournalDamagedError where it is not there, or is another."""
        file = self._open.get(segment)
        if file is not None:
            self._open.move_to_end(segment)
            return file
        try:
            file = self._files.open(segment.path)
        except OSError as error:
            raise JournalDamagedError(segment.path, 0, f"the file cannot be opened: {error}") from error
        try:
            found = unpack_segment_header(self._files.read(file, SEGMENT_HEADER_BYTES, 0))
            if found != segment.header:
                raise ValueError("the header is another than it was")
        except (OSError, ValueError) as error:
            self._files.close(file)
            raise JournalDamagedError(segment.path, 0, str(error)) from error
        self._open[segment] = file
        if len(self._open) > OPEN_FILES:
            self._files.close(self._open.popitem(last=False)[1])
        return file

    def close(self) -> None:
        """Give back every file."""
        while self._open:
            self._files.close(self._open.popitem()[1])

    def _keep_loaded(self, segment: Segment) -> None:
        self._loaded[segment] = None
        self.trim()

    def _enter(self, segment: Segment) -> None:
        """Put a segment into the place that its items have in each of its streams."""
        if segment.summary is not None:
            starts = zip(segment.summary.stream, segment.summary.first, strict=True)
        else:
            assert segment.rows is not None
            starts = zip(segment.rows, [rows.firsts[0] for rows in segment.rows.values()], strict=True)
        for stream, first in starts:
            known = self.streams.get(stream)
            if known is None:
                known = self.streams[stream] = Stream()
            at = bisect_left(known.firsts, first)
            known.firsts.insert(at, first)
            known.segments.insert(at, segment)

    def _leave(self, stream: int, segment: Segment) -> None:
        known = self.streams[stream]
        at = known.segments.index(segment)
        del known.segments[at]
        del known.firsts[at]
        if not known.segments:
            del self.streams[stream]

    @staticmethod
    def stop_in(segment: Segment, stream: int) -> int:
        """One more than the last item of a stream that a segment holds."""
        if segment.summary is not None:
            return segment.summary.stop[bisect_left(segment.summary.stream, stream)]
        assert segment.rows is not None
        rows = segment.rows[stream]
        return rows.firsts[-1] + rows.counts[-1]
