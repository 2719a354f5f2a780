"""Room on the disk that is kept for a start on a full one: without it what is stored could not be received, and so never be removed.

It is a file, ``reserve``, whose contents mean nothing. A start that finds the disk full removes it, and a checkpoint makes it again
when there is room. It is for receiving: whoever sends waits while so little is free (the disk floor).
"""

from __future__ import annotations

import errno
from pathlib import Path

from journal.durable import create_anew
from journal.files import Files
from journal.names import ASIDE, RESERVE

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What a disk that is full gives, or one that is this user's share of it."""
NO_ROOM = FULL | {errno.EFBIG}
"""What keeps the reserve from being made; the last where the process may have no file so large."""
RESERVE_ROOM = 4
"""How many times the reserve must be free for it to be made: it must not be what fills the disk."""


def has_reserve(files: Files, directory: Path) -> bool:
    """Whether the reserve is there."""
    return RESERVE in files.names(directory)


def keep_reserve(files: Files, directory: Path, size: int) -> bool:
    """Have the reserve, if there is room for it, and say whether it is there; OSError for all but a disk that is full."""
    if has_reserve(files, directory):
        return True
    if not size or files.free_bytes(directory) < RESERVE_ROOM * size:
        return False
    aside = directory / (RESERVE + ASIDE)
    file = create_anew(files, aside)
    try:
        files.allocate(file, 0, size)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        files.unlink(aside)
        return False
    finally:
        files.close(file)
    files.rename(aside, directory / RESERVE)
    return True


def give_up_reserve(files: Files, directory: Path, error: OSError) -> bool:
    """Whether there is room again after ``error``, as the disk was full and the reserve was there."""
    if error.errno not in FULL or not has_reserve(files, directory):
        return False
    files.unlink(directory / RESERVE)
    files.sync_directory(directory)
    return True
