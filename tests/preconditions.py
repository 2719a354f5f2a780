"""What some tests need of the machine: it is made where it can be, and where not, the test is skipped and says what was missing."""

from __future__ import annotations

import os
import pty
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

IN_MEMORY = ("tmpfs", "ramfs")
MOUNTS = Path("/proc/self/mountinfo")


@contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    """The two ends of a pseudo-terminal: ours, and the one for a process. The second may be closed meanwhile."""
    try:
        ours, theirs = pty.openpty()
    except OSError as error:
        pytest.skip(f"the machine gives no pseudo-terminal ({error}); is devpts mounted?")
    theirs_before = os.fstat(theirs)
    try:
        yield ours, theirs
    finally:
        os.close(ours)
        try:
            if os.path.samestat(os.fstat(theirs), theirs_before):
                os.close(theirs)
        except OSError:
            pass  # closed by the test, once a process had it


def folder_in_memory(mounts: str | None = None) -> Path:
    """A folder on a file system in memory that may be written to."""
    if mounts is None:
        mounts = MOUNTS.read_text("utf-8", "replace") if MOUNTS.exists() else ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        _, _, device, _, point, options = before.split()[:6]
        folder = Path(point)
        if after.split()[0] not in IN_MEMORY or "ro" in options.split(",") or not os.access(folder, os.W_OK):
            continue
        # Another file system may be mounted over it.
        found = folder.stat().st_dev
        if folder.is_dir() and device == f"{os.major(found)}:{os.minor(found)}":
            return folder
    pytest.skip("no file system in memory (tmpfs) is mounted where this user may write")


def enough_open_files(wanted: int) -> None:
    """Have this process, and those that it starts, be allowed ``wanted`` open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            pytest.skip(f"this needs {wanted} open files, and the machine allows {hard} (ulimit -Hn)")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
