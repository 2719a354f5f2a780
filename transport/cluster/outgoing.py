"""What a link sends, in three lanes: small messages at once, records as the socket takes them, pieces of transfers when nothing else waits.

Small messages have to be there in time: by them a leader is known to be there, and a follower too. So of what is large no more waits
before the socket than leaves it in ``QUEUE_SECONDS``, as it was measured lately, and the kernel holds little that has not left. The rest
waits as buffers that nobody has copied, and small messages go between its frames. So a message with records is sent only when its last
frame was handed to the socket: until then nothing that follows on it may be sent, and what is sent meanwhile does not follow on it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from transport.cluster.frames import FRAME_BYTES, frames_of
from transport.errors import UnreadError
from transport.shell.loop_transport import write_parts

if TYPE_CHECKING:
    from transport.cluster.frames import Buffer, FrameWriter
    from transport.cluster.link_codec import Encoded

QUEUE_SECONDS: Final = 0.1
"""What is large and waits before the socket is no more than leaves in so long; a fifth of a beat."""
LEAST_QUEUE_BYTES: Final = FRAME_BYTES
MOST_QUEUE_BYTES: Final = 1024 * 1024
"""Bounds of that, whatever was measured."""
HIGH_BYTES: Final = 32 * 1024
"""Above it the socket does not keep up, and the transport says when it does again."""
MAX_UNSENT_BYTES: Final = 4 * 1024 * 1024
"""With so much waiting and something more to be said, the other side takes nothing: the connection ends."""
MOST_LATE_SECONDS: Final = 0.05
"""A frame at the pace of transfers takes 2 ms, and the loop of a busy leader comes round in some multiple of that. Were the rest lost each
time, a transfer would have a fraction of its rate."""
MAX_SHIPMENTS: Final = 8
"""Messages with records that wait, or that many have begun; there is one, and few more where the two begin anew."""
MAX_PIECES: Final = 2
"""Of transfers, that wait, or that have begun: each is asked for, and who asks again wants the last one."""


class Pace:
    """A rate that all transfers of a node share. What is saved up is what a turn of the loop that came late has lost, and no more."""

    def __init__(self, bytes_a_second: float) -> None:
        self._rate = bytes_a_second
        self._free = 0.0

    def wait(self, now: float) -> float:
        """Seconds until something may be sent."""
        return max(0.0, self._free - now)

    def spend(self, nbytes: int, now: float) -> None:
        """So much is sent."""
        self._free = max(self._free, now - MOST_LATE_SECONDS) + nbytes / self._rate


class _Shipment:
    """A message that goes in frames, or waits to; ``left`` of them have not been handed to the socket."""

    __slots__ = ("frames", "left", "shipped")

    def __init__(self, writer: FrameWriter, message: Encoded) -> None:
        self.frames: Iterator[list[Buffer]] = writer.cut(*message)
        self.left = frames_of(message.size)
        self.shipped: Callable[[], None] | None = None

    def take(self) -> list[Buffer]:
        """The next frame."""
        self.left -= 1
        return next(self.frames)


class Outgoing:
    """The sending side of one connection.

    Args:
        loop: where it lives.
        transport: what it writes to.
        writer: makes frames.
        pace: of transfers.
        stuck: told once where the other side takes nothing.

    Attributes:
        bytes_out: handed to the transport so far.
        said: when something was sent last.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        writer: FrameWriter,
        pace: Pace,
        stuck: Callable[[Exception], None],
    ) -> None:
        self.bytes_out = 0
        self.said = loop.time()
        self._loop = loop
        self._transport = transport
        self._writer = writer
        self._pace = pace
        self._stuck = stuck
        self._bulk: deque[_Shipment] = deque()
        self._pieces: deque[_Shipment] = deque()
        self._queue_bytes: float = LEAST_QUEUE_BYTES
        self._slow: tuple[float, int] | None = None  # when the socket did not keep up, and what it had taken then
        self._pumping = self._over = False
        self._timer: asyncio.TimerHandle | None = None
        transport.set_write_buffer_limits(high=HIGH_BYTES)

    @property
    def waiting(self) -> int:
        """Bytes that wait before the socket."""
        return self._transport.get_write_buffer_size()

    def prompt(self, message: Encoded) -> None:
        """Send a small message now."""
        lane, kind, parts, size = message
        if self._over:
            return
        if self.waiting > MAX_UNSENT_BYTES:
            self._stuck(UnreadError(f"{self.waiting} bytes wait for a node that takes none"))
            return
        self._write(self._writer.whole(lane, kind, parts, size))

    def ship(self, message: Encoded, shipped: Callable[[], None]) -> bool:
        """Send a message with records; whether it is sent. If not, ``shipped`` is called when it is, unless the connection ends before."""
        size = message.size
        if self._over:
            return False
        if not self._bulk and size <= FRAME_BYTES and self.waiting < self._queue_bytes:
            self._write(self._writer.whole(*message))
            return True
        if len(self._bulk) >= MAX_SHIPMENTS:
            self._stuck(UnreadError(f"{MAX_SHIPMENTS} messages with records wait for a node that takes none"))
            return False
        shipment = _Shipment(self._writer, message)
        alone = not self._bulk
        self._bulk.append(shipment)
        if alone:
            # Whoever waits for another one is called by that; here nobody is called.
            self._pump()
        if not shipment.left:
            return True
        shipment.shipped = shipped
        return False

    def transfer(self, message: Encoded) -> None:
        """Send a piece of a transfer, at the pace of them, when nothing else waits."""
        if self._over:
            return
        if len(self._pieces) >= MAX_PIECES:
            self._pieces.pop()
        self._pieces.append(_Shipment(self._writer, message))
        self._pump()

    def paused(self) -> None:
        """The socket does not keep up."""
        if self._slow is None:
            self._slow = (self._loop.time(), self.bytes_out - self.waiting)

    def resumed(self) -> None:
        """It has caught up."""
        slow, self._slow = self._slow, None
        if slow is not None:
            self._measure(*slow)
        self._pump()

    def close(self) -> None:
        """Send nothing more."""
        self._over = True
        self._bulk.clear()
        self._pieces.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _measure(self, since: float, taken: int) -> None:
        seconds = max(self._loop.time() - since, 1e-4)
        queue_bytes = (self.bytes_out - self.waiting - taken) / seconds * QUEUE_SECONDS
        now = self._queue_bytes
        self._queue_bytes = min(max(min(queue_bytes, now * 2), now / 2, LEAST_QUEUE_BYTES), MOST_QUEUE_BYTES)

    def _pump(self) -> None:
        """Hand to the socket what may wait before it."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while not self._over and (self._ship_more() or self._transfer_more()):
                pass
        finally:
            self._pumping = False

    def _ship_more(self) -> bool:
        """Records, as many as may wait; whether there were any."""
        room = self._queue_bytes - self.waiting
        if room <= 0 or not self._bulk:
            return False
        parts: list[Buffer] = []
        shipped: list[Callable[[], None]] = []
        while room > 0 and self._bulk:
            shipment = self._bulk[0]
            frame = shipment.take()
            parts += frame
            room -= sum(map(len, frame))
            if not shipment.left:
                self._bulk.popleft()
                if shipment.shipped is not None:
                    shipped.append(shipment.shipped)
        self._write(parts)
        for each in shipped:
            each()
        return True

    def _transfer_more(self) -> bool:
        """One frame of a transfer; whether there was one, and it might. Where records wait, more waits before the socket than that."""
        if not self._pieces or self.waiting > HIGH_BYTES or self._timer is not None:
            return False
        now = self._loop.time()
        if (seconds := self._pace.wait(now)) > 0:
            self._timer = self._loop.call_at(now + seconds, self._on_time)
            return False
        piece = self._pieces[0]
        frame = piece.take()
        if not piece.left:
            self._pieces.popleft()
        self._pace.spend(sum(map(len, frame)), now)
        self._write(frame)
        return True

    def _on_time(self) -> None:
        self._timer = None
        self._pump()

    def _write(self, parts: list[Buffer]) -> None:
        if not parts:
            return
        size = sum(map(len, parts))
        self.bytes_out += size
        self.said = self._loop.time()
        if not self._transport.is_closing():
            write_parts(self._transport, parts, size, HIGH_BYTES)
