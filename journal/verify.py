"""Reading all that a journal's directory holds, and saying what is wrong with it; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from journal.directory import lock, may_be_made, refuse_backup, refuse_installing, require_journal
from journal.encountered import read_encountered
from journal.errors import FormatError, TransferUnfinishedError
from journal.files import Files, OsFiles
from journal.format import FIRST_LSN, LOG
from journal.judgement import Finding, expectations, judge
from journal.names import ASIDE, ENCOUNTERED, NEWEST, REPLICA, TRANSFER
from journal.newest import left_open
from journal.survey import SegmentFile, Survey, look


def verify(directory: Path, files: Files | None = None) -> list[Finding]:
    """Check every record of every segment, every index and every checkpoint; an empty list says that all is well.

    Nothing is written, a lock's file included: one that is there keeps brokers out, and where there is none, none is at work.

    Raises:
        JournalMissingError: there is no journal.
        JournalLockedError: a broker is at work in the directory.
        TransferUnfinishedError: it is no whole journal yet.
        ReplicaError: another journal is being put into its place.
    """
    files = OsFiles() if files is None else files
    require_journal(directory, files)
    held = lock(directory, files, make=False)
    try:
        names = files.names(directory)
        if TRANSFER in names:
            raise TransferUnfinishedError(directory)
        refuse_installing(directory, names)
        return list(findings(directory, files))
    except OSError as error:
        return [Finding(directory, 0, f"it cannot be read: {error}", fatal=True)]
    finally:
        if held is not None:
            files.close(held)


def glance(directory: Path, files: Files | None = None) -> list[Finding]:
    """What of all that `verify` finds can be found without reading a record, and keeps a journal from being opened.

    Names, checkpoints and the headers of segments are read, so a file of another version is found. Nothing is written. A directory
    that is not there, or is empty, has nothing wrong: `Journal.open` makes it.

    Raises:
        BackupError: it is a backup.
        JournalMissingError: it, or one above it, is a file.
        JournalLockedError: a broker is at work in the directory.
        OSError: it cannot be read.
    """
    files = OsFiles() if files is None else files
    if may_be_made(directory, files):
        return []
    refuse_backup(directory, files)
    held = lock(directory, files, make=False)
    try:
        survey = look(directory, files)
        headers = [_no_segment(file) for file in survey.in_use() if file.header is None]
        return [finding for finding in (*_names(survey, files), *headers) if finding.fatal]
    finally:
        if held is not None:
            files.close(held)


def findings(directory: Path, files: Files) -> Iterator[Finding]:
    """What `verify` returns, one by one, for who holds the lock; OSError where the directory cannot be read."""
    survey = look(directory, files)
    yield from _names(survey, files)
    yield from _segments(survey, files)


def _names(survey: Survey, files: Files) -> Iterator[Finding]:
    """What is wrong beside the segments' own contents."""
    directory = survey.directory
    yield from (
        Finding(directory / name, 0, "the rest of a write that was not finished", fatal=False)
        for name in files.names(directory)
        if name.endswith(ASIDE)
    )
    for age, file in enumerate(survey.checkpoints):
        if file.checkpoint is None:
            yield Finding(file.path, 0, f"this is no whole checkpoint: {file.problem}", fatal=age == 0)
    yield from _encountered(directory, files)
    if survey.note_problem:
        yield Finding(directory / NEWEST, 0, f"this is no whole note: {left_open(survey.note_problem)}", fatal=False)
    if survey.replica_problem:
        text = f"nobody can tell what this replica has promised: {survey.replica_problem}"
        yield Finding(directory / REPLICA, 0, text, fatal=True)
    for path in survey.gone:
        yield Finding(path, 0, "the file is gone, and what is in it is needed", fatal=True)
    for path in survey.unlisted:
        yield Finding(
            path, 0, "it was combined from others, and no checkpoint lists it: a later one is gone", fatal=True
        )


def _no_segment(file: SegmentFile) -> Finding:
    return Finding(file.path, 0, f"this is no segment: {file.problem}", fatal=True)


def _encountered(directory: Path, files: Files) -> Iterator[Finding]:
    """The note of a broker that has ended on damage: what is damaged is found anyway, and said where it is."""
    try:
        noted = read_encountered(files, directory)
    except (FormatError, OSError) as error:
        yield Finding(directory / ENCOUNTERED, 0, str(error), fatal=False)
        return
    if noted is not None:
        text = f"a broker ended on damage in {noted.name}, offset {noted.offset}; the next start looks there first"
        yield Finding(directory / ENCOUNTERED, 0, text, fatal=False)


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
    for file, expected in expectations(in_use, listed, survey.durable):
        is_log = file.header is None or file.header.kind == LOG
        if is_log and before is not None and file.first_lsn > stop:
            yield before._replace(text=f"the records {stop} to {file.first_lsn - 1} should be here, and {before.text}")
        if is_log and file.first_lsn < covered:
            yield Finding(
                file.path, 0, f"it begins before record {covered - 1}, with which the one before it ends", fatal=True
            )
        if file.header is None:
            yield _no_segment(file)
            contents, said = None, True
        else:
            judgement = judge(file, expected, files)
            contents, said = judgement.contents, judgement.fatal
            yield from judgement.segment
            yield from judgement.index
        if is_log:
            whole = contents is not None and (contents.ends_whole or not said)
            before = Finding(file.path, contents.end, contents.problem, fatal=True) if contents and whole else None
            covered = max(covered, contents.stop_lsn if contents else 0)
            stop = max(stop, covered)
    if base is not None and not logs:
        yield Finding(survey.directory, 0, "there is no segment to go on in", fatal=True)
