"""The index of a sealed segment: where each item's record is, without reading the segment.

An index can always be made again from its segment, so a missing or damaged one costs a scan and nothing else.
"""

from __future__ import annotations

from pathlib import Path

from journal.durable import read_exactly, read_whole, write_aside
from journal.errors import FormatError, JournalDamagedError
from journal.files import Files
from journal.format import (
    INDEX_HEADER_BYTES,
    ITEMS,
    IndexHeader,
    StreamRows,
    Summary,
    pack_index,
    unpack_index_header,
    unpack_rows,
    unpack_summary,
)
from journal.scan import ScannedRecord, SegmentScan, items_of
from journal.segment import Segment


def add_row(rows: dict[int, StreamRows], record: ScannedRecord, path: Path) -> None:
    """Enter a record that was read, if it holds items.

    Raises:
        JournalDamagedError: items that do not follow those before, which no journal has written.
    """
    offset, _, _, flags, _, _, payload = record
    if not flags & ITEMS or (items := items_of(record, path)) is None:
        return
    stream, first, count = items
    columns = rows.get(stream)
    if columns is None:
        columns = rows[stream] = StreamRows.empty()
    elif first < columns.firsts[-1] + columns.counts[-1]:
        raise JournalDamagedError(path, offset, f"items of stream {stream} from {first} on come twice")
    columns.firsts.append(first)
    columns.counts.append(count)
    columns.offsets.append(offset)
    columns.lengths.append(len(payload))


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
