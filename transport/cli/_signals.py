"""The signals of a broker's process: SIGTERM and SIGINT end it in good order, a second one at once; SIGHUP has it read its settings.

SIGHUP is also what a terminal sends that is closed. A broker that was started on that terminal ends then, as programs do; with
``nohup`` it stays.
"""

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
GONE_SECONDS = 0.5
"""In which a terminal that is being closed is gone."""


@contextmanager
def broker_signals(verb: str, end: Callable[[], None], reload: Callable[[], None]) -> Iterator[None]:
    """Call ``end`` on the loop at the first of `ENDING`, and ``reload`` at each SIGHUP; the second of `ENDING` ends the process.

    A SIGHUP with which the terminal goes that the process was started on is as the first of `ENDING`.
    """
    loop = asyncio.get_running_loop()
    goes_with_terminal = has_terminal() and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN

    def at_once(number: int, _frame: FrameType | None) -> NoReturn:
        # The default action would do as well, but for the first process of a container: the kernel spares it.
        tell(verb, f"ended at once by a second signal, {signal.Signals(number).name}")
        os._exit(SIGNAL_EXIT_BASE + number)

    def first() -> None:
        for each in ENDING:
            loop.remove_signal_handler(each)
            signal.signal(each, at_once)
        end()

    later: list[asyncio.TimerHandle] = []

    def hung_up() -> None:
        if not ended_with_terminal():
            reload()
            # The signal may come before the terminal is gone.
            later[:] = [loop.call_later(GONE_SECONDS, ended_with_terminal)]

    def ended_with_terminal() -> bool:
        gone = goes_with_terminal and not has_terminal()
        if gone:
            first()
        return gone

    for number in ENDING:
        loop.add_signal_handler(number, first)
    loop.add_signal_handler(signal.SIGHUP, hung_up)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        for timer in later:
            timer.cancel()
        for number in ENDING:
            loop.remove_signal_handler(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def has_terminal() -> bool:
    """Whether there is a terminal that controls this process: not of a service, nor when the terminal was closed."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
