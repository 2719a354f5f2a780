"""Looking at, and mending, a data directory that no broker has open."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from actors.storage.after_repair import set_mark
from actors.storage.failures import storage_error
from journal import JournalError, OsFiles, repair, verify

if TYPE_CHECKING:
    from journal import Files, Finding


def verify_storage(directory: Path, files: Files | None = None) -> list[Finding]:
    """Everything that is wrong with a data directory, by file and offset; nothing is changed.

    Raises:
        NoStorageError: there is none.
        StorageError: it cannot be read at all, or a broker has it open.
    """
    try:
        return verify(directory, files)
    except (JournalError, OSError) as error:
        raise storage_error(error, f"the data directory {directory} cannot be verified") from error


def repair_storage(directory: Path, files: Files | None = None) -> list[str]:
    """Make a damaged data directory one that opens, with everything that is whole; returns what was done, and what was lost.

    The mark is made first: whatever of the repair has happened, the next start looks what the queues have lost by it.

    Raises:
        NoStorageError: there is none.
        StorageError: it cannot be mended, or a broker has it open.
    """
    disk = OsFiles() if files is None else files
    try:
        return repair(directory, disk, lambda: set_mark(disk, directory))
    except (JournalError, OSError) as error:
        raise storage_error(error, f"the data directory {directory} cannot be repaired") from error
