"""What the journal says, as the broker's own error: whoever runs a broker knows no journal."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from actors.errors import NoStorageError, StorageError
from journal import JournalDamagedError, JournalFailedError, JournalMissingError, write_encountered

if TYPE_CHECKING:
    from pathlib import Path

    from journal import Files


def storage_error(error: Exception, what: str = "") -> StorageError:
    """The error that a broker ends with, caused by ``error``; its text begins with ``what`` unless there is no directory to speak of."""
    if isinstance(error, JournalMissingError):
        failure: StorageError = NoStorageError(str(error))
    else:
        failure = StorageError(f"{what}: {error}" if what else str(error))
    failure.__cause__ = error
    return failure


def keep_in_mind(files: Files, directory: Path, failure: StorageError) -> None:
    """Where a broker ends on damage, have the next start know the place: it does not read what is stored, and would be silent."""
    cause = failure.__cause__
    if isinstance(cause, JournalFailedError):
        cause = cause.cause
    if isinstance(cause, JournalDamagedError):
        with suppress(OSError):
            # Where the disk refuses this too, whoever reads the place next ends on it again, and says the same.
            write_encountered(files, directory, cause)
