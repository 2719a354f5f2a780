"""What is left to do with a replica's directory that is damaged: to tell whose it was, and to put what it holds aside."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

from actors.storage.failures import storage_error
from journal import JournalError, OsFiles, set_aside
from journal.errors import FormatError
from journal.replica_file import read_replica

logger = logging.getLogger("penstock.storage")


class Whose(NamedTuple):
    """Of what cluster a directory is, and which one it is there; None for what its file does not tell any more."""

    cluster: str | None
    directory: str | None


def whose_replica(directory: Path) -> Whose | None:
    """Whose replica a directory is that cannot be opened; None where it is of no cluster."""
    try:
        found = read_replica(OsFiles(), directory)
    except (FormatError, OSError):
        return Whose(None, None)
    return None if found is None or not found.cluster else Whose(found.cluster, found.directory)


def put_aside(directory: Path) -> Path:
    """Put the journal in a directory aside, and let the directory be empty; where it lies then. It blocks.

    Raises:
        StorageError: somebody has it open, or the disk refuses.
    """
    try:
        return set_aside(OsFiles(), directory, logger.warning)
    except (JournalError, OSError) as error:
        raise storage_error(error, f"the journal in {directory} cannot be put aside") from error
