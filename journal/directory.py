"""Having a directory to oneself: a journal makes it and locks it, and who only looks makes nothing."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from journal.durable import make_directory
from journal.errors import (
    BackupError,
    JournalFailedError,
    JournalLockedError,
    JournalMissingError,
    ReplicaError,
    TransferUnfinishedError,
)
from journal.files import Files
from journal.names import BACKUP, INSTALLING, LOCK, TRANSFER, is_part

IS_A_FILE = "is a file and not a directory: name the directory that holds the journal"


def claim(directory: Path, files: Files) -> int:
    """Lock a directory, made if need be and durable then; returns the lock.

    Raises:
        BackupError: it is a backup.
        TransferUnfinishedError: a transfer into it was not finished.
        JournalMissingError: it, or one above it, is a file.
        JournalLockedError: it is open elsewhere.
        JournalFailedError: the file system refuses.
    """
    try:
        made_in = make_directory(files, directory, {LOCK})
        refuse_backup(directory, files)
        held = files.lock(directory / LOCK)
    except BlockingIOError:
        raise JournalLockedError(directory) from None
    except NotADirectoryError:
        raise JournalMissingError(_file_of(directory, files), IS_A_FILE) from None
    except OSError as error:
        raise JournalFailedError(error) from error
    try:
        # Every level that was just made must be as durable as what is written below it.
        for parent in made_in:
            files.sync_directory(parent)
    except OSError as error:
        files.close(held)
        raise JournalFailedError(error) from error
    return held


def refuse_backup(directory: Path, files: Files, *, mended: bool = False) -> None:
    """See that a directory is no backup: one that a broker has worked in, or that is ``mended``, would be none any more.

    Raises:
        BackupError: it is one, or a restore into it was not finished.
        ReplicaError: it is to be mended, and a transfer is being put into its place.
        TransferUnfinishedError: a transfer into it was not finished.
    """
    try:
        names = files.names(directory)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # whoever opens it says what is wrong with it
    except OSError as error:
        raise JournalFailedError(error) from error
    if TRANSFER in names:
        raise TransferUnfinishedError(directory)
    if mended:
        refuse_installing(directory, names)
    is_backup = BACKUP in names
    if is_backup and mended:
        raise BackupError(
            f"{directory} holds a backup, and a mended backup is none: copy it, remove {BACKUP} from the copy, and repair the copy"
        )
    if is_backup:
        raise BackupError(
            f"{directory} holds a backup: `penstock journal restore {directory} DIR` makes a data directory of it. (Or a restore into it "
            "was not finished: then run that again)"
        )


def refuse_installing(directory: Path, names: Collection[str]) -> None:
    """See that a directory, which has these names, is not half of one journal and half of another; ReplicaError where it may be."""
    if INSTALLING in names:
        raise ReplicaError(
            f"a transfer is being put into the place of the journal in {directory}: start its node, which finishes that"
        )


def _file_of(directory: Path, files: Files) -> Path:
    """Which part of a path is no directory."""
    for path in reversed((directory, *directory.parents)):
        try:
            files.names(path)
        except NotADirectoryError:
            return path
        except OSError:
            continue
    return directory


def require_journal(directory: Path, files: Files) -> None:
    """See that there is something to look at; nothing is changed.

    Raises:
        JournalMissingError: there is nothing.
    """
    try:
        names = files.names(directory)
    except FileNotFoundError:
        raise JournalMissingError(directory, "does not exist") from None
    except NotADirectoryError:
        raise JournalMissingError(directory, IS_A_FILE) from None
    except OSError:
        # What cannot be read may be one; whoever looks says why it cannot.
        return
    if not any(map(is_part, names)):
        raise JournalMissingError(directory, "holds no journal: name the directory that is the broker's --data")


def may_be_made(directory: Path, files: Files) -> bool:
    """Whether there is no directory yet, and nothing that keeps one from being made there but the file system's permissions.

    Raises:
        JournalMissingError: it, or one above it, is a file.
        OSError: it is there, and cannot be read.
    """
    try:
        files.names(directory)
    except FileNotFoundError:
        return True
    except NotADirectoryError:
        raise JournalMissingError(_file_of(directory, files), IS_A_FILE) from None
    return False


def lock(directory: Path, files: Files, *, make: bool) -> int | None:
    """Take the directory's lock; None where it cannot be (it is read-only, for one), which keeps nobody from looking.

    Without ``make`` nothing is written. Where the file of the lock is not there, no broker has it.

    Raises:
        JournalLockedError: a broker has it; what it is writing would look like damage.
    """
    try:
        return files.lock(directory / LOCK, make=make)
    except BlockingIOError:
        raise JournalLockedError(directory) from None
    except OSError:
        return None
