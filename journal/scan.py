"""Reading a segment from its beginning, record by record, and judging what it ends with.

What is read is checked whole: mark, length, checksum, lsn. Nothing is allocated for a length that the file cannot hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Self

from crc32c import crc32c

from journal.durable import read_exactly
from journal.errors import FormatError, JournalDamagedError
from journal.files import Files
from journal.format import (
    CHECKSUMMED_FROM,
    CLOSED,
    COMPACTED,
    GROUP_UNKNOWN,
    ITEMS,
    RECORD,
    RECORD_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    salt_crc,
    unpack_segment_header,
)
from journal.group import HOLD_INTERPRETER, RELEASE_INTERPRETER
from journal.items import unpack_items_prefix
from journal.names import parse_segment
from journal.segment import MARK_BYTES

SCAN_BYTES = 1 << 20
"""Bytes read at a time: a scan of many segments is as fast as the disk, and holds little."""
MUCH_BYTES = 8 << 20
"""Of a record: its checksum takes a millisecond. Of less the interpreter is kept meanwhile: beside a busy thread it takes up to five
milliseconds to have it back, and a reader that gave it away for each record would be no faster than the broker that it reads for."""


class ScannedRecord(NamedTuple):
    """A whole record; ``payload`` is a view that outlives the scan."""

    offset: int
    lsn: int
    kind: int
    flags: int
    group: int
    epoch: int
    payload: memoryview

    @property
    def end(self) -> int:
        """Where the next record begins."""
        return self.offset + RECORD_HEADER_BYTES + len(self.payload)


_scanned: Callable[[type[ScannedRecord], tuple[int, int, int, int, int, int, memoryview]], ScannedRecord] = (
    tuple.__new__
)
"""A start reads hundreds of thousands of records, and this makes one in half the time."""


class SegmentScan:
    """One segment, open for reading.

    Attributes:
        path: the file.
        ahead: bytes that are read at a time.
        header: what it says of itself.
        size: bytes of the file.
        end: where the records read so far end.
        next_lsn: the lsn expected there; of a compacted segment one more than the last.
        problem: why the record at ``end`` is none, once `records` has come to an end.
    """

    def __init__(self, files: Files, path: Path) -> None:
        """Opens the file and reads its header.

        Raises:
            JournalDamagedError: no header, or one that does not belong to the name, or a file that cannot be read.
        """
        self._files = files
        self.path = path
        try:
            self._file = files.open(path)
        except OSError as error:
            raise JournalDamagedError(path, 0, f"the file cannot be opened: {error}") from error
        try:
            self.size = files.size(self._file)
            self.header = read_segment_header(path, self._read(SEGMENT_HEADER_BYTES, 0))
        except OSError as error:
            self.close()
            raise JournalDamagedError(path, 0, f"it cannot be read: {error}") from error
        except JournalDamagedError:
            self.close()
            raise
        self.ahead = SCAN_BYTES
        self._salt_crc = salt_crc(self.header.salt)
        self.end = SEGMENT_HEADER_BYTES
        self.next_lsn = self.header.first_lsn
        self.problem = ""

    def close(self) -> None:
        """Give the file back; views that were handed out stay good."""
        self._files.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def records(self) -> Iterator[ScannedRecord]:
        """Every record from ``end`` on, up to the first that is none."""
        unpack = RECORD.unpack_from
        mark, salt = self.header.mark, self._salt_crc
        gaps = self.header.kind == COMPACTED
        base, data = self.end, b""
        view = memoryview(data)
        while True:
            at = self.end - base
            if len(data) - at < RECORD_HEADER_BYTES:
                base, at, data = self.end, 0, self._read(self.ahead, self.end)
                view = memoryview(data)
                if len(data) < RECORD_HEADER_BYTES:
                    self.problem = "the file ends here" if not data else f"the file ends after {len(data)} bytes of it"
                    return
            found, crc, length, kind, flags, group, epoch, lsn = unpack(data, at)
            if found != mark:
                self.problem = "it does not begin with the segment's mark"
                return
            stop = at + RECORD_HEADER_BYTES + length
            if stop > len(data):
                if base + stop > self.size:
                    self.problem = f"its length of {length} bytes leads beyond the end of the file"
                    return
                base, at, stop = self.end, 0, stop - at
                data = self._read(max(self.ahead, stop), base)
                view = memoryview(data)
            held = HOLD_INTERPRETER if length < MUCH_BYTES else RELEASE_INTERPRETER
            if crc32c(view[at + CHECKSUMMED_FROM : stop], salt, held) != crc:
                self.problem = "its checksum does not hold"
                return
            if lsn != self.next_lsn and not (gaps and lsn > self.next_lsn):
                self.problem = f"it has lsn {lsn} where {self.next_lsn} follows"
                return
            start, self.end, self.next_lsn = self.end, base + stop, lsn + 1
            payload = view[at + RECORD_HEADER_BYTES : stop]
            yield _scanned(ScannedRecord, (start, lsn, kind, flags, group, epoch, payload))

    def later_records(self, offset: int) -> Iterator[ScannedRecord]:
        """Every whole record that is found anywhere from ``offset`` on, by looking for the segment's mark."""
        while (candidate := self._find_mark(offset)) is not None:
            record = self.record_at(candidate)
            if record is None:
                offset = candidate + 1
            else:
                yield record
                offset = record.end

    def record_at(self, offset: int) -> ScannedRecord | None:
        """The record whose header is at ``offset``, or None where there is no whole one."""
        head = self._read(RECORD_HEADER_BYTES, offset)
        if len(head) < RECORD_HEADER_BYTES:
            return None
        mark, crc, length, kind, flags, group, epoch, lsn = RECORD.unpack(head)
        if mark != self.header.mark or offset + RECORD_HEADER_BYTES + length > self.size:
            return None
        payload = memoryview(self._read(length, offset + RECORD_HEADER_BYTES))
        if crc32c(payload, crc32c(head[CHECKSUMMED_FROM:], self._salt_crc)) != crc:
            return None
        return ScannedRecord(offset, lsn, kind, flags, group, epoch, payload)

    def proof_of_damage(self, durable_lsn: int) -> str | None:
        """Why the record at ``end`` must have been whole once, or None where it may be a write that was never synced.

        ``durable_lsn``: everything below it is known from elsewhere to have been durable.
        """
        if self.next_lsn < durable_lsn:
            return f"record {self.next_lsn} was durable, as a checkpoint of lsn {durable_lsn} shows, and {self.problem}"
        for record in self.later_records(self.end + 1):
            # A record of an lsn below the expected one would be a copy of one that was read: it proves nothing.
            if record.group != GROUP_UNKNOWN and record.lsn - record.group > self.next_lsn:
                return (
                    f"record {self.next_lsn} was durable, as record {record.lsn} at offset {record.offset} shows, "
                    f"and {self.problem}"
                )
        return None

    def torn_bytes(self) -> int:
        """How much of what lies behind ``end`` is the rest of a write that was begun; 0 where none can be made out.

        In a file that was not recycled that is everything but zeros. In one that was, a record that was begun is told apart from old
        contents by its mark or its lsn, or by the mark of one behind it.
        """
        if self.header.recycled and not self._begun() and self._find_mark(self.end) is None:
            return 0
        last = self.size
        while last > self.end:
            start = max(self.end, last - SCAN_BYTES)
            rest = self._read(last - start, start).rstrip(b"\0")
            if rest:
                return start + len(rest) - self.end
            last = start
        return 0

    def _begun(self) -> bool:
        head = self._read(RECORD_HEADER_BYTES, self.end)
        if head and head.startswith(self.header.mark[: len(head)]):
            return True
        return len(head) == RECORD_HEADER_BYTES and RECORD.unpack(head)[-1] == self.next_lsn

    def read(self, size: int, offset: int) -> bytes:
        """Bytes as they stand, fewer where the file ends; JournalDamagedError where they cannot be read."""
        return self._read(size, offset)

    def _find_mark(self, offset: int) -> int | None:
        mark = self.header.mark
        while offset + MARK_BYTES <= self.size:
            data = self._read(SCAN_BYTES, offset)
            found = data.find(mark)
            if found >= 0:
                return offset + found
            if len(data) < MARK_BYTES:
                return None
            offset += len(data) - MARK_BYTES + 1
        return None

    def _read(self, size: int, offset: int) -> bytes:
        try:
            return read_exactly(self._files, self._file, max(0, min(size, self.size - offset)), offset)
        except OSError as error:
            raise JournalDamagedError(self.path, offset, f"it cannot be read: {error}") from error


def read_segment_header(path: Path, data: bytes) -> SegmentHeader:
    """The header that a segment file begins with; JournalDamagedError where it is none, or is not of the file's name."""
    try:
        header = unpack_segment_header(data)
    except FormatError as error:
        raise JournalDamagedError(path, 0, str(error)) from error
    named = parse_segment(path.name)
    if named is not None and named != (header.first_lsn, header.segment_id):
        raise JournalDamagedError(
            path, 0, f"the header says first lsn {header.first_lsn}, id {header.segment_id:x}, the name does not"
        )
    return header


def items_of(record: ScannedRecord, path: Path) -> tuple[int, int, int] | None:
    """(stream, first, count) of an ITEMS record, None of another; JournalDamagedError where the payload cannot hold them."""
    offset, _, kind, flags, _, _, payload = record
    if not flags & ITEMS or kind == CLOSED:
        return None
    try:
        return unpack_items_prefix(payload)
    except FormatError as error:
        raise JournalDamagedError(path, offset, str(error)) from error
