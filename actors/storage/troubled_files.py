"""The operating system's files on a disk that is slow, fails or dies on order: for whoever tests a program that keeps something here."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from journal import Buffer, OsFiles

KILLED = "the process was killed"


class TroubledFiles(OsFiles):
    """Real files, until told otherwise; what it is told holds from the next call on, from any thread.

    Dead files are those of a process that was killed: what was written stays written, nothing is written any more, and what is open is
    closed by `let_go`.
    """

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._changed = threading.Condition()
        self._seconds = 0.0
        self._refusal: tuple[int, str] | None = None
        self._dead = False

    def slow(self, seconds: float) -> None:
        """Have every sync take ``seconds`` longer; 0 ends it, for those too that wait now."""
        with self._changed:
            self._seconds = seconds
            self._changed.notify_all()

    def fail(self, code: int = errno.EIO) -> None:
        """Have whatever changes the disk raise OSError with ``code``, from now on."""
        with self._changed:
            self._refusal = self._refusal or (code, os.strerror(code))
            self._changed.notify_all()

    def die(self) -> None:
        """The process is killed: nothing reaches the disk any more."""
        with self._changed:
            self._dead = True
            self._refusal = (errno.EIO, KILLED)
            self._changed.notify_all()

    def let_go(self) -> None:
        """Close what is still open, as the end of a process does; nobody may use these files after it."""
        while self._open:
            os.close(self._open.pop())

    def create(self, path: Path) -> int:
        """See ``Files``."""
        self._check()
        return self._opened(super().create(path))

    def open(self, path: Path, *, write: bool = False) -> int:
        """See ``Files``."""
        return self._opened(super().open(path, write=write))

    def close(self, file: int) -> None:
        """See ``Files``."""
        self._open.discard(file)
        super().close(file)

    def write(self, file: int, parts: Sequence[Buffer], offset: int) -> int:
        """See ``Files``."""
        self._check()
        return super().write(file, parts, offset)

    def sync(self, file: int) -> None:
        """See ``Files``."""
        self._wait()
        super().sync(file)

    def sync_directory(self, path: Path) -> None:
        """See ``Files``."""
        self._wait()
        super().sync_directory(path)

    def allocate(self, file: int, offset: int, size: int) -> None:
        """See ``Files``."""
        self._check()
        super().allocate(file, offset, size)

    def truncate(self, file: int, size: int) -> None:
        """See ``Files``."""
        self._check()
        super().truncate(file, size)

    def rename(self, source: Path, target: Path) -> None:
        """See ``Files``."""
        self._check()
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        """See ``Files``."""
        self._check()
        super().unlink(path)

    def make_directory(self, path: Path) -> None:
        """See ``Files``."""
        self._check()
        super().make_directory(path)

    def remove_directory(self, path: Path) -> None:
        """See ``Files``."""
        self._check()
        super().remove_directory(path)

    def lock(self, path: Path, *, make: bool = True) -> int:
        """See ``Files``."""
        return self._opened(super().lock(path, make=make))

    def _opened(self, file: int) -> int:
        self._open.add(file)
        return file

    def _check(self) -> None:
        if self._refusal is not None:
            raise OSError(*self._refusal)

    def _wait(self) -> None:
        """Take as long as the disk is to take; a failure, or an end of the slowness, is not waited for."""
        with self._changed:
            if self._seconds:
                seconds = self._seconds
                self._changed.wait_for(lambda: self._refusal is not None or self._seconds < seconds, seconds)
            self._check()
