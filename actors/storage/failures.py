"""What the journal says, as the broker's own error: whoever runs a broker knows no journal."""

from __future__ import annotations

from actors.errors import NoStorageError, StorageError
from journal import JournalMissingError


def storage_error(error: Exception, what: str = "") -> StorageError:
    """The error that a broker ends with, caused by ``error``; its text begins with ``what`` unless there is no directory to speak of."""
    if isinstance(error, JournalMissingError):
        failure: StorageError = NoStorageError(str(error))
    else:
        failure = StorageError(f"{what}: {error}" if what else str(error))
    failure.__cause__ = error
    return failure
