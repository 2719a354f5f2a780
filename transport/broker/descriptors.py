"""File descriptors: how many this process may have, and how many of them connections may take.

A broker whose connections had taken the last descriptor could not open its journal's next file, and would end. So some are kept back.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress

from transport.errors import LimitExceededError

RESERVED_DESCRIPTORS = 64
"""Kept back for what is no connection. The journal has at most 16 segments open to read and some 10 files to write, combine and sync;
a look at memory, a resolver or a log takes one for a moment. Twice that is left, for nothing may go wrong here."""
POLITE_REFUSALS = 32
"""Connections above the limit that may stay for a moment, to read why they are refused; any more are closed at once."""
FEWEST_CONNECTIONS = 4
"""With fewer a broker is of no use: a sender, a receiver, an administrator, and one that comes back."""


def soft_limit() -> int:
    """How many descriptors this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**31 if soft == resource.RLIM_INFINITY else soft


def raise_soft_limit(connections: int) -> None:
    """Have room for so many connections, as far as the hard limit goes. For a process that is a broker and nothing else."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _beside_connections()
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # A system may forbid what its own hard limit allows; then the broker takes fewer connections, and says so.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def connections_allowed(wanted: int) -> int:
    """How many connections a broker in this process may have: ``wanted``, or fewer where the limit of open files is too low.

    Raises:
        LimitExceededError: not even ``FEWEST_CONNECTIONS``.
    """
    limit = soft_limit()
    beside = _beside_connections()
    allowed = min(wanted, limit - beside)
    if allowed < min(wanted, FEWEST_CONNECTIONS):
        raise LimitExceededError(
            f"this process may have {limit} files open (ulimit -n), and a broker keeps {beside} for its journal and itself: "
            f"allow {beside + FEWEST_CONNECTIONS} at least"
        )
    return allowed


def _beside_connections() -> int:
    return _open_now() + RESERVED_DESCRIPTORS + POLITE_REFUSALS


def _open_now() -> int:
    """Descriptors that are open; a guess where the platform does not tell."""
    for folder in ("/proc/self/fd", "/dev/fd"):
        with suppress(OSError):
            return len(os.listdir(folder))
    return RESERVED_DESCRIPTORS
