"""Looking at, and mending, a data directory that no broker has open."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from actors.errors import StorageError
from actors.storage.after_repair import set_mark
from journal import JournalError, OsFiles, repair, verify

if TYPE_CHECKING:
    from journal import Finding


def verify_storage(directory: Path) -> list[Finding]:
    """Everything that is wrong with a data directory, by file and offset; nothing is changed.

    Raises:
        StorageError: it cannot be read at all, or a broker has it open.
    """
    try:
        return verify(directory)
    except (JournalError, OSError) as error:
        raise StorageError(f"the data directory {directory} cannot be verified: {error}") from error


def repair_storage(directory: Path) -> list[str]:
    """Make a damaged data directory one that opens, with everything that is whole; returns what was done, and what was lost.

    Raises:
        StorageError: it cannot be mended, or a broker has it open.
    """
    try:
        done = repair(directory)
        if done:
            set_mark(OsFiles(), directory)
        return done
    except (JournalError, OSError) as error:
        raise StorageError(f"the data directory {directory} cannot be repaired: {error}") from error
