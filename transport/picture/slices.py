"""Long work on the loop, cut into slices: others have their turns in between, and no turn has two slices."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary

SLICE_SECONDS: Final = 0.001
"""After which others have their turn; a slice ends with the queue that is being read, which is no more than as much again."""
TURNS_BETWEEN: Final = 4
"""Turns of the loop from one slice to the next, of one who works: a message of others passes through five."""


async def others_turns() -> None:
    """Let others have theirs, between two slices."""
    for _ in range(TURNS_BETWEEN):
        await asyncio.sleep(0)
    await own_turn()


async def own_turn() -> None:
    """Wait for a turn of the loop in which no other slice runs: a console and a page of metrics, made at once, would stop it for both."""
    loop = asyncio.get_running_loop()
    line = _lines.get(loop)
    if line is None:
        line = _lines[loop] = _Line()
    await line.pass_through(loop)


class _Line:
    """Those who wait for a turn of one loop, in order. While nobody does, nothing here knows the loop, so that an old one is freed."""

    def __init__(self) -> None:
        self._taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def pass_through(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._taken:
            mine = loop.create_future()
            self._waiting.append(mine)
            try:
                await mine
            except asyncio.CancelledError:
                if not mine.cancelled():
                    # The turn had come.
                    self._go_on()
                elif mine in self._waiting:
                    self._waiting.remove(mine)
                raise
        self._taken = True
        # In the next turn, so that this one is not taken twice.
        loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """The first of those who wait and have not gone away has the turn, if there is one."""
        self._taken = False
        while self._waiting and not self._taken:
            first = self._waiting.popleft()
            if not first.done():
                first.set_result(None)
                self._taken = True


_lines: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Line]] = WeakKeyDictionary()


class Slices:
    """Says when a slice is over; `pause` is to be called behind each piece of the work, some tenths of a millisecond long.

    Args:
        clock: seconds that go on while the loop stands.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._ends = clock() + SLICE_SECONDS

    async def begin(self) -> None:
        """Wait for a turn to begin the work in."""
        await own_turn()
        self._ends = self._clock() + SLICE_SECONDS

    async def pause(self) -> None:
        """Let others have their turns, if this slice is over."""
        if self._clock() >= self._ends:
            await others_turns()
            self._ends = self._clock() + SLICE_SECONDS
