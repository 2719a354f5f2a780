"""The two ends of a simulated connection and the two pipes between them, as asyncio's selector transports over TCP behave.

A bounded kernel buffer each way, a write buffer with limits before it, half-closing, and a reset that destroys what was not read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tests.simulation.loop import Process
    from tests.simulation.network import Link

DEFAULT_HIGH = 64 * 1024
"""asyncio's default limit of a write buffer."""


class Tap(Protocol):
    """Who listens on the broker's end of a connection."""

    def received(self, data: bytes) -> None:
        """The broker is about to be given these."""

    def written(self, data: bytes) -> None:
        """The broker has written these."""

    def ended(self, reason: str) -> None:
        """The broker takes nothing more from this connection; may be said twice."""


def taken(buffer: bytearray, size: int) -> bytes:
    """The first bytes of a buffer, taken out of it."""
    if size == len(buffer):
        data = bytes(buffer)
        buffer.clear()
    else:
        data = bytes(memoryview(buffer)[:size])
        del buffer[:size]
    return data


class Pipe:
    """One direction of a link: write buffer, kernel and wire, kernel, reader.

    Attributes:
        outgoing: what the writer's kernel has not taken: asyncio's write buffer.
        arrived: what the reader has not read.
        silent: whether what would arrive is held back.
    """

    def __init__(self, link: Link, target: Endpoint) -> None:
        self.link = link
        self.target = target
        self.source: Endpoint
        self.outgoing = bytearray()
        self.arrived = bytearray()
        self.silent = False
        self._flight: deque[tuple[asyncio.TimerHandle, bytes | None, str]] = deque()
        self._held: list[tuple[bytes | None, str]] = []
        self._flying = 0
        self._last_arrival = 0.0
        self._ending: str | None = None
        self._fin_sent = False
        self._is_cut = False

    def write(self, data: bytes) -> None:
        """Take bytes from the writer."""
        if not self._is_cut:
            self.outgoing += data
            self.pump()

    def end(self, how: str) -> None:
        """Nothing more will be written; ``fin`` or ``rst`` follows what is under way."""
        self._ending = how
        self.pump()

    def pump(self) -> None:
        """Give the wire what fits it."""
        outgoing = self.outgoing
        while outgoing:
            link = self.link
            room = link.capacity - self._flying - len(self.arrived)
            if room <= 0:
                return
            size = min(room, link.network.fragment(len(outgoing)))
            segment = taken(outgoing, size)
            self._flying += size
            self._launch(segment, "")
        if self._ending is not None and not self._fin_sent:
            self._fin_sent = True
            self._launch(None, self._ending)

    def heal(self) -> None:
        """What was held back arrives."""
        self.silent = False
        held, self._held = self._held, []
        for segment, how in held:
            self._take(segment, how)

    def cut(self, survives: float) -> None:
        """Lose what is under way but for a share of it, which arrives now; nothing follows."""
        left = b"".join(segment or b"" for segment, _ in self._held)
        left += b"".join(segment or b"" for _, segment, _ in self._flight)
        for timer, _, _ in self._flight:
            timer.cancel()
        self._flight.clear()
        self._held.clear()
        self.outgoing.clear()
        self._flying = 0
        self._fin_sent = self._is_cut = True
        if not self.silent:
            self._take(left[: int(len(left) * survives)], "")

    def _launch(self, segment: bytes | None, how: str) -> None:
        network = self.link.network
        loop = network.loop
        arrival = max(self._last_arrival, loop.time() + self.link.delay())
        self._last_arrival = arrival
        timer = loop.arrive_at(arrival, self, self._arrive, network.context)
        self._flight.append((timer, segment, how))

    def _arrive(self) -> None:
        _, segment, how = self._flight.popleft()
        self._flying -= len(segment or b"")
        if self.silent:
            self._held.append((segment, how))
        else:
            self._take(segment, how)

    def _take(self, segment: bytes | None, how: str) -> None:
        if segment:
            if self.target.closed:
                self.link.network.unheard(self.target, self.source)
                return
            self.arrived += segment
            self.target.readable()
        elif how == "fin":
            self.target.end_arrived()
        elif how == "rst":
            self.target.reset()


class Endpoint(asyncio.Transport):
    """One end of a link, as asyncio's transports are.

    Attributes:
        process: whose it is.
        closed: whether its protocol knows that it is over, or its process is dead.
    """

    def __init__(self, link: Link, process: Process | None, peername: tuple[str, int]) -> None:
        super().__init__({"peername": peername})
        self.process = process
        self.closed = False
        self.protocol: Any = None
        self.tap: Tap | None = None
        self.inbound: Pipe
        self.outbound: Pipe
        self._link = link
        self._loop = link.network.loop
        self._paused = False
        self._closing = False
        self._eof_written = False
        self._eof_arrived = False
        self._eof_told = False
        self._broken: Exception | None = None
        self._writing_paused = False
        self._high, self._low = DEFAULT_HIGH, DEFAULT_HIGH // 4
        self._read_scheduled = False

    def opened(self, protocol: Any) -> None:
        """Tell the protocol; what arrives is read from now on."""
        self.protocol = protocol
        self._call(protocol.connection_made, self)
        self.readable()

    # asyncio's transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """The peer's name; there is no socket."""
        return super().get_extra_info(name, default)

    def is_closing(self) -> bool:
        """As asyncio's."""
        return self._closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """As asyncio's."""
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """As asyncio's."""
        return self.protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """As asyncio's."""
        self._high = DEFAULT_HIGH if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        """As asyncio's."""
        return len(self.outbound.outgoing)

    def write(self, data: Any) -> None:
        """As asyncio's."""
        if self._eof_written:
            raise RuntimeError("cannot write after write_eof")
        if self.closed or (self._closing and not self.outbound.outgoing):
            return
        if self._broken is not None:
            self._fatal(self._broken)
            return
        plain = bytes(data)
        if self.tap is not None:
            self.tap.written(plain)
        self.outbound.write(plain)
        if len(self.outbound.outgoing) > self._high and not self._writing_paused:
            self._writing_paused = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        """As asyncio's."""
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        """TCP can."""
        return True

    def write_eof(self) -> None:
        """As asyncio's; OSError where the peer has reset the connection."""
        if self._closing or self._eof_written:
            return
        self._note_end("half-closed")
        if self._broken is not None:
            raise OSError("transport endpoint is not connected")
        self._eof_written = True
        self.outbound.end("fin")

    def pause_reading(self) -> None:
        """As asyncio's."""
        self._paused = True

    def resume_reading(self) -> None:
        """As asyncio's."""
        if self._paused:
            self._paused = False
            if self._broken is not None:
                self._fatal(self._broken)
            else:
                self.readable()

    def is_reading(self) -> bool:
        """As asyncio's."""
        return not self._paused and not self._closing

    def close(self) -> None:
        """As asyncio's: what is in the write buffer leaves first."""
        if self._closing:
            return
        self._closing = True
        self._note_end("closed")
        if not self.outbound.outgoing:
            self._soon(self._lost, None)

    def abort(self) -> None:
        """As asyncio's: what is in the write buffer is lost."""
        self._fatal(None)

    # The network's side

    def when_it_looks(self, callback: Callable[[], object]) -> None:
        """Have a callback run in its process: at once, or when that goes on."""
        self._call(callback)

    def readable(self) -> None:
        """Something has arrived: have it read in a turn of its own."""
        if not self._read_scheduled and self.protocol is not None:
            self._read_scheduled = True
            self._when_ready(self._read)

    def end_arrived(self) -> None:
        """The peer writes no more."""
        self._eof_arrived = True
        self.readable()

    def reset(self) -> None:
        """The peer, or the network, has reset the connection; what was not read is lost."""
        if self.closed or self._broken is not None:
            return
        self._broken = ConnectionResetError("connection reset by peer")
        # asyncio does not look at a socket that it does not read: it learns when it writes, or reads again.
        if not self._paused:
            self._when_ready(self._broke)

    def drained(self) -> None:
        """The wire has taken some of what was written."""
        if not self._writing_paused and not self._closing:
            return
        left = len(self.outbound.outgoing)
        if ((self._writing_paused and left <= self._low) or (self._closing and not left)) and not self.closed:
            self._when_ready(self._write_on)

    def die(self) -> None:
        """Its process has been killed: nothing is told any more."""
        self._note_end("killed")
        self.closed = self._closing = True

    # Inside

    def _when_ready(self, callback: Callable[[], object]) -> None:
        context = self._link.network.context if self.process is None else self.process.context
        self._loop.socket_ready(self, callback, context)

    def _soon(self, callback: Callable[..., object], *arguments: Any) -> None:
        context = self._link.network.context if self.process is None else self.process.context
        self._loop.call_soon(callback, *arguments, context=context)

    def _call(self, callback: Callable[..., object], *arguments: Any) -> None:
        if self.process is None:
            callback(*arguments)
        elif self.process.frozen:
            self._loop.socket_ready(self, lambda: callback(*arguments), self.process.context.copy())
        elif self.process.alive:
            self.process.context.copy().run(callback, *arguments)

    def _read(self) -> None:
        self._read_scheduled = False
        if self._paused or self._closing or self.closed:
            return
        arrived = self.inbound.arrived
        if arrived:
            size = self._link.network.fragment(len(arrived))
            protocol = self.protocol
            if buffered := isinstance(protocol, asyncio.BufferedProtocol):
                buffer = protocol.get_buffer(-1)
                size = min(size, len(buffer))
                data = taken(arrived, size)
                buffer[:size] = data
            else:
                data = taken(arrived, size)
            if self.tap is not None:
                self.tap.received(data)
            if buffered:
                protocol.buffer_updated(size)
            else:
                protocol.data_received(data)
            self.inbound.pump()
            self.inbound.source.drained()
            if arrived or self._eof_arrived:
                self.readable()
        elif self._eof_arrived and not self._eof_told:
            self._eof_told = True
            if not self.protocol.eof_received():
                self.close()

    def _write_on(self) -> None:
        left = len(self.outbound.outgoing)
        if self._writing_paused and left <= self._low and not self.closed:
            self._writing_paused = False
            self.protocol.resume_writing()
        if self._closing and not left and not self.closed:
            self._lost(None)

    def _broke(self) -> None:
        if self._broken is not None and not self._paused:
            self._fatal(self._broken)

    def _fatal(self, error: Exception | None) -> None:
        if self.closed:
            return
        self._closing = True
        self._note_end("aborted")
        self.outbound.outgoing.clear()
        self._soon(self._lost, error)

    def _lost(self, error: Exception | None) -> None:
        if self.closed:
            return
        self.closed = True
        self._note_end("lost")
        # A socket closed with something unread resets the connection.
        self.outbound.end("rst" if self.inbound.arrived or error is not None else "fin")
        self._link.ended()
        self.protocol.connection_lost(error)

    def _note_end(self, reason: str) -> None:
        if self.tap is not None:
            self.tap.ended(reason)
