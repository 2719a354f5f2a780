"""Reading all that a journal's directory holds, and saying what is wrong with it; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from journal.durable import read_whole
from journal.errors import FormatError, JournalDamagedError
from journal.files import Files, OsFiles
from journal.format import (
    FIRST_LSN,
    LOG,
    SegmentFacts,
    unpack_index_header,
    unpack_rows,
    unpack_summary,
)
from journal.names import ASIDE, index_name, segment_name, stem_of
from journal.scan import SegmentScan
from journal.survey import Contents, SegmentFile, Survey, lock, look, read_contents


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


def verify(directory: Path, files: Files | None = None) -> list[Finding]:
    """Check every record of every segment, every index and every checkpoint; an empty list says that all is well.

    Raises:
        JournalLockedError: a broker is at work in the directory.
    """
    files = OsFiles() if files is None else files
    held = lock(directory, files)
    try:
        return list(findings(directory, files))
    except OSError as error:
        return [Finding(directory, 0, f"it cannot be read: {error}", fatal=True)]
    finally:
        if held is not None:
            files.close(held)


def findings(directory: Path, files: Files) -> Iterator[Finding]:
    """What `verify` returns, one by one, for who holds the lock; OSError where the directory cannot be read."""
    survey = look(directory, files)
    yield from (
        Finding(directory / name, 0, "the rest of a write that was not finished", fatal=False)
        for name in files.names(directory)
        if name.endswith(ASIDE)
    )
    for age, file in enumerate(survey.checkpoints):
        if file.checkpoint is None:
            yield Finding(file.path, 0, f"this is no whole checkpoint: {file.problem}", fatal=age == 0)
    yield from _missing(survey)
    yield from _segments(survey, files)


def _missing(survey: Survey) -> Iterator[Finding]:
    """Segments that the checkpoint lists and that are not there."""
    there = {file.segment_id for file in survey.segments}
    for facts in survey.base.segments if survey.base else ():
        if facts.segment_id not in there:
            name = segment_name(stem_of(facts.first_lsn, facts.segment_id))
            yield Finding(survey.directory / name, 0, "the file is gone, and the checkpoint needs it", fatal=True)


def _segments(survey: Survey, files: Files) -> Iterator[Finding]:
    """What is wrong inside the segments that are in use, and between them."""
    base = survey.base
    listed = {facts.segment_id: facts for facts in base.segments} if base else {}
    start = base.lsn if base else FIRST_LSN
    in_use = survey.in_use()
    logs = [file for file in in_use if file.header is None or file.header.kind == LOG]
    before: Finding | None = Finding(survey.directory, 0, "there is no log", fatal=True)
    """What is wrong where the log so far ends, should records be missing there; None where that was said already."""
    stop, covered = start, 0
    for file in in_use:
        is_log = file.header is None or file.header.kind == LOG
        if is_log and before is not None and file.first_lsn > stop:
            yield before._replace(text=f"the records {stop} to {file.first_lsn - 1} should be here, and {before.text}")
        if is_log and file.first_lsn < covered:
            yield Finding(
                file.path, 0, f"it begins before record {covered - 1}, with which the one before it ends", fatal=True
            )
        if file.header is None:
            yield Finding(file.path, 0, f"this is no segment: {file.problem}", fatal=True)
            contents = None
        else:
            contents, found = _contents(file, listed.get(file.segment_id), start if file is logs[-1] else None, files)
            yield from found
        if is_log:
            before = Finding(file.path, contents.end, contents.problem, fatal=True) if contents else None
            covered = max(covered, contents.stop_lsn if contents else 0)
            stop = max(stop, covered)
    if base is not None and not logs:
        yield Finding(survey.directory, 0, "there is no segment to go on in", fatal=True)


def _contents(
    file: SegmentFile, facts: SegmentFacts | None, durable: int | None, files: Files
) -> tuple[Contents | None, list[Finding]]:
    """A segment's contents, None where they cannot be read, and what is wrong with them."""
    try:
        with SegmentScan(files, file.path) as scan:
            contents = read_contents(scan)
    except JournalDamagedError as error:
        return None, [Finding(error.file, error.offset, str(error), fatal=True)]
    found = [*_holes(file, contents, durable), *index_findings(file, contents, files)]
    short = facts is not None and facts.sealed and (contents.stop_lsn, contents.end) != (facts.stop_lsn, facts.end)
    if facts is not None and short and not any(finding.fatal for finding in found):
        text = f"the records end here, and the checkpoint says that record {facts.stop_lsn - 1} ends at {facts.end}"
        found.append(Finding(file.path, contents.end, text, fatal=True))
    return contents, found


def _holes(file: SegmentFile, contents: Contents, durable: int | None) -> Iterator[Finding]:
    """What in a segment is no record.

    ``durable``: for the last segment of the log, whose tail may be torn, the lsn below which nothing can be; None for another.
    """
    for number, hole in enumerate(contents.holes):
        where = "up to the end of the file" if hole.end is None else f"up to offset {hole.end}"
        text = f"record {hole.lsn} should be here, and {hole.problem}; there is none {where}"
        if durable is None:
            if hole.end is not None:
                yield Finding(file.path, hole.offset, text, fatal=True)
        elif number < contents.proven or hole.lsn < durable:
            yield Finding(file.path, hole.offset, text, fatal=True)
        else:
            yield Finding(file.path, hole.offset, f"{text}: a write that was never synced", fatal=False)
            break
    if durable is not None and contents.stop_lsn < durable and not any(hole.end is None for hole in contents.holes):
        text = f"record {durable - 1} was durable, as the checkpoint shows, and the last is {contents.stop_lsn - 1}"
        yield Finding(file.path, contents.end, text, fatal=True)
    for offset in contents.misshapen:
        yield Finding(file.path, offset, "a record whose items are none, or come twice", fatal=True)


def index_findings(file: SegmentFile, contents: Contents, files: Files) -> Iterator[Finding]:
    """An index that does not say what its segment holds; a missing one is made again."""
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
    whole = not contents.misshapen and all(hole.end is None for hole in contents.holes)
    if same and whole and rows != contents.rows:
        yield Finding(path, 0, "it does not say what is in its segment", fatal=True)
