"""How many messages a turn of the loop delivers over AMQP: each is work of its own here, while a queue hands over whole batches.

What a program has sent natively may have a thousand messages in one batch, each with headers of its own, and a client without a prefetch
wants all that there is. Its properties are made of each message's headers, in some hundredth of a millisecond: half a second for all that
a queue hands over in one turn. So there is a number of messages for each turn, for all connections together. What comes beyond that waits
with its consumer, which is in line; it is no more than the bytes that may be on their way to a client.
"""

from __future__ import annotations

from asyncio import get_running_loop
from collections import deque
from typing import Final, Protocol

MESSAGES_A_TURN: Final = 512
"""Some milliseconds of work."""
FEW_MESSAGES: Final = 8
"""Batches of no more are not counted: of those there are no more in a turn than a queue delivers in one go."""


class Waiting(Protocol):
    """A consumer for which something waits."""

    def go_on(self) -> bool:
        """Deliver as much as there is room for; whether something waits still."""


class Pace:
    """One gateway's.

    Attributes:
        room: messages that this turn may deliver yet.
    """

    __slots__ = ("_line", "room")

    def __init__(self) -> None:
        self.room = MESSAGES_A_TURN
        self._line: deque[Waiting] = deque()

    def takes(self, messages: int) -> bool:
        """Count messages that are about to be delivered; False, and nothing is counted, where this turn has no room for all of them."""
        room = self.room
        if messages > room:
            return False
        if room == MESSAGES_A_TURN:
            get_running_loop().call_soon(self._begin_turn)
        self.room = room - messages
        return True

    def join(self, waiting: Waiting) -> None:
        """Have it go on, now as far as this turn has room, and in turns to come."""
        if not self._line and not waiting.go_on():
            return
        self._line.append(waiting)

    def _begin_turn(self) -> None:
        self.room = MESSAGES_A_TURN
        line = self._line
        while line and self.room:
            waiting = line.popleft()
            if waiting.go_on():
                # The turn is over, or it has said so itself; the next one begins with another.
                line.append(waiting)
