"""One segment: what is known of it in memory, and how its file comes to be.

A segment's file gets its name only when its header is durable, so a file of that name without a valid header is damage.
"""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import TypeAlias

from journal.checkpoint_format import SegmentFacts
from journal.durable import create_anew, write_all
from journal.files import Buffer, Files
from journal.format import (
    LOG,
    SEGMENT_HEADER_BYTES,
    VERSION,
    SegmentHeader,
    StreamRows,
    Summary,
    pack_segment_header,
    salt_crc,
    summarize,
)
from journal.names import ASIDE, index_name, segment_name, stem_of
from journal.newest import Newest, write_newest

ALLOCATE_STEP = 8 << 20
"""Bytes by which a new file grows: few calls, and the disk that is used stays near what is stored."""
MARK_BYTES = 4
SALT_BYTES = 8

Append: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, tuple[Buffer, ...]]
"""A record on its way: offset, bytes of the whole record, lsn, kind, flags, payload bytes, stream, first, count, parts.

A plain tuple: hundreds of thousands are made a second.
"""


class Segment:
    """What the thread that appends knows of a segment. Only ``unwritten`` and ``indexed`` are touched by others.

    Attributes:
        header: id, kind, first lsn, salt.
        path: the file.
        salt_crc: what the checksums of its records start from.
        end: where its last record ends, what is not written yet included.
        stop_lsn: one more than the lsn of its last record.
        sealed: nothing more is appended.
        rows: stream -> its records, while they are loaded; always while it is not sealed.
        summary: what it holds of each stream, once it is sealed.
        unwritten: offset -> record, for those not in the file yet.
        indexed: its index is on disk and whole, so rows may be dropped.
        busy: it is being combined with others.
        stuck: it could not be combined (a record of it is damaged), so it is left alone.
    """

    __slots__ = (
        "busy",
        "end",
        "header",
        "indexed",
        "path",
        "rows",
        "salt_crc",
        "sealed",
        "stop_lsn",
        "stuck",
        "summary",
        "unwritten",
    )

    def __init__(self, directory: Path, header: SegmentHeader) -> None:
        self.header = header
        self.path = directory / segment_name(stem_of(header.first_lsn, header.segment_id))
        self.salt_crc = salt_crc(header.salt)
        self.end = SEGMENT_HEADER_BYTES
        self.stop_lsn = header.first_lsn
        self.sealed = False
        self.rows: dict[int, StreamRows] | None = {}
        self.summary: Summary | None = None
        self.unwritten: dict[int, Append] = {}
        self.indexed = False
        self.busy = False
        self.stuck = False

    @property
    def index_path(self) -> Path:
        """Where its index is, or will be."""
        return self.path.with_name(index_name(self.path.stem))

    def seal(self) -> None:
        """Nothing more is appended: sum its records up."""
        assert self.rows is not None
        self.sealed = True
        self.summary = summarize(self.rows)

    def facts(self) -> SegmentFacts:
        """The segment as a checkpoint lists it."""
        header = self.header
        if not self.sealed:
            return SegmentFacts(header.segment_id, header.kind, header.first_lsn, 0, 0, False)
        return SegmentFacts(header.segment_id, header.kind, header.first_lsn, self.stop_lsn, self.end, True)


def new_header(segment_id: int, first_lsn: int, kind: int = LOG, version: int = VERSION) -> SegmentHeader:
    """A header with a salt of its own."""
    salt = os.urandom(SALT_BYTES)
    while 0 in salt[:MARK_BYTES]:  # or every stretch of zeros would look like a record's mark
        salt = os.urandom(SALT_BYTES)
    return SegmentHeader(segment_id, kind, first_lsn, salt, version=version)


def make_segment_file(files: Files, segment: Segment, spares: deque[Path], segment_bytes: int) -> tuple[int, int]:
    """Have the file of a log segment, its header, its name and the note of it durable; a spare file is written over where there is one.

    Returns: the file, open for writing, and the bytes of it that are allocated. OSError as the file system raises it.
    """
    try:
        made_from = spares.popleft()
        file = files.open(made_from, write=True)
        allocated = files.size(file)
        segment.header = segment.header._replace(recycled=True)
    except IndexError:
        made_from = segment.path.with_name(segment.path.name + ASIDE)
        file = create_anew(files, made_from)
        allocated = 0
    try:
        if allocated < SEGMENT_HEADER_BYTES:
            allocated = min(ALLOCATE_STEP, segment_bytes)
            files.allocate(file, 0, allocated)
        write_all(files, file, [pack_segment_header(segment.header)], 0)
        files.sync(file)
        files.rename(made_from, segment.path)
        files.sync_directory(segment.path.parent)
        write_newest(files, segment.path.parent, Newest(segment.header.segment_id, segment.header.first_lsn))
    except OSError:
        files.close(file)
        raise
    return file, allocated
