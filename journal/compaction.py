"""Copying the wanted records of neighbouring segments into one; it runs on the worker, beside the commits.

The sources stay as they are until a checkpoint lists the copy in their place, so a crash at any moment loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

from journal.durable import create_anew, read_exactly, write_all
from journal.errors import JournalDamagedError
from journal.files import Buffer, Files
from journal.format import (
    COMPACTED,
    RECORD_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    SEVERAL,
    SegmentHeader,
    StreamRows,
    pack_record,
    pack_segment_header,
    record_is_whole,
    unpack_record_header,
)
from journal.index import add_several, save_index
from journal.names import ASIDE
from journal.reclaim import Combination
from journal.segment import Segment, new_header

COPY_BYTES = 1 << 20
"""Bytes collected before they are written."""


class Combined(NamedTuple):
    """What came of a combination: the new segment, or none because a source is damaged."""

    sources: tuple[Segment, ...]
    segment: Segment | None


class _Row(NamedTuple):
    """One record to be copied; rows compare by where they are."""

    offset: int
    length: int
    stream: int
    first: int
    count_of_items: int


def combine(files: Files, directory: Path, combination: Combination, segment_id: int) -> Combined:
    """Make the combined segment and its index, both durable when this returns.

    Raises:
        JournalDamagedError: a record of a source is not what was written; nothing is left behind.
        OSError: writing fails.
    """
    first_lsn = min(source.header.first_lsn for source in combination.sources)
    version = max(source.header.version for source in combination.sources)
    segment = Segment(directory, new_header(segment_id, first_lsn, COMPACTED, version))
    aside = segment.path.with_name(segment.path.name + ASIDE)
    file = create_anew(files, aside)
    try:
        _copy_all(files, file, combination, segment)
        files.sync(file)
    except JournalDamagedError:
        files.close(file)
        files.unlink(aside)
        raise
    except OSError:
        files.close(file)
        raise
    files.close(file)
    segment.seal()
    assert segment.rows is not None
    save_index(files, segment, segment.rows)
    files.rename(aside, segment.path)
    files.sync_directory(directory)
    return Combined(combination.sources, segment)


def _copy_all(files: Files, file: int, combination: Combination, target: Segment) -> None:
    waiting: list[Buffer] = [pack_segment_header(target.header)]
    waiting_bytes = SEGMENT_HEADER_BYTES
    written = 0
    assert target.rows is not None
    for source, wanted in zip(combination.sources, combination.wanted, strict=True):
        try:
            opened = files.open(source.path)
        except OSError as error:
            raise JournalDamagedError(source.path, 0, f"the file cannot be opened: {error}") from error
        try:
            copied = -1
            for row in _in_order(wanted):
                if row.offset == copied:
                    continue  # the record of several streams that was copied for another of them
                copied = row.offset
                record, lsn = _read_again(files, opened, source, row, target.header)
                _enter(target, row, record)
                target.end += len(record)
                target.stop_lsn = lsn + 1
                waiting.append(record)
                waiting_bytes += len(record)
                if waiting_bytes >= COPY_BYTES:
                    written = write_all(files, file, waiting, written)
                    waiting, waiting_bytes = [], 0
        finally:
            files.close(opened)
    write_all(files, file, waiting, written)


def _in_order(wanted: dict[int, StreamRows]) -> Iterator[_Row]:
    """Rows of all streams by ascending offset, which is ascending lsn."""
    return merge(
        *(
            map(_Row, rows.offsets, rows.lengths, repeat(stream), rows.firsts, rows.counts)
            for stream, rows in wanted.items()
        )
    )


def _read_again(files: Files, file: int, source: Segment, row: _Row, header: SegmentHeader) -> tuple[bytes, int]:
    """A record of the source, checked, as it is in the target, and its lsn."""
    size = RECORD_HEADER_BYTES + row.length
    try:
        record = read_exactly(files, file, size, row.offset)
        if len(record) == size:
            found = unpack_record_header(record)
            if found.flags & SEVERAL:
                size = min(RECORD_HEADER_BYTES + found.length, source.end - row.offset)
                record = read_exactly(files, file, size, row.offset)
    except OSError as error:
        raise JournalDamagedError(source.path, row.offset, f"it cannot be read: {error}") from error
    if len(record) == size:
        found = unpack_record_header(record)
        if record_is_whole(found, record, source.header):
            payload = memoryview(record)[RECORD_HEADER_BYTES:]
            return pack_record(header, found.lsn, found.epoch, found.kind, found.flags, 0, payload), found.lsn
    raise JournalDamagedError(source.path, row.offset, "the record is not what was written there")


def _enter(target: Segment, row: _Row, record: bytes) -> None:
    """Have the target hold a record at its end: under each of its streams, wanted or not, as whoever reads the file again finds it."""
    rows = target.rows
    assert rows is not None
    if unpack_record_header(record).flags & SEVERAL:
        add_several(rows, memoryview(record)[RECORD_HEADER_BYTES:], target.end, target.path)
        return
    columns = rows.get(row.stream)
    if columns is None:
        columns = rows[row.stream] = StreamRows.empty()
    columns.firsts.append(row.first)
    columns.counts.append(row.count_of_items)
    columns.offsets.append(target.end)
    columns.lengths.append(row.length)
