"""Channels that are gone while not all is stored that was published there: that is published, as with RabbitMQ.

A client may end without a word, and a channel with an error. What was published before waits until its exchange's sender has room for it: a
turn or two of the loop, unless a queue is full. So long such channels stay, within bounds of time, and of bytes over all connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from transport.gateways.amqp.channel import Channel

LEAVING_SECONDS: Final = 5.0
"""In which it is stored, or dropped: nobody was told that it is."""
MOST_LEAVING_BYTES: Final = 64 << 20
"""Of what waits of all that are gone; beyond that, what one of them has is dropped at once."""
COUNTED_BYTES: Final = 4_096
"""What each counts as besides."""


class Leaving:
    """Those of one gateway.

    Attributes:
        bytes: that they count as now.
    """

    def __init__(self) -> None:
        self.bytes = 0


class Remains:
    """What is left of one connection, or channel.

    Args:
        leaving: where it counts.
        channels: those that nobody hears any more.
        size: bytes that wait there.
        loop: for the deadline.
    """

    def __init__(
        self, leaving: Leaving, channels: Sequence[Channel], size: int, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._leaving, self._channels = leaving, channels
        self._size = size + COUNTED_BYTES
        self._timer: asyncio.TimerHandle | None = None
        leaving.bytes += self._size
        for channel in channels:
            channel.leave_behind()
        if leaving.bytes > MOST_LEAVING_BYTES:
            self.end()
        elif self._waits():
            self._timer = loop.call_later(LEAVING_SECONDS, self.end)
        else:
            self.end()

    def look(self) -> bool:
        """Something may be stored that was not; whether some is still to come."""
        if self._channels and not self._waits():
            self.end()
        return bool(self._channels)

    def end(self) -> None:
        """Drop what still waits."""
        channels, self._channels = self._channels, ()
        self._leaving.bytes -= self._size
        self._size = 0
        if self._timer is not None:
            self._timer.cancel()
        for channel in channels:
            channel.end()

    def _waits(self) -> bool:
        return any(channel.unstored for channel in self._channels)
