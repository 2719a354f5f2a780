"""What a journal's directory holds, read without trusting any of it: `verify` reports on that, and `repair` mends it.

Nothing here raises for what a file contains.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from journal.checkpoint_format import Checkpoint, unpack_checkpoint
from journal.durable import read_exactly, read_whole
from journal.errors import FormatError, JournalDamagedError
from journal.files import Files
from journal.format import (
    COMPACTED,
    FIRST_LSN,
    GROUP_UNKNOWN,
    LOG,
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    StreamRows,
    unpack_segment_header,
)
from journal.index import add_row
from journal.names import parse_checkpoint, parse_segment, segment_name, stem_of
from journal.newest import Newest, read_newest
from journal.replica_file import Replica, read_replica
from journal.scan import ScannedRecord, SegmentScan


def lost_records(first: int, stop: int) -> str:
    """That the records first <= lsn < stop are gone, of which a segment need not have held all."""
    return (
        f"what it held of the records {first} to {stop - 1} is lost" if stop > first + 1 else f"record {first} is lost"
    )


class Hole(NamedTuple):
    """Bytes that are no record, where the one of this lsn should be, and why they are none.

    ``end`` is where the next whole record begins, and ``stop_lsn`` its lsn; where no other follows, and the hole is the file's tail,
    they are None and ``lsn``.
    """

    offset: int
    end: int | None
    lsn: int
    stop_lsn: int
    problem: str

    def __str__(self) -> str:
        where = "up to the end of the file" if self.end is None else f"up to offset {self.end}"
        return f"record {self.lsn} should be here, and {self.problem}; there is none {where}"

    def lost(self, stop: int | None) -> str:
        """The same, and what is lost with it; ``stop`` is one more than the last lsn that the file must hold, where that is known."""
        return f"{self}: {lost_records(self.lsn, stop or 0 if self.end is None else self.stop_lsn)}"


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment: what its name says, and its header or why there is none."""

    path: Path
    first_lsn: int
    segment_id: int
    header: SegmentHeader | None
    problem: str


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    """A checkpoint: the lsn that its name says, and what it holds or why that cannot be read."""

    path: Path
    lsn: int
    checkpoint: Checkpoint | None
    problem: str


@dataclass(slots=True)
class Contents:
    """One segment, read to its end.

    Attributes:
        stop_lsn: one more than the last whole record's lsn; the first lsn where there is none.
        end: where the last whole record ends.
        holes: what is between whole records, and what is behind the last if a record was begun there.
        proven: how many of the holes, from the first on, a later record proves to have been durable once.
        rows: by stream, the records with items.
        misshapen: offset and lsn of whole records with items that are none, or that come twice.
        epoch: the highest in any record.
        problem: why no record follows the last whole one.
    """

    stop_lsn: int
    end: int = SEGMENT_HEADER_BYTES
    holes: list[Hole] = field(default_factory=list)
    proven: int = 0
    rows: dict[int, StreamRows] = field(default_factory=dict)
    misshapen: list[tuple[int, int]] = field(default_factory=list)
    epoch: int = 0
    problem: str = ""

    @property
    def ends_whole(self) -> bool:
        """Whether nothing was begun behind the last whole record."""
        return not self.holes or self.holes[-1].end is not None


@dataclass(frozen=True, slots=True)
class Survey:
    """A directory: checkpoints from the newest on, segments by first lsn; other names are not looked at.

    ``newest`` is the segment that was made last, as the note of it says, and ``note_problem`` why that cannot be read. ``replica`` is
    what the directory says that it has promised, and ``replica_problem`` why that cannot be read.
    """

    directory: Path
    checkpoints: list[CheckpointFile]
    segments: list[SegmentFile]
    newest: Newest | None = None
    note_problem: str = ""
    replica: Replica | None = None
    replica_problem: str = ""

    @property
    def durable(self) -> int:
        """Every record below it is known to have been durable."""
        base, replica = self.base, self.replica
        noted = [replica.durable] if replica else []
        if base is not None:
            noted.append(base.durable)
        return max(noted, default=FIRST_LSN)

    @property
    def gone(self) -> list[Path]:
        """The segments that must be there, by the checkpoint and the note, and are not."""
        there = {(file.first_lsn, file.segment_id) for file in self.segments}
        listed = [(facts.first_lsn, facts.segment_id) for facts in self.base.segments] if self.base else []
        gone = [named for named in listed if named not in there]
        if self.newest is not None and self.newest.is_missing(there):
            gone.append((self.newest.first_lsn, self.newest.segment_id))
        return [self.directory / segment_name(stem_of(*named)) for named in dict.fromkeys(gone)]

    @property
    def unlisted(self) -> list[Path]:
        """The combined segments that a start would take for the log. They were made before a later checkpoint, which is gone."""
        base = self.base
        listed = {facts.segment_id for facts in base.segments} if base else set()
        start = base.lsn if base else FIRST_LSN
        return [
            file.path
            for file in self.segments
            if file.header is not None
            and file.header.kind == COMPACTED
            and file.segment_id not in listed
            and file.first_lsn >= start
        ]

    @property
    def base(self) -> Checkpoint | None:
        """The newest checkpoint that can be read."""
        return next((file.checkpoint for file in self.checkpoints if file.checkpoint is not None), None)

    def in_use(self) -> list[SegmentFile]:
        """The segments that the checkpoint lists, and the log after it; the others wait to be removed."""
        base = self.base
        listed = {facts.segment_id for facts in base.segments} if base else set()
        start = base.lsn if base else 0
        return [
            file
            for file in self.segments
            if file.segment_id in listed
            or (file.first_lsn >= start and (file.header is None or file.header.kind == LOG))
        ]


def look(directory: Path, files: Files) -> Survey:
    """Read the names, the checkpoints and the headers of the segments of a directory.

    Raises:
        OSError: the directory itself cannot be read.
    """
    checkpoints = []
    segments = []
    for name in files.names(directory):
        path = directory / name
        lsn = parse_checkpoint(name)
        named = parse_segment(name)
        if lsn is not None:
            checkpoints.append(_look_at_checkpoint(path, lsn, files))
        elif named is not None:
            segments.append(look_at_segment(path, *named, files))
    checkpoints.sort(key=lambda file: file.lsn, reverse=True)
    segments.sort(key=lambda file: (file.first_lsn, file.segment_id))
    newest, replica, note_problem, replica_problem = None, None, "", ""
    try:
        newest = read_newest(files, directory)
    except (FormatError, OSError) as error:
        note_problem = str(error)
    try:
        replica = read_replica(files, directory)
    except (FormatError, OSError) as error:
        replica_problem = str(error)
    return Survey(directory, checkpoints, segments, newest, note_problem, replica, replica_problem)


def pieces(scan: SegmentScan) -> Iterator[ScannedRecord | Hole]:
    """Every whole record of a segment and every hole, in order.

    Raises:
        JournalDamagedError: the file cannot be read.
    """
    while True:
        yield from scan.records()
        offset, lsn, problem = scan.end, scan.next_lsn, scan.problem
        following = next((record for record in scan.later_records(offset) if record.lsn >= lsn), None)
        if following is None:
            if scan.torn_bytes():
                yield Hole(offset, None, lsn, lsn, problem)
            return
        yield Hole(offset, following.offset, lsn, following.lsn, problem)
        scan.end, scan.next_lsn = following.offset, following.lsn


def read_contents(scan: SegmentScan) -> Contents:
    """Read a segment to its end.

    Raises:
        JournalDamagedError: the file cannot be read.
    """
    contents = Contents(scan.header.first_lsn)
    for piece in pieces(scan):
        if isinstance(piece, Hole):
            contents.holes.append(piece)
            continue
        contents.stop_lsn = piece.lsn + 1
        contents.end = piece.end
        contents.epoch = max(contents.epoch, piece.epoch)
        if piece.group != GROUP_UNKNOWN:
            synced = piece.lsn - piece.group
            while contents.proven < len(contents.holes) and contents.holes[contents.proven].lsn < synced:
                contents.proven += 1
        try:
            add_row(contents.rows, piece, scan.path)
        except JournalDamagedError:
            contents.misshapen.append((piece.offset, piece.lsn))
    contents.problem = scan.problem
    return contents


def _look_at_checkpoint(path: Path, lsn: int, files: Files) -> CheckpointFile:
    try:
        checkpoint = unpack_checkpoint(read_whole(files, path))
    except (FormatError, OSError) as error:
        return CheckpointFile(path, lsn, None, str(error))
    if checkpoint.lsn != lsn:
        return CheckpointFile(path, lsn, None, f"it holds the checkpoint before record {checkpoint.lsn}")
    return CheckpointFile(path, lsn, checkpoint, "")


def look_at_segment(path: Path, first_lsn: int, segment_id: int, files: Files) -> SegmentFile:
    """A segment and its header, or why that cannot be read."""
    header = None
    try:
        file = files.open(path)
        try:
            header = unpack_segment_header(read_exactly(files, file, SEGMENT_HEADER_BYTES, 0))
        finally:
            files.close(file)
    except (FormatError, OSError) as error:
        return SegmentFile(path, first_lsn, segment_id, None, str(error))
    if (header.first_lsn, header.segment_id) != (first_lsn, segment_id):
        said = f"its header is that of {stem_of(header.first_lsn, header.segment_id)}"
        return SegmentFile(path, first_lsn, segment_id, None, said)
    return SegmentFile(path, first_lsn, segment_id, header, "")
