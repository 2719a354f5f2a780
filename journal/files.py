"""Every operation on the disk that the journal makes: one small seam, which tests replace to make each of them fail.

Offsets and sizes are bytes. Every method raises OSError as the operating system does; nothing is retried here, and nothing
is hidden: a write may be short, and only what a sync has covered is durable.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

DIRECTORY_MODE = 0o700
"""Of a data directory that is made here: what is stored is its owner's business. One that exists keeps the mode it was given."""
FILE_MODE = 0o640
"""Of the files in it: whoever opens the directory to a group, for backups say, opens the files with it."""
READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)
"""What opening a file for writing gives where it may only be read."""
MAX_PARTS = 1024
"""Buffers that one call of ``write`` may have: the operating system's IOV_MAX."""
_LONG = struct.Struct("@l")
_GET_GENERATION = 2 << 30 | _LONG.size << 16 | ord("v") << 8 | 1
"""FS_IOC_GETVERSION, of Linux: _IOR('v', 1, long), though what comes is an int."""
_NUMBER_MASK = (1 << 64) - 1


class Files(Protocol):
    """What the journal asks of a file system. A file is the descriptor that ``create`` or ``open`` returned."""

    def create(self, path: Path) -> int:
        """A new empty file, open for reading and writing; FileExistsError where there is one."""

    def open(self, path: Path, *, write: bool = False) -> int:
        """An existing file, open for reading, and with ``write`` for writing too."""

    def close(self, file: int) -> None:
        """Give the descriptor back."""

    def write(self, file: int, parts: Sequence[Buffer], offset: int) -> int:
        """Write buffers end to end at ``offset``; returns how many bytes were taken, which may be fewer."""

    def read(self, file: int, size: int, offset: int) -> bytes:
        """Up to ``size`` bytes from ``offset`` on; fewer at the end of the file."""

    def sync(self, file: int) -> None:
        """Return when what was written to ``file``, and its size, are durable."""

    def sync_directory(self, path: Path) -> None:
        """Return when the names in a directory are durable."""

    def allocate(self, file: int, offset: int, size: int) -> None:
        """Have the file reach ``offset + size``, with room on the disk; OSError (ENOSPC) where there is none."""

    def truncate(self, file: int, size: int) -> None:
        """Cut or extend the file to ``size``."""

    def size(self, file: int) -> int:
        """The file's size."""

    def linked(self, file: int) -> bool:
        """Whether the file still has a name: what is written to one without is gone when it is closed."""

    def number(self, file: int) -> int:
        """What tells the file from every other one of its file system, also from one that is gone: a copy of it has another number."""

    def rename(self, source: Path, target: Path) -> None:
        """Give a file or a directory another name, replacing what has it; atomic, and durable once the directory above is synced."""

    def unlink(self, path: Path) -> None:
        """Remove a name."""

    def make_directory(self, path: Path) -> None:
        """Make a directory, for nobody but its owner, and its parents; one that exists is left as it is."""

    def remove_directory(self, path: Path) -> None:
        """Remove a directory, which must be empty."""

    def names(self, path: Path) -> list[str]:
        """The names in a directory, sorted."""

    def lock(self, path: Path, *, make: bool = True) -> int:
        """Take the lock that the file at ``path`` stands for; BlockingIOError where another process has it.

        The file is made if need be; without ``make`` it must be there, and is not changed.
        """

    def free_bytes(self, path: Path) -> int:
        """Room left, for this user, on the disk that holds ``path``."""


class OsFiles:
    """The operating system's files."""

    def create(self, path: Path) -> int:
        """See ``Files``."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)

    def open(self, path: Path, *, write: bool = False) -> int:
        """See ``Files``."""
        return os.open(path, (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC)

    def close(self, file: int) -> None:
        """See ``Files``."""
        os.close(file)

    def write(self, file: int, parts: Sequence[Buffer], offset: int) -> int:
        """See ``Files``."""
        return os.pwritev(file, parts, offset)

    def read(self, file: int, size: int, offset: int) -> bytes:
        """See ``Files``."""
        return os.pread(file, size, offset)

    def sync(self, file: int) -> None:
        """See ``Files``."""
        os.fdatasync(file)

    def sync_directory(self, path: Path) -> None:
        """See ``Files``."""
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def allocate(self, file: int, offset: int, size: int) -> None:
        """See ``Files``."""
        os.posix_fallocate(file, offset, size)

    def truncate(self, file: int, size: int) -> None:
        """See ``Files``."""
        os.ftruncate(file, size)

    def size(self, file: int) -> int:
        """See ``Files``."""
        return os.fstat(file).st_size

    def linked(self, file: int) -> bool:
        """See ``Files``."""
        return os.fstat(file).st_nlink > 0

    def number(self, file: int) -> int:
        """See ``Files``.

        The number of a file that is gone is soon another one's: a directory that is removed and copied back has them all again. So the
        generation counts too, which ext4, XFS, Btrfs and F2FS draw or count for each. Where there is none (NFS, overlayfs; tmpfs uses no
        number twice), it is the number alone.
        """
        number = os.fstat(file).st_ino
        try:
            generation = fcntl.ioctl(file, _GET_GENERATION, bytes(_LONG.size))
        except OSError:
            return number
        return (number ^ int.from_bytes(generation[:4], sys.byteorder) << 32) & _NUMBER_MASK

    def rename(self, source: Path, target: Path) -> None:
        """See ``Files``."""
        os.rename(source, target)

    def unlink(self, path: Path) -> None:
        """See ``Files``."""
        os.unlink(path)

    def make_directory(self, path: Path) -> None:
        """See ``Files``."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(DIRECTORY_MODE, exist_ok=True)

    def remove_directory(self, path: Path) -> None:
        """See ``Files``."""
        path.rmdir()

    def names(self, path: Path) -> list[str]:
        """See ``Files``."""
        return sorted(os.listdir(path))

    def lock(self, path: Path, *, make: bool = True) -> int:
        """See ``Files``."""
        try:
            file = os.open(path, os.O_RDWR | (os.O_CREAT if make else 0) | os.O_CLOEXEC, FILE_MODE)
        except OSError as error:
            if make or error.errno not in READ_ONLY:
                raise
            # Enough for a lock, on all but some network file systems.
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            raise
        return file

    def free_bytes(self, path: Path) -> int:
        """See ``Files``."""
        facts = os.statvfs(path)
        return facts.f_bavail * facts.f_frsize
