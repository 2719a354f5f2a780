"""How many messages a turn of the loop delivers over AMQP: each is work of its own here, while a queue hands over whole batches.

What a program has sent natively may have a thousand messages in one batch, each with headers of its own, and a client without a prefetch
wants all that there is. Its properties are made of each message's headers, in some hundredth of a millisecond: half a second for all that
a queue hands over in one turn. So there is a number of messages for each turn, for all connections together. What comes beyond that stays
with the actor that receives it, and is delivered in the next.
"""

from __future__ import annotations

from asyncio import get_running_loop
from typing import Final

from actors.errors import NextTurnError

MESSAGES_A_TURN: Final = 512
"""Some milliseconds of work."""
FEW_MESSAGES: Final = 8
"""Batches of no more are not counted: of those there are no more in a turn than a queue delivers in one go."""
STEP_MESSAGES: Final = 2_048
"""Of a consumer's demand the queue hears in steps of so many, so that no batch has more: with one more turn of the queue for each half."""


class Pace:
    """One gateway's."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = MESSAGES_A_TURN

    def take(self, messages: int) -> None:
        """Count messages that are about to be delivered; raises NextTurnError where this turn has no time for more."""
        left = self._left
        if left <= 0:
            raise NextTurnError
        if left == MESSAGES_A_TURN:
            get_running_loop().call_soon(self._begin_turn)
        self._left = left - messages

    def _begin_turn(self) -> None:
        self._left = MESSAGES_A_TURN
