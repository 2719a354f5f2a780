"""What is written in a turn of the loop leaves at its end: all connections' together, so that a turn is asked for once and not for each."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Flushed(Protocol):
    """Who has something to write."""

    def flush(self) -> None:
        """Write it."""

    def abort(self, error: Exception, /) -> None:
        """It could not be written: end at once."""


class Flushes:
    """Those of one loop that have something to write when its turn ends."""

    __slots__ = ("_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[Flushed] = []

    def ask(self, flushed: Flushed) -> None:
        """``flushed``, which has not asked since it was last flushed, has something to write."""
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(flushed)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            try:
                each.flush()
            except Exception as error:  # noqa: BLE001 - the others' bytes leave whatever becomes of one's
                each.abort(error)
