"""``penstock broker`` that measures its turns: at each SIGUSR1 it writes them into the file that ``PENSTOCK_TURNS`` names, and begins anew.

It runs on asyncio's own loop, whose waits can be seen; uvloop's turns are about as long.
"""

import asyncio
import json
import os
import signal
from pathlib import Path

from tests.fault.turns import LIMIT, TimedSelector
from transport.cli import _run, main

FILE_VARIABLE = "PENSTOCK_TURNS"


def timed_loop() -> asyncio.AbstractEventLoop:
    """A loop whose turns are measured."""
    selector, path = TimedSelector(), Path(os.environ[FILE_VARIABLE])
    loop = asyncio.SelectorEventLoop(selector)

    def tell() -> None:
        turns = selector.turns or [0.0]
        told = {"turns": len(turns), "longest": max(turns), "long": sum(turn > LIMIT for turn in turns)}
        told["collection"] = max(selector.collections, default=0.0)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(told))
        new.rename(path)
        selector.turns.clear()
        selector.collections.clear()

    loop.add_signal_handler(signal.SIGUSR1, tell)
    return loop


if __name__ == "__main__":
    # Here alone: whoever merely imports this module, as the test of all programs does, keeps its loops.
    _run._uvloop_factory = lambda: timed_loop
    main()
