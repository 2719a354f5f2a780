"""How every process of the demo runs: `python -m examples.demo.child MODULE ARGUMENTS`, and no longer than the demo does."""

from __future__ import annotations

import ctypes
import runpy
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Have the kernel end this process when the one that started it is gone, be it by kill -9. Linux has this."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


if __name__ == "__main__":
    die_with_parent()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
