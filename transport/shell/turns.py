"""Whose frames are handled in this turn of the loop, and how many: no connection holds the loop, however much it sends at once.

Work is counted in units: what a frame of no size costs, some microseconds (`work_of`). A connection that has just received something
may have a share of the turn handled at once. What is beyond it waits, undecoded and unread, in one line with all others: each turn
those in line have what the turn has for them, one after another. So what a turn does for those who send a great deal does not grow with
their number, and whoever sends little is hardly ever in line.

A message passes through some five turns on its way from one client to another, and its latency is the sum of them. So a line of many is
served in one turn of ``CROWD_EVERY``: the turns between are short, and cost next to nothing where nobody else has work. And a frame that
takes more than a turn has for the line is paid for by the next ones.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

TURN_WORK = 64
"""Units that a turn has for those in line: half a millisecond, ten times what a turn costs by itself. A message passes through five
turns on its way from one client to another, so this is what everybody's latency grows by when somebody floods."""
SHARE = 32
"""Units that one connection is given at a time: a receive of three batches, each of a thousand messages of 100 bytes, is handled whole."""
CROWD = 4
"""So many in line are a crowd: one or two that send steadily are as fast as ever."""
CROWD_EVERY = 4
"""A crowd's work is done in one turn of so many: most of a message's turns have none of it. Three empty turns take 0.05 ms."""
ENDS = 8
"""Connections that come to their end in one turn as they break off, and as many of those that wait for it, in half a millisecond each:
a process that has thousands of them may die."""
LOOK_WORK = 512
"""Units of work after which Python is asked to look for cycles among what was made meanwhile: some milliseconds' worth, of thousands of
objects at most. By itself it counts what was made less what was freed, so where one connection's objects replace another's it looks late,
and then at all of them in one turn: 150 ms where clients did nothing but open and close two thousand channels each."""
LEAST = 8
"""Units that a connection which has just received something has in any case, the work of a batch of nearly a thousand messages: one that
sends little has no line to stand in, but for what takes more (`LONG_WORK`) in a turn that is used up."""

logger = logging.getLogger("penstock.transport")


class Worker(Protocol):
    """What stands in line."""

    def work(self, share: int) -> int:
        """Handle what waits, of ``share`` units and one frame at least; returns the units. What is left joins the line again."""

    def abort(self, error: Exception, /) -> None:
        """It could not: end at once."""


class Flushed(Protocol):
    """Who has something to write when a turn ends."""

    def flush(self) -> None:
        """Write it."""

    def abort(self, error: Exception, /) -> None:
        """It could not be written: end at once."""


def _nothing() -> None:
    """A program that is not the broker has its own ways with memory."""


def _end(each: Worker | Flushed, error: Exception) -> None:
    """End one that is broken; the others go on."""
    logger.error("a connection ends on a defect of ours", exc_info=error)
    try:
        each.abort(error)
    except Exception:
        logger.exception("and it cannot even be aborted")


class Flushes:
    """What is written in a turn of the loop leaves at its end, all connections' together: a turn is asked for once and not for each."""

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
                _end(each, error)


class _Scheduled:
    """What asks the loop for a turn of its own, once however often it wants one."""

    __slots__ = ("_loop", "_scheduled")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._scheduled = False

    def _next_turn(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """The turn. It says first that none is asked for any more."""
        raise NotImplementedError


class Endings(_Scheduled):
    """Connections come to their end a few at a time, however many break off together: the turns between are for those that stay.

    As with the line of those who send much, they have one turn of ``CROWD_EVERY``.
    """

    __slots__ = ("_caught_up", "_left", "_line", "_skipped")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._line: deque[Callable[[], None]] = deque()
        self._caught_up: list[Callable[[], None]] = []
        self._left = ENDS
        self._skipped = 0

    @property
    def waiting(self) -> int:
        """How many are over and not at their end yet."""
        return len(self._line)

    def wait(self, ending: Callable[[], None]) -> bool:
        """Whether ``ending`` has to wait, and is called in a turn to come; where not, it is the caller's to do now."""
        self._next_turn()
        if self._left > 0:
            self._left -= 1
            return False
        self._line.append(ending)
        return True

    def when_caught_up(self, resume: Callable[[], None]) -> None:
        """Call ``resume`` once, as soon as none waits."""
        if resume not in self._caught_up:
            self._caught_up.append(resume)

    def _turn(self) -> None:
        self._scheduled = False
        if self._line and self._skipped < CROWD_EVERY - 1:
            self._skipped += 1
            self._next_turn()
            return
        self._skipped = 0
        self._left = ENDS
        for _ in range(min(ENDS, len(self._line))):
            try:
                self._line.popleft()()
            except Exception:
                logger.exception("the end of a connection fails on a defect of ours")
        if self._line:
            self._next_turn()
            return
        caught_up, self._caught_up = self._caught_up, []
        for resume in caught_up:
            try:
                resume()
            except Exception:
                logger.exception("connections are not accepted again, on a defect of ours")


class Turns(_Scheduled):
    """The turns of one loop, shared by the connections that have to share it.

    Args:
        loop: whose turns.
        look: called between two pieces of work, each time that ``LOOK_WORK`` was done.

    Attributes:
        flushes: what is written when a turn ends.
        endings: those that are over.
    """

    __slots__ = ("_began", "_debt", "_done", "_left", "_line", "_look", "_skipped", "endings", "flushes")

    def __init__(self, loop: asyncio.AbstractEventLoop, look: Callable[[], object] = _nothing) -> None:
        super().__init__(loop)
        self.flushes = Flushes(loop)
        self.endings = Endings(loop)
        self._line: deque[Worker] = deque()
        self._look = look
        # What is left of this turn, what was when it began, and what was done before since the last look.
        self._left = self._began = TURN_WORK
        self._skipped = self._debt = self._done = 0

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return len(self._line)

    def share(self) -> int:
        """Units that a connection which has just received something may have handled now."""
        return max(LEAST, min(SHARE, self._left))

    def used(self, units: int) -> int:
        """So much was handled outside of the line; returns how many of these units the turn did not have."""
        self._left -= units
        if self._left < SHARE:
            # Before, there is enough for whoever comes, in this turn or another.
            self._next_turn()
        return min(units, -self._left) if self._left < 0 else 0

    def join(self, worker: Worker) -> None:
        """Stand in line, behind the others."""
        self._line.append(worker)
        self._next_turn()

    def _turn(self) -> None:
        self._scheduled = False
        self._look_around()
        if len(self._line) >= CROWD and self._skipped < CROWD_EVERY - 1:
            self._skipped += 1
            self._next_turn()
            return
        self._skipped = 0
        left = whole = TURN_WORK - self._debt
        for _ in range(len(self._line)):
            if left <= 0:
                break
            worker = self._line.popleft()
            try:
                left -= worker.work(min(SHARE, left))
            except Exception as error:  # noqa: BLE001 - the others' turn comes whatever becomes of one
                left -= 1
                _end(worker, error)
        self._debt = max(0, -left)
        # What those in line had, those who come now have not.
        self._done += whole - left
        self._left = self._began = left
        if self._line or left <= 0:
            # The debt is paid by turns that follow, and not by whoever comes next, however much later.
            self._next_turn()

    def _look_around(self) -> None:
        self._done += self._began - self._left
        self._began = self._left
        if self._done >= LOOK_WORK:
            self._done = 0
            self._look()
