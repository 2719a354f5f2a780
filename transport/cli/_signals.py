"""The signals of a broker's process: SIGTERM and SIGINT end it in good order, a second one at once; SIGHUP has it read its settings."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from transport.cli._run import tell
from transport.cli.exit_codes import SIGNAL_EXIT_BASE

ENDING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def broker_signals(verb: str, end: Callable[[], None], reload: Callable[[], None]) -> Iterator[None]:
    """Call ``end`` on the loop at the first of `ENDING`, and ``reload`` at each SIGHUP; the second of `ENDING` ends the process."""
    loop = asyncio.get_running_loop()

    def at_once(number: int, _frame: FrameType | None) -> NoReturn:
        # The default action would do as well, but for the first process of a container: the kernel spares it.
        tell(verb, f"ended at once by a second signal, {signal.Signals(number).name}")
        os._exit(SIGNAL_EXIT_BASE + number)

    def first() -> None:
        for each in ENDING:
            loop.remove_signal_handler(each)
            signal.signal(each, at_once)
        end()

    for number in ENDING:
        loop.add_signal_handler(number, first)
    loop.add_signal_handler(signal.SIGHUP, reload)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        for number in ENDING:
            loop.remove_signal_handler(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
