"""What a queue's actor tells itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from actors.runtime.loop_future import LaterReply


class Tick:
    """The state's next deadline has come."""

    __slots__ = ()


class Store:
    """Store what was accepted meanwhile."""

    __slots__ = ()


class Durable:
    """More of what happened is durable."""

    __slots__ = ()


class Purge:
    """Go on with a purge of what was there when it began."""

    __slots__ = ("below", "messages", "reply")

    def __init__(self, reply: LaterReply, below: int, messages: int) -> None:
        self.reply = reply
        self.below = below
        self.messages = messages


TICK: Final = Tick()
STORE: Final = Store()
DURABLE: Final = Durable()
