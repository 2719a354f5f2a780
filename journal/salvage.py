"""What a repair finds again in combined segments that no checkpoint lists: records that no other file holds, and where they go.

The segments of a journal follow one another: no record of one lies between two of another, or what is behind it would not be found. So a
record goes back into the segment whose place it is of, where that has a hole, or into a segment between those that there are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from journal.checkpoint_format import SegmentFacts
from journal.errors import JournalDamagedError
from journal.files import Files
from journal.format import LOG, VERSION, SegmentHeader
from journal.judgement import expectations
from journal.scan import ScannedRecord, SegmentScan
from journal.survey import Contents, Hole, SegmentFile, pieces, read_contents

MAX_FILLED = 1 << 24
"""Lost records that are replaced by empty ones in one place, 28 bytes each; what lies behind a wider gap is set aside."""

Span = tuple[int, int]
"""Lsns, as (first, stop)."""


@dataclass(slots=True)
class FoundAgain:
    """Records by lsn that go back into segments in use, and the version of a segment that those ask for."""

    records: dict[int, ScannedRecord] = field(default_factory=dict)
    version: int = VERSION

    def note(self, record: ScannedRecord, version: int) -> None:
        """A record of a segment of this version was found."""
        self.records[record.lsn] = record
        self.version = max(self.version, version)

    def between(self, first: int, stop: int) -> list[ScannedRecord]:
        """Those with these lsns, in order."""
        return [self.records[lsn] for lsn in sorted(lsn for lsn in self.records if first <= lsn < stop)]

    def header(self, header: SegmentHeader, stop: int) -> SegmentHeader:
        """A header of a segment that is written again up to this lsn: of the version that what goes into it asks for."""
        takes = header.kind == LOG or bool(self.between(header.first_lsn, stop))
        return header._replace(version=max(header.version, self.version)) if takes else header


@dataclass(frozen=True, slots=True)
class Salvaged:
    """A combined segment that alone holds some records, in order; ``others`` is how many more it has, which are held elsewhere."""

    file: SegmentFile
    version: int
    alone: list[ScannedRecord]
    others: int


def contents_of(file: SegmentFile, files: Files) -> Contents | None:
    """What a segment holds; None where it cannot be read at all."""
    try:
        with SegmentScan(files, file.path) as scan:
            return read_contents(scan)
    except JournalDamagedError:
        return None


def spans_of(
    in_use: Sequence[SegmentFile], listed: dict[int, SegmentFacts], start: int, files: Files
) -> tuple[list[Span], list[Span]]:
    """The lsns that segments in use hold, and those from the first to the last that each has, or had; both ascending."""
    held: list[Span] = []
    places: list[Span] = []
    ordered = sorted(in_use, key=lambda file: (file.first_lsn, file.segment_id))
    for file, known in expectations(ordered, listed, start):
        contents = contents_of(file, files)
        if contents is None:
            continue
        first, stop = file.first_lsn, contents.stop_lsn
        for hole in contents.holes:
            held.append((first, hole.lsn))
            first = hole.stop_lsn
        held.append((first, stop))
        must = known.must_hold
        if must is not None and stop < must <= stop + MAX_FILLED:
            stop = must
        places.append((file.first_lsn, stop))
    return sorted(held), sorted(places)


def salvage(
    unused: Iterable[SegmentFile], held: list[Span], places: list[Span], start: int, again: FoundAgain, files: Files
) -> Iterator[Salvaged]:
    """The combined segments that alone hold some record of no segment's place; what is of one's, or behind ``start``, is found again."""
    held_from, placed_from = [first for first, _ in held], [first for first, _ in places]
    seen: set[int] = set()
    for file in unused:
        alone: list[ScannedRecord] = []
        others = 0
        with SegmentScan(files, file.path) as scan:
            for piece in pieces(scan):
                if isinstance(piece, Hole):
                    continue
                lsn = piece.lsn
                if _within(held, held_from, lsn) or lsn in again.records or lsn in seen:
                    others += 1
                elif lsn < start and not _within(places, placed_from, lsn):
                    alone.append(piece)
                    seen.add(lsn)
                else:
                    others += 1
                    again.note(piece, scan.header.version)
            version = scan.header.version
        if alone:
            yield Salvaged(file, version, alone, others)


def _within(spans: list[Span], starts: list[int], lsn: int) -> bool:
    at = bisect_right(starts, lsn) - 1
    return at >= 0 and lsn < spans[at][1]


def gap_of(places: list[Span], lsn: int) -> int:
    """Between which segments an lsn is, as a number; -1 of one that is in a segment's place."""
    starts = [first for first, _ in places]
    return -1 if _within(places, starts, lsn) else bisect_right(starts, lsn)


def fits_between(found: Salvaged, places: list[Span]) -> bool:
    """Whether no segment lies between what one begins with, as its name says, and the last that it alone holds."""
    lsns = (found.file.first_lsn, *(record.lsn for record in found.alone))
    gaps = {gap_of(places, lsn) for lsn in lsns}
    return len(gaps) == 1 and gaps != {-1}


def runs_of(found: Sequence[Salvaged], places: list[Span]) -> list[list[ScannedRecord]]:
    """All that is held alone, in order, cut where a segment lies between two of them."""
    records = sorted((record for each in found for record in each.alone), key=lambda record: record.lsn)
    return [list(run) for _, run in groupby(records, key=lambda record: gap_of(places, record.lsn))]
