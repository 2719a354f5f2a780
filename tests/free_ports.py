"""Ports of loopback for nodes that have to know one another's before they listen, and that are started again at the same ones.

The system gives a port that is closed to the next connection that goes out, of this process or any other. So these are none that it gives.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Final

FIRST: Final = 10_000
RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""The first and the last that the system gives."""
DEFAULT_LAST: Final = 32_767
SPREAD: Final = 7_919
"""Processes begin so far from one another, for each number that theirs differ by: what they take together mostly is not the same."""


def _last() -> int:
    with suppress(OSError, ValueError):
        return max(FIRST + SPREAD, int(RANGE.read_text("ascii").split()[0]) - 1)
    return DEFAULT_LAST


_COUNT: Final = _last() - FIRST
_candidates = cycle(range(FIRST, FIRST + _COUNT))
for _ in range(os.getpid() * SPREAD % _COUNT):
    next(_candidates)


def free_ports(count: int) -> list[int]:
    """So many that nobody has now, and that this process gives nobody again for a long time."""
    found: list[int] = []
    for _ in range(_COUNT):
        port = next(_candidates)
        with socket.socket() as taken, suppress(OSError):
            taken.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"{count} ports were wanted, and of {_COUNT} there are {len(found)} free")
