"""Reading a replica's log by lsn: what was appended lately from memory, and what is older from its segments, a piece at a time.

A piece is planned on the thread that appends, and read on any. What it reads from the disk was durable when it was planned, so no write
meets it. The segment may be given back meanwhile, and its file be written over: then a checksum fails, or the file is not there, and the
segment is not in the catalog any more.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from journal.errors import JournalDamagedError, LogGoneError
from journal.format import CLOSED, SEGMENT_HEADER_BYTES
from journal.scan import SCAN_BYTES, SegmentScan
from journal.shipped import ShippedRecord

if TYPE_CHECKING:
    from journal.catalog import Catalog
    from journal.files import Files
    from journal.segment import Segment

PIECE_BYTES: Final = 1 << 20
"""Of payloads in one piece of the log, unless one record has more."""
RECORD_COST: Final = 500
"""Bytes that a record takes in memory beside its payload, about."""
REMEMBERED: Final = 256
"""Places in the log that somebody has read up to, or that were passed while appending."""
MARK_BYTES: Final = 4 << 20
"""A place of the log is remembered so often: whoever begins to read somewhere reads no more than this for nothing."""


class LogTail:
    """The last records of a log, in memory: as many as have ``limit`` bytes, and all that are not durable.

    Attributes:
        first: the lsn of the first of them; of the next record where there is none.
    """

    def __init__(self, limit: int, next_lsn: int) -> None:
        self.first = next_lsn
        self._limit = limit
        self._bytes = 0
        self._records: dict[int, tuple[ShippedRecord, int]] = {}

    def add(self, record: ShippedRecord, size: int, durable_lsn: int) -> None:
        """Enter the next record, of so many bytes; those below ``durable_lsn`` may go."""
        size += RECORD_COST
        self._records[record.lsn] = (record, size)
        self._bytes += size
        while self._bytes > self._limit and self.first < durable_lsn:
            _, gone = self._records.pop(self.first)
            self._bytes -= gone
            self.first += 1

    def piece(self, lsn: int, most: int) -> list[ShippedRecord]:
        """Those from ``lsn`` on, one at least if it is there, and more up to ``most`` bytes."""
        found: list[ShippedRecord] = []
        while most > 0 and (entry := self._records.get(lsn)) is not None:
            record, size = entry
            found.append(record)
            most -= size - RECORD_COST
            lsn += 1
        return found

    def get(self, lsn: int) -> ShippedRecord | None:
        """A record, if it is there."""
        found = self._records.get(lsn)
        return None if found is None else found[0]


class Places:
    """Where in their segments some records begin; several threads note and ask."""

    def __init__(self) -> None:
        self._places: OrderedDict[tuple[int, int], int] = OrderedDict()
        self._lock = threading.Lock()
        self._marks: OrderedDict[int, list[tuple[int, int]]] = OrderedDict()

    def note(self, segment_id: int, lsn: int, offset: int) -> None:
        """A record begins there, and will be asked for."""
        with self._lock:
            self._places[segment_id, lsn] = offset
            self._places.move_to_end((segment_id, lsn))
            if len(self._places) > REMEMBERED:
                self._places.popitem(last=False)

    def mark(self, segment_id: int, lsn: int, offset: int) -> None:
        """A record is appended there; one of many is remembered."""
        marks = self._marks.get(segment_id)
        if marks is None:
            with self._lock:
                marks = self._marks[segment_id] = []
                if len(self._marks) > REMEMBERED:
                    self._marks.popitem(last=False)
        if offset - (marks[-1][1] if marks else 0) >= MARK_BYTES:
            marks.append((lsn, offset))

    def before(self, segment_id: int, first_lsn: int, lsn: int) -> tuple[int, int]:
        """A record of a segment that is not behind ``lsn``, near it if that is known: its lsn, and where it begins."""
        with self._lock:
            offset = self._places.get((segment_id, lsn))
            marks = self._marks.get(segment_id, ())
        if offset is not None:
            return lsn, offset
        near = [mark for mark in marks if mark[0] <= lsn]
        return near[-1] if near else (first_lsn, SEGMENT_HEADER_BYTES)


class LogPiece:
    """Some records of a log that follow one another; at least one.

    Attributes:
        in_memory: whether `read` needs no disk.

    Args:
        records: those that are in memory.
    """

    in_memory = True

    def __init__(self, records: list[ShippedRecord]) -> None:
        self._records = records

    def read(self) -> list[ShippedRecord]:
        """The records; on any thread.

        Raises:
            LogGoneError: their room was given back meanwhile.
            JournalDamagedError: they are not what was written, or cannot be read.
        """
        return self._records


class StoredPiece(LogPiece):
    """Records of one segment, from ``lsn`` on, below ``stop``, and about ``most`` bytes of them."""

    in_memory = False

    def __init__(
        self, files: Files, catalog: Catalog, segment: Segment, places: Places, lsn: int, stop: int, most: int
    ) -> None:
        super().__init__([])
        self._files = files
        self._catalog = catalog
        self._segment = segment
        self._places = places
        self._lsn = lsn
        self._stop = stop
        self._most = most

    def read(self) -> list[ShippedRecord]:
        """See `LogPiece`."""
        segment, header = self._segment, self._segment.header
        found: list[ShippedRecord] = []
        size = 0
        try:
            with SegmentScan(self._files, segment.path) as scan:
                if scan.header.salt != header.salt:
                    raise JournalDamagedError(segment.path, 0, "the header is another than it was")
                # All of it at once, and the rest of the last record: to have the interpreter back after each read takes its time.
                scan.ahead = self._most + SCAN_BYTES
                scan.next_lsn, scan.end = self._places.before(header.segment_id, header.first_lsn, self._lsn)
                for offset, lsn, kind, flags, _, epoch, payload in scan.records():
                    if lsn < self._lsn:
                        continue
                    if kind == CLOSED:
                        raise JournalDamagedError(
                            segment.path, offset, f"record {lsn} is one that no replica has written"
                        )
                    found.append(ShippedRecord(lsn, epoch, kind, flags, (payload,)))
                    size += len(payload)
                    if size >= self._most or lsn + 1 == self._stop:
                        break
                if not found:
                    raise JournalDamagedError(
                        segment.path, scan.end, f"record {scan.next_lsn} is not there: {scan.problem}"
                    )
                self._places.note(header.segment_id, scan.next_lsn, scan.end)
        except JournalDamagedError as damage:
            if found:
                return found  # whoever asks for the next is told
            segments = list(self._catalog.segments)
            if segment not in segments:
                raise LogGoneError(self._lsn, log_run(segments)[0].header.first_lsn) from damage
            raise
        return found


def log_run(segments: list[Segment]) -> list[Segment]:
    """The segments, of all of a journal, that hold its log without a gap up to its end."""
    run = [segments[-1]]
    for segment in reversed(segments[:-1]):
        if segment.header.kind != run[-1].header.kind or segment.stop_lsn != run[-1].header.first_lsn:
            break
        run.append(segment)
    return run[::-1]
