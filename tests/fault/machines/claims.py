"""What a run has made on the machine, and how the next finds out that it was killed and removes it.

Everything is under one name, `pm-PID-N`: namespaces begin with it, and a folder holds the rest. A lock on a file of that name says that
its run lives; the kernel gives it back when the run dies. So nothing that lives is ever taken for dead, be a number used again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.fault.machines import namespaces

CLAIMS: Final = Path("/run/penstock-machines")
"""A file for each run, whose content is the path of its folder."""
PREFIX: Final = "pm-"
FOLDER_PREFIX: Final = "penstock-machines-"
MOST_CLAIMS: Final = 10_000
"""Of one process at one time."""
MOUNTS: Final = Path("/proc/self/mountinfo")


class Claim:
    """A name that is this run's until it is released, and a folder.

    Attributes:
        name: what everything is called by.
        folder: for files; it goes with the claim.
    """

    def __init__(self) -> None:
        CLAIMS.mkdir(mode=0o700, exist_ok=True)
        self._lock = -1
        for number in range(MOST_CLAIMS):
            self.name = f"{PREFIX}{os.getpid()}-{number}"
            if (lock := locked(CLAIMS / self.name, make=True)) is not None:
                self._lock = lock
                break
        else:
            raise RuntimeError(f"{MOST_CLAIMS} claims of one process")
        self.folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
        os.write(self._lock, os.fsencode(self.folder))

    def release(self) -> None:
        """Remove all that is under the name."""
        if self._lock >= 0:
            remove(self.name, self.folder)
            os.close(self._lock)
            self._lock = -1


def sweep() -> list[str]:
    """Remove what runs have left that are dead; their names."""
    found = []
    for path in sorted(CLAIMS.glob(f"{PREFIX}*")) if CLAIMS.is_dir() else []:
        if (lock := locked(path, make=False)) is not None:
            try:
                text = path.read_text()
                remove(path.name, Path(text) if text else None)
                found.append(path.name)
            finally:
                os.close(lock)
    return found


def locked(path: Path, *, make: bool) -> int | None:
    """A descriptor that holds the lock of a claim; None where somebody else has it, or it is gone. With ``make`` it must be new."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if make else 0), 0o600)
    except (FileExistsError, FileNotFoundError):
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    if os.fstat(file).st_nlink == 0:  # whoever had the lock has removed it
        os.close(file)
        return None
    return file


def remove(name: str, folder: Path | None) -> None:
    """Namespaces first, with their processes, which have files open; then mounts, then files, and the claim last."""
    namespaces.remove(namespaces.named(f"{name}-"))
    if folder is not None and folder.name.startswith(FOLDER_PREFIX):
        for point in mounts_under(folder):
            try:
                namespaces.run("umount", str(point))
            except namespaces.CommandFailedError:  # somebody has a file open there: it goes when that is closed
                namespaces.run("umount", "--lazy", str(point))
        shutil.rmtree(folder, ignore_errors=True)
    with suppress(FileNotFoundError):
        (CLAIMS / name).unlink()


def mounts_under(folder: Path) -> list[Path]:
    """What is mounted below a folder, the innermost first."""
    points = [Path(line.split()[4]) for line in MOUNTS.read_text("utf-8", "replace").splitlines()]
    return sorted((point for point in points if point.is_relative_to(folder)), reverse=True)
