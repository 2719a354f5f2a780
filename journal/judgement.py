"""What is wrong in one segment. `verify` reports it and `repair` mends it by the same judgement, so the two cannot differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from journal.checkpoint_format import SegmentFacts
from journal.durable import read_whole
from journal.errors import FormatError, JournalDamagedError
from journal.files import Files
from journal.format import LOG, unpack_index_header, unpack_rows, unpack_summary
from journal.names import index_name
from journal.scan import SegmentScan
from journal.survey import Contents, SegmentFile, lost_records, read_contents


class Finding(NamedTuple):
    """Something that is not as the journal left it.

    Attributes:
        file: where.
        offset: from which byte on.
        text: what is wrong, for a person.
        fatal: whether it keeps the journal from being opened, or some item from being read; what is not, the next start mends.
    """

    file: Path
    offset: int
    text: str
    fatal: bool

    def __str__(self) -> str:
        return f"{self.file}, offset {self.offset}: {self.text}{'' if self.fatal else ' (the next start mends this)'}"


class Expected(NamedTuple):
    """What is known of a segment from elsewhere.

    Attributes:
        facts: what the checkpoint says of it; None where that does not list it.
        durable: for the segment that the log goes on in, whose tail may be torn, the lsn below which nothing can be; else None.
        following: the first lsn of the log segment behind it; None where there is none, or it is none of the log.
    """

    facts: SegmentFacts | None
    durable: int | None
    following: int | None

    @property
    def stop_lsn(self) -> int | None:
        """One more than the last lsn that a sealed segment must hold; None where nobody knows."""
        return self.facts.stop_lsn if self.facts is not None and self.facts.sealed else self.following

    @property
    def must_hold(self) -> int | None:
        """One more than the last lsn that the segment must hold; None where nobody knows."""
        return self.durable if self.stop_lsn is None else self.stop_lsn


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a segment holds, None where it cannot be read, and what is wrong with it and with its index."""

    contents: Contents | None
    segment: list[Finding]
    index: list[Finding]

    @property
    def fatal(self) -> bool:
        """Whether the segment itself has lost something: it has to be written again without its damage."""
        return any(finding.fatal for finding in self.segment)


def expectations(
    in_use: list[SegmentFile], listed: dict[int, SegmentFacts], durable: int
) -> Iterator[tuple[SegmentFile, Expected]]:
    """What is known of each segment in use; ``durable`` is the lsn below which everything is known to have been that."""
    logs = [file for file in in_use if file.header is None or file.header.kind == LOG]
    following = {before.path: after.first_lsn for before, after in pairwise(logs)}
    for file in in_use:
        facts = listed.get(file.segment_id)
        goes_on = bool(logs) and file is logs[-1] and not (facts is not None and facts.sealed)
        yield file, Expected(facts, durable if goes_on else None, following.get(file.path))


def judge(file: SegmentFile, expected: Expected, files: Files) -> Judgement:
    """Read a segment, whose header is whole, to its end."""
    try:
        with SegmentScan(files, file.path) as scan:
            contents = read_contents(scan)
    except JournalDamagedError as error:
        return Judgement(None, [Finding(error.file, error.offset, error.text, fatal=True)], [])
    found = [*(_sealed if expected.durable is None else _going_on)(file, contents, expected)]
    found += (
        Finding(file.path, offset, f"record {lsn} has impossible items: none, or some that come twice", fatal=True)
        for offset, lsn in contents.misshapen
    )
    whole = not any(finding.fatal for finding in found)
    return Judgement(contents, found, [*_index(file, contents, whole, files)])


def _sealed(file: SegmentFile, contents: Contents, expected: Expected) -> Iterator[Finding]:
    """Of a segment to which nothing is appended any more, every byte was durable: whatever is no record is damage."""
    stop, facts = expected.stop_lsn, expected.facts
    short = stop is not None and contents.stop_lsn < stop
    said = False
    for hole in contents.holes:
        # Behind the last record that it must hold anything may stand.
        if hole.end is not None or short:
            said = True
            yield Finding(file.path, hole.offset, hole.lost(stop), fatal=True)
    if facts is None or not facts.sealed:
        return
    if short and contents.ends_whole:
        lost = lost_records(contents.stop_lsn, facts.stop_lsn)
        text = f"the records end here, and the checkpoint says that they do at offset {facts.end}: {lost}"
        yield Finding(file.path, contents.end, text, fatal=True)
    elif not said and (contents.stop_lsn, contents.end) != (facts.stop_lsn, facts.end):
        text = f"record {contents.stop_lsn - 1} ends here, and the checkpoint says that {facts.stop_lsn - 1} does at {facts.end}"
        yield Finding(file.path, contents.end, text, fatal=True)


def _going_on(file: SegmentFile, contents: Contents, expected: Expected) -> Iterator[Finding]:
    """The segment that the log goes on in may end in a write that was never synced, which the next start cuts off."""
    durable = expected.durable or 0
    for number, hole in enumerate(contents.holes):
        if number < contents.proven or hole.lsn < durable:
            yield Finding(file.path, hole.offset, hole.lost(durable), fatal=True)
        else:
            yield Finding(file.path, hole.offset, f"{hole}: a write that was never synced", fatal=False)
            break
    if contents.stop_lsn < durable and contents.ends_whole:
        text = f"record {durable - 1} was durable, as is noted, and the last is {contents.stop_lsn - 1}"
        yield Finding(file.path, contents.end, text, fatal=True)


def _index(file: SegmentFile, contents: Contents, whole: bool, files: Files) -> Iterator[Finding]:
    """An index that does not say what its segment holds, if that is ``whole``; a missing one is made again."""
    path = file.path.with_name(index_name(file.path.stem))
    if path.name not in files.names(path.parent):
        return
    try:
        data = read_whole(files, path)
        header = unpack_index_header(data)
        rows = unpack_rows(header, unpack_summary(header, data), data)
    except (FormatError, OSError) as error:
        yield Finding(path, 0, f"this is no whole index: {error}", fatal=False)
        return
    said = (header.segment_id, header.first_lsn, header.stop_lsn, header.end)
    same = said == (file.segment_id, file.first_lsn, contents.stop_lsn, contents.end)
    if same and whole and rows != contents.rows:
        yield Finding(path, 0, "it does not say what is in its segment", fatal=True)
