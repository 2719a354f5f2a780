"""The index of a sealed segment: where each item's record is, without reading the segment.

An index can always be made again from its segment, so a missing or damaged one costs a scan and nothing else.
"""

from __future__ import annotations

from pathlib import Path

from journal.durable import read_exactly, read_whole, write_aside
from journal.errors import FormatError, JournalDamagedError
from journal.files import Buffer, Files
from journal.format import (
    CLOSED,
    INDEX_HEADER_BYTES,
    ITEMS,
    SEVERAL,
    IndexHeader,
    StreamRows,
    Summary,
    pack_index,
    unpack_index_header,
    unpack_rows,
    unpack_summary,
)
from journal.items import ITEMS_PREFIX_BYTES, unpack_several
from journal.scan import ScannedRecord, SegmentScan, items_of
from journal.segment import Segment


def add_row(rows: dict[int, StreamRows], record: ScannedRecord, path: Path) -> None:
    """Enter a record that was read, if it holds items.

    Raises:
        JournalDamagedError: items that do not follow those before, which no journal has written.
    """
    offset, _, kind, flags, _, _, payload = record
    if flags & SEVERAL and kind != CLOSED:
        add_several(rows, payload, offset, path)
        return
    if not flags & ITEMS or (items := items_of(record, path)) is None:
        return
    stream, first, count = items
    columns = rows.get(stream)
    if columns is None:
        columns = rows[stream] = StreamRows.empty()
    elif first < columns.firsts[-1] + columns.counts[-1]:
        raise _twice(stream, first, offset, path)
    columns.firsts.append(first)
    columns.counts.append(count)
    columns.offsets.append(offset)
    columns.lengths.append(len(payload))


def add_several(rows: dict[int, StreamRows], payload: Buffer, offset: int, path: Path) -> None:
    """Enter a record of several streams under each of them.

    Raises:
        JournalDamagedError: items of one of them that do not follow those before, or a payload that is none; it is entered under none.
    """
    try:
        parts, _ = unpack_several(payload)
    except FormatError as error:
        raise JournalDamagedError(path, offset, str(error)) from error
    for stream, first, _, _ in parts:
        known = rows.get(stream)
        if known is not None and first < known.firsts[-1] + known.counts[-1]:
            raise _twice(stream, first, offset, path)
    for stream, first, count, part in parts:
        columns = rows.get(stream)
        if columns is None:
            columns = rows[stream] = StreamRows.empty()
        columns.firsts.append(first)
        columns.counts.append(count)
        columns.offsets.append(offset)
        columns.lengths.append(ITEMS_PREFIX_BYTES + len(part))


def _twice(stream: int, first: int, offset: int, path: Path) -> JournalDamagedError:
    return JournalDamagedError(path, offset, f"items of stream {stream} from {first} on come twice")


def save_index(files: Files, segment: Segment, rows: dict[int, StreamRows]) -> None:
    """Write a sealed segment's index; from then on its rows may be dropped from memory."""
    write_aside(files, segment.index_path, pack_index(segment.header, segment.stop_lsn, segment.end, rows))
    segment.indexed = True


def load_summary(files: Files, segment: Segment) -> Summary | None:
    """The first table of a sealed segment's index; None where there is no good one, which belongs to this very segment."""
    try:
        file = files.open(segment.index_path)
    except OSError:
        return None
    try:
        header = unpack_index_header(read_exactly(files, file, INDEX_HEADER_BYTES, 0))
        if not _belongs(header, segment) or header.summary_bytes > files.size(file):
            return None
        return unpack_summary(header, read_exactly(files, file, header.summary_bytes, 0))
    except (OSError, FormatError):
        return None
    finally:
        files.close(file)


def load_rows(files: Files, segment: Segment) -> tuple[dict[int, StreamRows], bool]:
    """Where each record of a sealed segment is: from its index, or by a scan; and whether it was the index.

    Raises:
        JournalDamagedError: no good index, and a segment that is damaged.
    """
    try:
        data = read_whole(files, segment.index_path)
        header = unpack_index_header(data)
        if _belongs(header, segment):
            return unpack_rows(header, unpack_summary(header, data), data), True
    except (OSError, FormatError):
        pass
    return rows_by_scan(files, segment), False


def rows_by_scan(files: Files, segment: Segment) -> dict[int, StreamRows]:
    """Read a whole sealed segment; raises JournalDamagedError where it does not end where it was sealed."""
    rows: dict[int, StreamRows] = {}
    with SegmentScan(files, segment.path) as scan:
        if scan.header != segment.header:
            raise JournalDamagedError(segment.path, 0, "the header is another than it was")
        for record in scan.records():
            add_row(rows, record, segment.path)
        if scan.end != segment.end or scan.next_lsn != segment.stop_lsn:
            raise JournalDamagedError(
                segment.path, scan.end, f"the records end before offset {segment.end}, where they did: {scan.problem}"
            )
    return rows


def _belongs(header: IndexHeader, segment: Segment) -> bool:
    return (
        header.segment_id == segment.header.segment_id
        and header.first_lsn == segment.header.first_lsn
        and header.stop_lsn == segment.stop_lsn
        and header.end == segment.end
    )
