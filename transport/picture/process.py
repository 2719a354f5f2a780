"""This process as the operating system sees it, under the names that Prometheus's own clients give."""

from __future__ import annotations

import os
import resource
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from transport.picture.slices import Slices

LOADED_AT: Final = time.time()
FILES: Final = "/proc/self/fd"
FILES_A_PIECE: Final = 256
"""Open files that are counted before others may have their turn."""


def started_at() -> float:
    """When the process was started, seconds since 1970; where the platform does not tell, when this was loaded."""
    try:
        with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
            # Behind the command's name, which may have anything in it: proc(5), field 22, ticks since the machine started.
            ticks = int(file.read().rpartition(")")[2].split()[19])
        booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        return booted + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):
        return LOADED_AT


async def open_files(slices: Slices, folder: str = FILES) -> int | None:
    """How many files it has open; None where the platform does not tell."""
    try:
        size = os.stat(folder).st_size
        if size:
            # Linux since 6.2 says so at once.
            return size
        count = 0
        with os.scandir(folder) as entries:
            for count, _ in enumerate(entries, 1):
                if count % FILES_A_PIECE == 0:
                    await slices.pause()
        # The one that this took is not there any more.
        return count - 1
    except OSError:
        return None


def most_files() -> int:
    """How many files it may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
