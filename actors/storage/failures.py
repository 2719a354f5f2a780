"""What the journal says, as the broker's own error: whoever runs a broker knows no journal."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from actors.errors import BackupFailedError, NoStorageError, StorageError
from journal import BackupError, JournalDamagedError, JournalFailedError, JournalMissingError, write_encountered

if TYPE_CHECKING:
    from journal import Files


class LeadershipLostError(StorageError):
    """This node of a cluster leads no more: what it had not confirmed yet may be confirmed by the next leader, or be gone.

    Nobody is told the one or the other: connections end, and who has sent asks the next leader.
    """


class DamagedReplicaError(StorageError):
    """What is stored in a replica's directory is not all that was, though no file is known to be damaged: nobody may count on it."""


class DivergedReplicaError(DamagedReplicaError):
    """A replica has other records than its leader where they were known as committed: one of the two is wrong, and a person has to look."""


class Damage(NamedTuple):
    """What a replica's directory has come to.

    Attributes:
        file: the damaged one, or the directory where no file is known.
        offset: where in it the damage begins; None where no file is known.
        text: what is wrong there.
        known: whether the others are known to have all that was there, so that it needs no person to be given up.
    """

    file: Path
    offset: int | None
    text: str
    known: bool = True

    def __str__(self) -> str:
        """In a line, for people."""
        return f"{self.file}: {self.text}" if self.offset is None else f"{self.file}, offset {self.offset}: {self.text}"


DISK_ERRORS: Final = frozenset({errno.EIO, errno.ENXIO, errno.ENODEV})
"""What an operating system says of a disk that can be read no more, whatever is asked of it next."""


def is_unreadable(error: BaseException, directory: Path) -> bool:
    """Whether an error that came of reading says that what is stored cannot be read here, now and later."""
    return (isinstance(error, OSError) and error.errno in DISK_ERRORS) or damage_of(error, directory) is not None


def damage_of(error: BaseException | None, directory: Path) -> Damage | None:
    """The damage that an error is about, or was caused by; None where it is about something else, such as a disk that refuses."""
    for _ in range(MAX_CAUSES):
        if isinstance(error, JournalDamagedError):
            return Damage(error.file, error.offset, error.text)
        if isinstance(error, DamagedReplicaError):
            return Damage(directory, None, str(error), known=not isinstance(error, DivergedReplicaError))
        if error is None:
            break
        error = error.cause if isinstance(error, JournalFailedError) else error.__cause__
    return None


def storage_error(error: Exception, what: str = "") -> StorageError:
    """The error that a broker ends with, caused by ``error``; its text begins with ``what`` unless there is no directory to speak of."""
    if isinstance(error, JournalMissingError | BackupError):
        failure: StorageError = NoStorageError(str(error))
    else:
        failure = StorageError(f"{what}: {error}" if what else str(error))
    failure.__cause__ = error
    return failure


MAX_CAUSES: Final = 10
"""Of an error are looked at: what caused it, and what that."""
PLACE_ERRORS: Final = frozenset(
    {errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP}
)
"""What an operating system says of a place where nothing can be made or written, whatever the disk is like."""


def place_error(error: Exception, directory: Path) -> StorageError | None:
    """The error for a directory that cannot be made or written at all, and has not been touched; None where it is something else."""
    cause = error.cause if isinstance(error, JournalFailedError) else error
    if not isinstance(cause, OSError) or cause.errno not in PLACE_ERRORS or cause.filename is None:
        return None
    failed = Path(os.fsdecode(cause.filename))
    if directory not in (failed.parent, failed) and failed not in directory.parents:
        return None
    what = "written" if failed.parent == directory else "made"
    failure = StorageError(
        f"the data directory {directory} cannot be {what}: {cause.strerror}; name one that can be (--data), give it to the user that "
        "the broker runs as, or keep everything in memory (--memory)"
    )
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


def backup_error(error: Exception, what: str = "") -> StorageError:
    """The same of a backup: what is wrong with it is no failure of the broker's storage."""
    return BackupFailedError(str(error)) if isinstance(error, BackupError) else storage_error(error, what)
