"""A child process that stands still: SIGSTOP is sent at once, and the threads of the process go on until they come upon it."""

from __future__ import annotations

import os
import signal
from contextlib import suppress


def stand_still(pid: int) -> None:
    """SIGSTOP for a child of this process; returns when all its threads stand still, or it has ended. SIGCONT has it go on."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    wait_until_still(pid)


def wait_until_still(pid: int) -> None:
    """The end of `stand_still`, for who has sent the signal in another way."""
    with suppress(ChildProcessError):
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
