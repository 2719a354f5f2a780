"""Keys of a terminal, one by one; the terminal is as it was before, whatever happens in between."""

from __future__ import annotations

import asyncio
import os
import signal
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

READ_BYTES: Final = 1024
"""Keys that are taken at once; more of them wait in the terminal."""
NAMED: Final = {
    "\x1b[A": "up",
    "\x1bOA": "up",
    "\x1b[B": "down",
    "\x1bOB": "down",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1b[H": "home",
    "\x1bOH": "home",
    "\x1b[1~": "home",
    "\x1b[F": "end",
    "\x1bOF": "end",
    "\x1b[4~": "end",
    "\x1b[D": "back",
    "\x1bOD": "back",
    "\x1b": "back",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "erase",
    "\b": "erase",
}
"""What a terminal sends, and what the key is called here. Any other character is itself."""


def keys_of(data: str) -> list[str]:
    """The keys in what a terminal has sent in one piece; those that are unknown here are left out."""
    keys = []
    while data:
        known = max((each for each in NAMED if data.startswith(each)), key=len, default="")
        if known == "\x1b" and data[1:2] in {"[", "O"}:
            # A key that is not known: up to the letter that ends it.
            end = next((place for place, each in enumerate(data[2:], 2) if "@" <= each <= "~"), len(data) - 1)
            data = data[end + 1 :]
        elif known:
            keys.append(NAMED[known])
            data = data[len(known) :]
        else:
            if data[0].isprintable():
                keys.append(data[0])
            data = data[1:]
    return keys


@contextmanager
def pressed(fd: int, act: Callable[[str], None], gone: Callable[[], None]) -> Iterator[None]:
    """Call ``act`` on the loop with each key of a terminal, without a wait for the end of a line.

    Args:
        fd: the terminal.
        act: called with the key.
        gone: called once where the terminal is no more.
    """
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            data = os.read(fd, READ_BYTES)
        except InterruptedError:
            return
        except OSError:
            data = b""
        if not data:
            loop.remove_reader(fd)
            gone()
        for key in keys_of(data.decode("utf-8", "replace")):
            act(key)

    with by_key(fd):
        loop.add_reader(fd, read)
        try:
            yield
        finally:
            loop.remove_reader(fd)


def until_foreground(fd: int) -> None:
    """Stop for as long as the terminal is another's, as a program in the background does that wants to have it."""
    with suppress(OSError):  # it is nobody's
        while os.tcgetpgrp(fd) != os.getpgrp():
            os.kill(os.getpid(), signal.SIGSTOP)


@contextmanager
def by_key(fd: int) -> Iterator[None]:
    """Have a terminal give its keys one by one, unshown. Ctrl-C and Ctrl-Z stay signals."""
    before = termios.tcgetattr(fd)
    try:
        tty.setcbreak(fd)
        yield
    finally:
        # By now the terminal may be another's, and this is not to stop us. One that is gone cannot be as it was.
        stops = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:
            with suppress(termios.error):
                termios.tcsetattr(fd, termios.TCSADRAIN, before)
        finally:
            signal.signal(signal.SIGTTOU, stops)
