"""The shell between a socket that speaks WebSocket and a connection that carries the native protocol.

To the socket it is a protocol that receives, to the connection a transport. Both sides stay as they are on TCP. What is received goes into
the buffer that the connection gives, and is taken apart there (`websocket_frames`), so a connection keeps no more than on TCP. It pauses
reading, and is told to pause writing, by the socket itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from transport.errors import RemoteProtocolError
from transport.gateways.http.websocket_frames import (
    GOING_AWAY,
    INTERNAL,
    NONE_SAID,
    NORMAL,
    POLICY,
    PROTOCOL_ERROR,
    TOO_LARGE,
    FrameReader,
    binary_head,
    close_frame,
    pong,
)
from transport.shell.ends import leave_no_cycle
from transport.wire.frame_protocol import FrameProtocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transport.shell.connection import Connection
    from transport.shell.turns import Turns
    from transport.wire.receiving import Part

RECEIVE_BYTES: Final = 64 * 1024
"""Of one receive, of a peer whose frames are large."""
LEAST_RECEIVE_BYTES: Final = 2 * 1024
"""Of one receive, of a peer whose frames are tiny: it holds some hundred of them, half a millisecond's work."""
FRAMES_A_RECEIVE: Final = 256
"""So many frames are to be in one receive at most, by the size of those before; and more are charged to the peer."""
FRAMES_A_UNIT: Final = 4
"""A frame takes two microseconds, and a unit of work some eight."""
FREE_FRAMES: Final = 32
"""So many frames in one receive are charged nothing: what they carry is."""
DISCARDED_A_UNIT: Final = 32 * 1024
"""Bytes that come behind our close frame; as what a refused client of TCP sends."""

CLOSE_CODES: Final = {
    "not-leader": GOING_AWAY,
    "shutting-down": GOING_AWAY,
    "protocol-error": PROTOCOL_ERROR,
    "frame-too-large": TOO_LARGE,
    "internal-error": INTERNAL,
    "journal-failed": INTERNAL,
}
"""The close code behind an ERROR of each code; of one that is not here `POLICY`."""


class WebSocketProtocol(FrameProtocol):
    """Frames of the native protocol; it notes what the close frame is to say.

    Attributes:
        close_code: of the close frame.
        reason: what stands beside it.
    """

    close_code = NORMAL
    reason = ""

    def last_words(self, code: str, text: str) -> Sequence[Part]:
        """As of `FrameProtocol`."""
        if self.close_code == NORMAL:
            self.close_code, self.reason = CLOSE_CODES.get(code, POLICY), code
        return super().last_words(code, text)


class WebSocket(asyncio.Transport, asyncio.BufferedProtocol):
    """One WebSocket.

    Args:
        transport: the socket, on which the handshake is over.
        connection: carries the native protocol.
        protocol: what it carries.
        turns: the loop's, for a peer that sends many tiny frames.
    """

    def __init__(
        self, transport: asyncio.Transport, connection: Connection[Any], protocol: FrameProtocol, turns: Turns
    ) -> None:
        super().__init__()
        self._transport = transport
        self._connection = connection
        self._protocol = protocol
        self._turns = turns
        self._reader = FrameReader()
        self._view = memoryview(b"")
        self._most = LEAST_RECEIVE_BYTES * 4
        # Whether the connection reads, and whether this stands in line for what its frames took.
        self._reads = self._reading = True
        self._in_line = False
        self._owed = 0
        self._said_close = self._closing = self._told_end = self._over = False

    def open(self) -> None:
        """Begin: the socket is this one's from now on."""
        # What waits at the socket is looked for anew behind this: uvloop asks the protocol how it receives when reading begins.
        self._transport.pause_reading()
        self._reading = False
        self._transport.set_protocol(self)
        self._connection.connection_made(self)
        self._look_whether_to_read()

    # What the socket tells

    def get_buffer(self, sizehint: int) -> memoryview:
        """Called by asyncio: where to receive."""
        self._view = self._connection.get_buffer(sizehint)[: self._most]
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        """Called by asyncio: ``nbytes`` have arrived."""
        reader, view = self._reader, self._view
        before = reader.frames
        size = reader.unwrap(view, nbytes)
        frames = reader.frames - before
        self._most = min(RECEIVE_BYTES, 2 * self._most, max(LEAST_RECEIVE_BYTES, _room_for(nbytes, frames)))
        if self._closing:
            self._charge(frames // FRAMES_A_UNIT + nbytes // DISCARDED_A_UNIT)
        else:
            if size:
                self._connection.buffer_updated(size)
            if frames > FREE_FRAMES:
                self._charge(frames // FRAMES_A_UNIT)
        if reader.ping is not None:
            if not self._said_close:
                self._transport.write(pong(reader.ping))
            reader.ping = None
        if reader.violation is not None and not (self._said_close or self._closing):
            self._refuse(reader.violation.code, reader.violation.text)
        if reader.closed is not None:
            self._look_whether_ended()

    def eof_received(self) -> bool:
        """Called by asyncio: the peer has ended without a close frame."""
        self._told_end = self._said_close = True
        return self._connection.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio: it is over."""
        if not self._over:
            self._over = self._closing = True
            connection = self._connection
            # It is told nothing more, and knows this one: without a cycle both are freed at once.
            del self._connection
            connection.connection_lost(exc)
            leave_no_cycle(self._transport)

    def pause_writing(self) -> None:
        """Called by asyncio: the socket does not keep up."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Called by asyncio: it has caught up."""
        self._connection.resume_writing()

    # What the connection asks of a transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """As a message."""
        self.writelines((data,))

    def writelines(self, parts: Iterable[bytes | bytearray | memoryview]) -> None:
        """All of them, of which none is empty, as one message."""
        parts = tuple(parts)
        self._transport.writelines((binary_head(sum(map(len, parts))), *parts))

    def get_write_buffer_size(self) -> int:
        """Bytes that wait for the socket."""
        return self._transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """As of the socket."""
        self._transport.set_write_buffer_limits(high=high, low=low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As of the socket."""
        return self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """Whether it was closed."""
        return self._closing or self._transport.is_closing()

    def is_reading(self) -> bool:
        """Whether the connection reads."""
        return self._reads

    def pause_reading(self) -> None:
        """Take nothing more from the socket."""
        self._reads = False
        self._look_whether_to_read()

    def resume_reading(self) -> None:
        """Go on."""
        self._reads = True
        if self._reader.closed is not None:
            self._look_whether_ended()
        self._look_whether_to_read()

    def write_eof(self) -> None:
        """Say that nothing follows: a close frame, to which the peer answers with its own."""
        if self._said_close:
            return
        self._said_close = True
        known = self._protocol if isinstance(self._protocol, WebSocketProtocol) else None
        code, reason = (NORMAL, "") if known is None else (known.close_code, known.reason)
        self._transport.write(close_frame(code, reason))

    def close(self) -> None:
        """Say so, and close when the peer has answered; whoever calls this sees that it does not last for ever."""
        if self._closing and not self._told_end:
            return
        self._closing = True
        self.write_eof()
        if self._told_end or self._reader.closed is not None:
            self._transport.close()
        else:
            self._look_whether_to_read()

    def abort(self) -> None:
        """End at once."""
        self._closing = True
        self._transport.abort()

    # In line, for what many tiny frames took: `transport.shell.turns.Worker`

    def work(self, share: int) -> int:  # noqa: ARG002 - what was done is paid for
        """Its turn has come: go on reading."""
        self._in_line = False
        owed, self._owed = self._owed, 0
        self._look_whether_to_read()
        return owed

    def _charge(self, units: int) -> None:
        """The turn pays for it, or the peer stands in line."""
        owed = self._turns.used(units)
        if owed and not self._in_line:
            self._owed += owed
            self._in_line = True
            self._turns.join(_Waiting(self))
            self._look_whether_to_read()

    def _look_whether_to_read(self) -> None:
        transport = self._transport
        if transport.is_closing():
            return
        # Behind close() it is for the peer's close frame.
        wanted = (self._reads or self._closing) and not self._in_line
        if wanted is not self._reading:
            self._reading = wanted
            if wanted:
                transport.resume_reading()
            else:
                transport.pause_reading()

    def _refuse(self, code: int, text: str) -> None:
        """The native protocol's ERROR first, then the close frame."""
        if isinstance(self._protocol, WebSocketProtocol):
            self._protocol.close_code, self._protocol.reason = code, ""
        self._connection.fail(RemoteProtocolError(f"WebSocket: {text}"))

    def _look_whether_ended(self) -> None:
        """The peer's close frame is there: it counts once what came before it is handled, as the end of a stream of TCP does."""
        if self._told_end or not (self._reads or self._closing):
            return
        self._told_end = True
        if not self._said_close:
            self._said_close = True
            self._transport.write(close_frame(self._reader.closed or NONE_SAID))
        if self._closing or not self._connection.eof_received():
            self.close()


class _Waiting:
    """Stands in line for a WebSocket, whose ``abort`` is a transport's."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    def work(self, share: int) -> int:
        """As of a `Worker`."""
        return self._socket.work(share)

    def abort(self, error: Exception) -> None:
        """As of a `Worker`."""
        if not self._socket._over:
            self._socket._connection.abort(error)


def _room_for(nbytes: int, frames: int) -> int:
    """Bytes in which there are `FRAMES_A_RECEIVE` frames of the size that those had."""
    return FRAMES_A_RECEIVE * nbytes // max(1, frames)
