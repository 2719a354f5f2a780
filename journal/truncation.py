"""Cutting the end of a replica's log off: records that were never committed, and that the cluster's log does not have.

What is cut off is kept first, each segment's part as a segment of its own that begins there. Then the log gets shorter segment by segment,
the last first; and the one that the cut is in is replaced by its beginning. So whatever call is the last that a process makes, or the last
that a power loss leaves, the log ends at the end of a record, at the cut or behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from journal.checkpoint import write_checkpoint
from journal.checkpoint_format import Checkpoint, unpack_checkpoint
from journal.diverged import diverged_name
from journal.durable import create_anew, read_exactly, read_whole, write_all
from journal.errors import FormatError, JournalDamagedError
from journal.files import Files
from journal.format import CLOSED, SEGMENT_HEADER_BYTES, StreamRows, pack_segment_header
from journal.index import add_row
from journal.names import ASIDE, checkpoint_name, parse_checkpoint, stem_of
from journal.newest import Newest, write_newest
from journal.scan import SegmentScan
from journal.segment import Segment
from journal.shipped import ShippedRecord

COPY_BYTES = 1 << 20
"""Bytes copied at a time."""


class Truncated(NamedTuple):
    """What a truncation has cut off.

    Attributes:
        records: how many.
        items: of each stream that they held items of, how many.
        kept: where they are kept, in order; `diverged_records` reads them.
    """

    records: int
    items: Mapping[int, int]
    kept: tuple[Path, ...]


class Cut(NamedTuple):
    """What is to be cut off: of the first of the segments from ``offset`` on, of the others everything."""

    segments: Sequence[Segment]
    lsn: int
    offset: int
    truncated: Truncated


def keep_copies(files: Files, directory: Path, run: Sequence[Segment], lsn: int) -> Cut:
    """Find what is behind the cut, and have a copy, durable, of what the first segment loses; the others are kept as they are.

    ``run`` are the last segments of the log, from the one that ``lsn`` is in.

    Raises:
        JournalDamagedError: a record cannot be read.
        OSError: the file system refuses.
    """
    items: dict[int, int] = {}
    records, offset = 0, 0
    for segment in run:
        rows: dict[int, StreamRows] = {}
        with SegmentScan(files, segment.path) as scan:
            for record in scan.records():
                if record.lsn >= lsn:
                    records += 1
                    offset = offset or record.offset
                    add_row(rows, record, segment.path)
            if scan.next_lsn < segment.stop_lsn:
                raise JournalDamagedError(segment.path, scan.end, scan.problem)
        for stream, columns in rows.items():
            items[stream] = items.get(stream, 0) + sum(columns.counts)
    first = run[0]
    names = set(files.names(directory))
    copy = directory / diverged_name(stem_of(lsn, first.header.segment_id), names)
    header = pack_segment_header(first.header._replace(first_lsn=lsn, recycled=False))
    _write(files, copy, header, files.open(first.path), offset, first.end)
    files.sync_directory(directory)
    names.add(copy.name)
    kept = [copy]
    for segment in run[1:]:
        kept.append(directory / diverged_name(segment.path.stem, names))
        names.add(kept[-1].name)
    return Cut(run, lsn, offset, Truncated(records, items, tuple(kept)))


def cut_off(files: Files, directory: Path, checkpoint: Checkpoint, cut: Cut) -> None:
    """Have the log end before the cut, durable when this returns. ``checkpoint`` is the newest there is.

    Raises:
        OSError: the file system refuses.
    """
    first = cut.segments[0]
    _leave_out(files, directory, checkpoint, cut)
    # Before what it named is gone.
    write_newest(files, directory, Newest(first.header.segment_id, first.header.first_lsn))
    for segment, kept in reversed(list(zip(cut.segments[1:], cut.truncated.kept[1:], strict=True))):
        _drop(files, segment.index_path)
        files.rename(segment.path, kept)
        files.sync_directory(directory)
    _drop(files, first.index_path)
    header = pack_segment_header(first.header)
    _write(files, first.path, header, files.open(first.path), SEGMENT_HEADER_BYTES, cut.offset)
    files.sync_directory(directory)


def diverged_records(files: Files, path: Path) -> Iterator[ShippedRecord]:
    """The records that a truncation has kept in a file.

    Raises:
        JournalDamagedError: it is no such file, or cannot be read.
    """
    with SegmentScan(files, path) as scan:
        for record in scan.records():
            if record.kind != CLOSED:
                yield ShippedRecord(record.lsn, record.epoch, record.kind, record.flags, (record.payload,))


def _leave_out(files: Files, directory: Path, checkpoint: Checkpoint, cut: Cut) -> None:
    """Have no checkpoint list a segment that goes, and the newest the segment that the log will go on in as such."""
    first = cut.segments[0]
    gone = {segment.header.segment_id for segment in cut.segments[1:]}
    listed = [facts for facts in checkpoint.segments if facts.segment_id not in gone]
    shorter = [
        facts._replace(stop_lsn=0, end=0, sealed=False) if facts.segment_id == first.header.segment_id else facts
        for facts in listed
    ]
    write_checkpoint(files, directory, checkpoint._replace(segments=tuple(shorter)))
    for name in files.names(directory):
        lsn = parse_checkpoint(name)
        if lsn is None or lsn == checkpoint.lsn:
            continue
        try:
            before = unpack_checkpoint(read_whole(files, directory / checkpoint_name(lsn)))
        except FormatError:
            continue  # a person looks at it, if anybody
        if any(facts.segment_id in gone for facts in before.segments):
            files.unlink(directory / name)
            files.sync_directory(directory)


def _write(files: Files, path: Path, header: bytes, source: int, start: int, stop: int) -> None:
    """Have ``path`` hold a header and bytes of a file, which is closed: durable, but for the name."""
    try:
        aside = path.with_name(path.name + ASIDE)
        target = create_anew(files, aside)
        try:
            at = write_all(files, target, [header], 0)
            while start < stop:
                data = read_exactly(files, source, min(COPY_BYTES, stop - start), start)
                if not data:
                    raise OSError(f"the file ended at offset {start} while it was copied")
                at = write_all(files, target, [data], at)
                start += len(data)
            files.sync(target)
        finally:
            files.close(target)
    finally:
        files.close(source)
    files.rename(aside, path)


def _drop(files: Files, path: Path) -> None:
    """Remove an index, if it is there: it speaks of the segment as it was."""
    if path.name in files.names(path.parent):
        files.unlink(path)
