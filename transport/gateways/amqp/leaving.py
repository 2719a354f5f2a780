"""Channels that are gone while not all is stored that was published there: that is published, as with RabbitMQ.

A client may end without a word, and a channel with an error. What was published before waits until its exchange's sender has room for it: a
turn or two of the loop, unless a queue is full. So long such channels stay, within bounds of time, and of bytes over all connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from transport.gateways.amqp.channel import Channel
    from transport.gateways.amqp.channel_port import ChannelPort

LEAVING_SECONDS: Final = 5.0
"""In which it is stored, or dropped: nobody was told that it is."""
MOST_LEAVING_BYTES: Final = 192 << 20
"""Of what waits of all that are gone, a largest message among it; beyond that, what one of them has is dropped at once."""
COUNTED_BYTES: Final = 4_096
"""What each counts as besides."""


class Leaving:
    """Those of one gateway.

    Attributes:
        bytes: that they count as now.
    """

    def __init__(self) -> None:
        self.bytes = 0


class Unfinished:
    """Channels of which something is to be done yet, when nothing new comes to any.

    Each word on one is reason to ask whether that was the last. Of thousands, to look at all for each would be a turn of seconds.

    Args:
        is_unfinished: whether one is.
    """

    def __init__(self, is_unfinished: Callable[[Channel], bool]) -> None:
        self._is_unfinished = is_unfinished
        self._left: list[Channel] = []

    def among(self, channels: Iterable[Channel]) -> bool:
        """Whether there is any among these; all are looked at only when none is left of those that there were."""
        left = self._left
        while left and not self._is_unfinished(left[-1]):
            left.pop()
        if not left:
            left += filter(self._is_unfinished, channels)
        return bool(left)

    def forget(self) -> None:
        """Know no channel any more."""
        self._left.clear()


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
        self._unfinished = Unfinished(lambda channel: channel.unstored)
        leaving.bytes += self._size
        if len(channels) > 1:
            # Or what one held would come to those that leave behind it, and fail once more with each.
            for channel in channels:
                if channel.consuming is not None:
                    channel.consuming.stop()
        for channel in channels:
            channel.leave_behind()
        if leaving.bytes > MOST_LEAVING_BYTES:
            self.end()
        elif self._waits():
            self._timer = loop.call_later(LEAVING_SECONDS, self._time_is_up)
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

    def _time_is_up(self) -> None:
        """What is dropped waits no more; a connection that stands, and of which a channel was closed, may be read again."""
        channels = self._channels
        self.end()
        for channel in channels:
            channel.waiting_changed()

    def _waits(self) -> bool:
        return self._unfinished.among(self._channels)


class Behind:
    """What channels of one connection have left: of each that was closed, and in the end of all.

    Args:
        leaving: where it counts.
        loop: for the deadlines.

    Attributes:
        remains: what is left, by channel; to be looked at only.
    """

    def __init__(self, leaving: Leaving, loop: asyncio.AbstractEventLoop) -> None:
        self._leaving = leaving
        self._loop = loop
        self.remains: dict[ChannelPort, Remains] = {}

    def leave(self, channels: Sequence[Channel], size: int) -> None:
        """Nobody hears these any more; so many bytes wait there."""
        remains = Remains(self._leaving, channels, size, self._loop)
        if remains.look():
            self.remains |= dict.fromkeys(channels, remains)

    def look(self, channel: ChannelPort) -> None:
        """Something of a channel may be stored that was not. What is over is known no more: it knows its connection."""
        remains = self.remains.get(channel)
        if remains is not None and not remains.look():
            self.remains = {each: left for each, left in self.remains.items() if left is not remains}
