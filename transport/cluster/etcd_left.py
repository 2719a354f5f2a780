"""Ends an etcd of this directory that a former broker has left, and no broker's that is there.

The kernel ends it with its broker, but it does not where a program is run with rights of its own (file capabilities), or where somebody has
started one by hand with the broker's settings. It has the addresses, and the lock of the data. What it has answered is on its disk, so
nothing is lost by its end. That it is of this directory is certain by the file of its settings, and that no other broker runs it by a lock.
The journal's own lock would not do: nobody holds that while the journal is damaged.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from transport.errors import LocalProtocolError

END_SECONDS: Final = 5.0
"""For a process that is killed to be gone; it may wait for its disk."""
PROCESSES: Final = Path("/proc")
OPTION: Final = b"--config-file"
LOCK_FILE: Final = "lock"
"""In an etcd's folder; held with flock(2) while a broker runs that."""
FILE_MODE: Final = 0o600


def hold(folder: Path) -> int:
    """Have an etcd's folder for this process, as long as the file is open whose number is returned.

    Raises:
        LocalProtocolError: another broker has it.
        OSError: it is not there, or cannot be written.
    """
    file = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise LocalProtocolError(
            f"another broker runs the etcd in {folder}: stop that first, or give this one another directory by --data"
        ) from None
    except OSError:
        os.close(file)
        raise
    return file


def end_left(settings: Path) -> list[int]:
    """End each etcd that was started with these settings, and wait until it is gone, for ``END_SECONDS``; it blocks for as long.

    Returns:
        The processes that were ended.
    """
    return [pid for pid in _found(settings) if _ended(pid, settings)]


def _found(settings: Path) -> Iterator[int]:
    with suppress(OSError):
        for name in os.listdir(PROCESSES):
            if name.isdecimal() and int(name) != os.getpid() and _is_with(int(name), settings):
                yield int(name)


def _is_with(pid: int, settings: Path) -> bool:
    """Whether it is an etcd with these settings; of others' processes it is not known, and then it is not."""
    process = PROCESSES / str(pid)
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
        # Not the interpreter that is about to become one, nor a tool that only names the file.
        if os.path.basename(words[0]) != b"etcd" or OPTION not in words[:-1]:
            return False
        named = os.fsdecode(words[words.index(OPTION) + 1])
        # As that process finds it: within a container the same path is another file.
        begins = process / ("root" if named.startswith("/") else "cwd")
        return (begins / named.lstrip("/")).samefile(settings)
    except OSError:
        return False


def _ended(pid: int, settings: Path) -> bool:
    try:
        opened = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # By now the number cannot be another process's.
        if not _is_with(pid, settings):
            return False
        signal.pidfd_send_signal(opened, signal.SIGKILL)
        select.select([opened], [], [], END_SECONDS)
    except OSError:
        return False
    finally:
        os.close(opened)
    return True
