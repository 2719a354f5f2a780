"""A data directory made of a backup; and a backup of a directory that no broker has open, which is the same the other way round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from journal.backup import (
    NOTES,
    PARTIAL,
    BackupFile,
    BackupWriter,
    JournalWriter,
    Manifest,
    differences,
    pieces_of,
    read_manifest,
)
from journal.checkpoint_format import Checkpoint, pack_checkpoint, unpack_checkpoint
from journal.directory import lock, refuse_backup, refuse_installing, require_journal
from journal.durable import read_whole, write_aside
from journal.errors import BackupError, FormatError, JournalDamagedError
from journal.files import Files
from journal.format import LOG
from journal.names import BACKUP, LOCK, checkpoint_name, index_name, is_part, parse_checkpoint
from journal.scan import SegmentScan
from journal.survey import look
from journal.verify import findings

RESTORING = b'{"restoring": true}\n'
"""Stands in place of the manifest while a directory is being written, so that nothing opens it."""

Change = Callable[[Checkpoint], Checkpoint]


def restore(source: Path, target: Path, files: Files, change: Change) -> Manifest:
    """Copy a backup into a directory that is not there, or empty; what the backup says of itself.

    ``change`` gives the checkpoint that is written in place of the backup's. A directory that is not there gets its name when all is
    done. One that is there cannot be opened before.

    Raises:
        BackupError: the source is no whole backup, or the target holds something. Nothing is left behind.
        OSError: the file system refuses.
    """
    manifest = read_manifest(files, source)
    there = _is_there(target, files)
    work = target if there else target.with_name(target.name + PARTIAL)
    if not there:
        files.make_directory(work)
    try:
        held = files.lock(work / LOCK)
    except BlockingIOError:
        raise BackupError(f"another restore is at work in {work}") from None
    writer = JournalWriter(work, files)
    try:
        _clear(work, files)
        write_aside(files, work / BACKUP, [RESTORING])
        files.sync_directory(work)
        for file in manifest.files:
            _copy(writer, source, file, files, change)
        writer.note_newest()
        files.sync_directory(work)
        _check(work, files)
        files.unlink(work / BACKUP)
        files.sync_directory(work)
        if not there:
            files.rename(work, target)
        files.sync_directory(target.parent)
    except BaseException as error:
        writer.close()
        with suppress(OSError):
            _clear(work, files)
            files.unlink(work / LOCK)
            if not there:
                files.remove_directory(work)
        files.close(held)
        if isinstance(error, JournalDamagedError):
            raise BackupError(f"the backup {source} is damaged: {error}") from error
        raise
    files.close(held)
    return manifest


def _is_there(target: Path, files: Files) -> bool:
    """Whether the directory is there, and may be written into.

    Raises:
        BackupError: it holds something.
    """
    try:
        names = set(files.names(target))
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        raise BackupError(f"{target} is a file, or below one: name a directory that is not there, or empty") from None
    unfinished = BACKUP in names and read_whole(files, target / BACKUP) == RESTORING
    if names - {LOCK} and not unfinished:
        what = "holds a journal" if any(map(is_part, names)) else "is not empty"
        raise BackupError(f"{target} {what}: name a directory that is not there, or empty")
    return True


def _clear(directory: Path, files: Files) -> None:
    """Remove what a restore has written: the mark last, for until then the rest is opened by nobody."""
    names = [name for name in files.names(directory) if name != LOCK]
    for name in sorted(names, key=lambda name: name == BACKUP):
        if not (is_part(name) or name in NOTES or name.startswith(BACKUP)):
            raise BackupError(f"{directory / name} is no part of a restore: remove {directory}")
        files.unlink(directory / name)


def _copy(writer: JournalWriter, source: Path, file: BackupFile, files: Files, change: Change) -> None:
    lsn = parse_checkpoint(file.name)
    if problems := list(differences(files, source, file)) if lsn is not None else ():
        raise _not_whole(source, problems)
    try:
        writer.begin(file.name)
        if lsn is not None:
            # What is restored is no replica of the cluster that was backed up.
            checkpoint = change(unpack_checkpoint(read_whole(files, source / file.name))).alone()
            writer.write(pack_checkpoint(checkpoint))
        else:
            for piece in pieces_of(files, source / file.name):
                writer.write(piece)
    except (FormatError, FileNotFoundError) as error:
        raise _not_whole(source, [f"{file.name}: {error}"]) from error
    written = writer.end()
    if lsn is None and written != file:
        raise _not_whole(
            source, list(differences(files, source, file)) or [f"{file.name}: it changes while it is read"]
        )


def _not_whole(source: Path, problems: Sequence[str]) -> BackupError:
    return BackupError(
        f"the backup {source} is damaged: {problems[0]}; nothing was restored. Use another one; or copy the directory, remove {BACKUP} "
        f"from the copy, and `penstock journal repair` keeps everything in it that is whole"
    )


def _check(directory: Path, files: Files) -> None:
    for finding in findings(directory, files):
        if finding.fatal:
            raise BackupError(f"what was restored is damaged: {finding.file}:{finding.offset}: {finding.text}")


def back_up_directory(directory: Path, target: Path, manifest: Manifest, files: Files) -> Manifest:
    """Make a backup of a journal that no broker has open; ``manifest`` says what its checkpoint does not.

    Raises:
        BackupError: the target is there, or the journal is damaged.
        JournalMissingError: there is no journal.
        JournalLockedError: a broker is at work in it.
        ReplicaError: another journal is being put into its place.
        OSError: the file system refuses.
    """
    require_journal(directory, files)
    refuse_backup(directory, files)
    held = lock(directory, files, make=False)
    try:
        refuse_installing(directory, files.names(directory))
        writer = BackupWriter(target, files)
        try:
            survey = look(directory, files)
            base = survey.base
            if base is None:
                raise BackupError(
                    f"{directory} has no whole checkpoint: `penstock journal verify {directory}` says more"
                )
            names = [checkpoint_name(base.lsn)]
            for segment in survey.in_use():
                names += (segment.path.name, index_name(segment.path.stem))
            there = set(files.names(directory))
            for name in (*names, *sorted(NOTES)):
                if name in there:
                    writer.begin(name)
                    for piece in pieces_of(files, directory / name):
                        writer.write(piece)
                    writer.end()
            logs = [file.path for file in survey.in_use() if file.header is not None and file.header.kind == LOG]
            lsn = max(base.lsn, _end_of(logs[-1], files) if logs else 0)
            return writer.finish(replace(manifest, epoch=base.epoch, lsn=lsn))
        finally:
            writer.give_up()
    finally:
        if held is not None:
            files.close(held)


def _end_of(segment: Path, files: Files) -> int:
    """One more than the last lsn of a segment."""
    with SegmentScan(files, segment) as scan:
        for _ in scan.records():
            pass
        return scan.next_lsn
