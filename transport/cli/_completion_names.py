"""The names of a broker's queues and exchanges, for a shell that completes one: soon, or none, and never a word to anybody."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, redirect_stderr
from types import FrameType
from typing import Any, Final, NoReturn

import typer

from transport.cli._access import ACCESS, take_access
from transport.errors import TransportError

SECONDS: Final = 0.5
"""For everything, from the connection to the last name: who waits for a key to do something does not wait longer."""
MOST_NAMES: Final = 1000
HARMLESS: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@%+,/-]*")
"""Names that mean themselves to every shell. Others are not offered, for a shell runs what it is given, and anybody may name a queue."""


def queue_names(said: dict[str, str]) -> list[str]:
    """The names of the queues at the broker that the line, the environment or a context says; none where it does not answer in time.

    Args:
        said: the options on the line, by their names.
    """
    return _names(said, _asked)


def exchange_names(said: dict[str, str]) -> list[str]:
    """The names of the exchanges there, likewise."""
    return _names(said, _asked_for_exchanges)


def _names(said: dict[str, str], asked: Callable[[str, Any], Coroutine[Any, Any, list[str]]]) -> list[str]:
    given: dict[str, Any] = {name: said.get(name) for name in ACCESS}
    given["tls"] = "tls" in said or None
    # Where it was said it is the verb's own; a receiver's answers no commands, and then there are no names.
    given["address"] = said.get("address")
    try:
        with _in_time(), _in_silence():
            access = take_access("completion", given)
            names = asyncio.run(asked(given["address"], access))
    except (typer.Exit, TransportError, OSError):
        return []
    return sorted(name for name in names if HARMLESS.fullmatch(name))[:MOST_NAMES]


async def _asked(address: str, access: Any) -> list[str]:
    from transport.clients.administration import Administration  # noqa: PLC0415 - behind what may say that there is no need

    async with Administration(address, connect_timeout=SECONDS, timeout=SECONDS, access=access) as administration:
        return [str(facts.get("name")) for facts in await administration.queues()]


async def _asked_for_exchanges(address: str, access: Any) -> list[str]:
    from transport.clients.administration import Administration  # noqa: PLC0415 - as above

    async with Administration(address, connect_timeout=SECONDS, timeout=SECONDS, access=access) as administration:
        return [str(facts.get("name")) for facts in await administration.exchanges()]


@contextmanager
def _in_time() -> Iterator[None]:
    """Raise TimeoutError in what takes too long, whatever it is: a file with a password may be a pipe that nobody writes to."""

    def late(_number: int, _frame: FrameType | None) -> NoReturn:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _in_silence() -> Iterator[None]:
    """Nothing is asked of anybody, and nothing is told."""
    terminal = sys.stdin
    with open(os.devnull) as nothing, open(os.devnull, "w") as nobody, redirect_stderr(nobody):
        sys.stdin = nothing
        try:
            yield
        finally:
            sys.stdin = terminal
