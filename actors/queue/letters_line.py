"""Queues whose dead letters have a step to take: they take turns. A turn of the loop has some milliseconds of it, however many they are.

Messages that expire at one time may be in very many queues. Had each of these its step in the same turn, everybody else would wait for all.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from actors.runtime._loop_inbox import LoopInbox

TURN_SECONDS: Final = 0.005
"""For which steps are taken in one turn of the loop; one is always taken."""


class LettersStep:
    """To the queue itself: the next step."""

    __slots__ = ()


STEP: Final = LettersStep()


class LettersLine:
    """The broker's. It has each queue once at most: whoever puts one here knows whether it is."""

    __slots__ = ("_due", "_planned")

    def __init__(self) -> None:
        self._due: deque[LoopInbox] = deque()
        self._planned = False

    def put(self, inbox: LoopInbox) -> None:
        """A queue has a step to take, in another turn of the loop than this one, behind those that have waited longer."""
        self._due.append(inbox)
        self._plan()

    def _plan(self) -> None:
        if not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._planned = False
        clock = asyncio.get_running_loop().time
        until = clock() + TURN_SECONDS
        try:
            while self._due:
                inbox = self._due.popleft()
                if not inbox.handled(STEP):
                    # It is at work, and takes the step among what it has to do: how long that is is not seen here.
                    inbox.offer_beyond_bound(STEP)
                    break
                if clock() >= until:
                    break
        finally:
            if self._due:
                self._plan()
