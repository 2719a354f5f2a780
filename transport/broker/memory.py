"""How much memory this process has, and how much it may have."""

from __future__ import annotations

import gc
import os
import resource
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path("/")
CGROUPS = Path("sys/fs/cgroup")
"""Where both versions of Linux's control groups are mounted, below the root."""
THRESHOLDS = (150, 1, 100_000)
"""Objects more than before, and then rounds, after which the young, the older and all are looked at; Python has 700 (3.13: 2,000), 10
and 10. A look stops everybody for a millisecond or so for 3,000 objects, so it comes soon and finds few. It comes later than the first of
these says, though: an object that is freed counts against one that is made. Where a second's work replaces what the second before left,
thousands are made for a few hundred more."""
SMALL_BYTES = 64
"""Of one piece of memory that Python's own allocator gives out: most are strings, numbers, and small objects."""
MALLINFO2 = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
"""What glibc's mallinfo2 returns, each a size_t (mallinfo(3)); fordblks are the bytes that are free."""


def resident_bytes() -> int:
    """This process's resident memory, bytes; its peak where the platform tells no more."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def machine_bytes() -> int:
    """The machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def memory_limit(root: Path = ROOT, machine: int | None = None) -> int:
    """Bytes that this process may have: the least that the machine, or a control group it is in, allows.

    A group is bound by the groups around it too, so all of them are asked, in either version's files (``memory.max`` of version 2,
    ``memory.limit_in_bytes`` of version 1; Linux documentation, "Control Group v2" and "Memory Resource Controller").

    Args:
        root: what to take for the root of the file system.
        machine: what to take for the machine's memory.
    """
    found = [machine_bytes() if machine is None else machine]
    for path in _limit_files(root):
        try:
            text = path.read_text("ascii").strip()
        except (OSError, ValueError):
            continue  # no such group here: a container sees its own as the topmost
        # "max" is no limit; nor is version 1's default of nearly 2**63, which exceeds any machine's memory.
        if text.isdecimal() and int(text) > 0:
            found.append(int(text))
    return min(found)


def collect_rarely() -> None:
    """Have Python look for cycles among what comes now, and rarely among all there is.

    A full collection stops a process for as long as it has objects: a tenth of a second for a broker with some thousand queues. What it has
    at the start stays, so it is not looked at again before memory is given back. What a connection or a queue leaves is freed without it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


def collect_young() -> None:
    """Have Python look for cycles among what was made lately, whatever was freed meanwhile; in a process that collects rarely."""
    if gc.get_threshold() == THRESHOLDS:
        gc.collect(1)


def release_memory() -> None:
    """Give freed memory back to the operating system, where the C library can be told to; glibc keeps much of it otherwise."""
    if gc.get_threshold() == THRESHOLDS:
        _empty_free_lists()
    trim = getattr(_c_library(), "malloc_trim", None)
    if trim is not None:
        trim(0)


def small_bytes() -> int:
    """Bytes, about, of what Python's own allocator has given out. It keeps a megabyte for as long as anything in it is in use."""
    return sys.getallocatedblocks() * SMALL_BYTES


def _empty_free_lists() -> None:
    """Have Python free the few thousand tuples, lists and dicts that it keeps to use again.

    They lie where they were freed, so hardly a megabyte is free whole: of 120 MiB that thousands of consumers had, 30 were given back
    without this, and all with it. Only a full collection does so. With all objects put aside it has nothing to look at, and takes no time.
    It begins to count anew, though, so what it had counted counts here: a collection that is due is made.
    """
    _Rounds.counted += gc.get_count()[2]
    if _Rounds.counted >= THRESHOLDS[2]:
        _Rounds.counted = 0
        gc.collect()
        return
    gc.collect(1)
    gc.freeze()
    gc.collect()
    gc.unfreeze()


class _Rounds:
    """Since everything was looked at: ``counted`` are those that Python has forgotten of."""

    counted = 0


def kept_bytes() -> int | None:
    """Bytes of freed memory that the C library keeps, given back or not; None where it does not tell (glibc does, since 2.33)."""
    look = _allocator_figures()
    return None if look is None else int(look().fordblks)


@cache
def _c_library() -> Any:
    import ctypes  # noqa: PLC0415 - clients import this module too, and have no use for it

    return ctypes.CDLL(None)


@cache
def _allocator_figures() -> Any:
    import ctypes  # noqa: PLC0415 - as above

    class Figures(ctypes.Structure):
        _fields_ = tuple((name, ctypes.c_size_t) for name in MALLINFO2)

    look = getattr(_c_library(), "mallinfo2", None)
    if look is not None:
        look.restype = Figures
    return look


def _limit_files(root: Path) -> Iterator[Path]:
    try:
        groups = (root / "proc/self/cgroup").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return  # not Linux
    for line in groups:
        # hierarchy:controllers:path; version 2 has no controllers named.
        _, controllers, group = (*line.split(":", 2), "", "")[:3]
        if controllers == "":
            mounts, name = [CGROUPS, CGROUPS / "unified"], "memory.max"
        elif "memory" in controllers.split(","):
            mounts, name = [CGROUPS / controllers, CGROUPS / "memory"], "memory.limit_in_bytes"
        else:
            continue
        inside = PurePosixPath(group.lstrip("/"))
        for mount in dict.fromkeys(mounts):
            for level in (inside, *inside.parents):
                yield root / mount / level / name
