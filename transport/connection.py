"""The shell around one connection: asyncio's buffered transport on one side, frames on the other.

It executes what the pure parts decide (`FrameDecoder`, `Protocol`, `Liveness`): receives, writes, keeps the heartbeat and ends the
connection, with one ERROR frame where the peer broke the protocol. What the frames mean is its handler's business.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol as TypingProtocol
from typing import cast

from transport.errors import PeerTimeoutError, TransportError, TruncatedFrameError
from transport.frames import FrameDecoder, Part
from transport.liveness import DEFAULT_HEARTBEAT, HANDSHAKE_TIMEOUT, Liveness, Verdict
from transport.protocol import Protocol, State
from transport.wire import Error, Frame, Hello, Ping, Pong, Welcome, encode

WRITE_BUFFER_HIGH = 1024 * 1024
"""Bytes waiting for the socket above which the handler is told to hold back."""
FLUSH_BYTES = 256 * 1024
"""Bytes gathered in one turn of the loop after which they are written at once."""
LINGER = 2.0
"""Seconds that a refused peer has to read why; closing at once would reset the connection and destroy the ERROR."""
CLOSE_TIMEOUT = 5.0
"""Seconds that what is written last has to leave; then the connection is aborted."""

logger = logging.getLogger("penstock.transport")


class ConnectionHandler(TypingProtocol):
    """What a connection tells its owner, always on the loop's thread."""

    def connection_opened(self, connection: FrameConnection) -> None:
        """The TCP connection stands."""

    def frame_received(self, frame: Frame) -> None:
        """A frame that the protocol allows here; a `TransportError` raised ends the connection with its code."""

    def writable_changed(self, writable: bool) -> None:
        """The socket takes less, or again more, than is written to it."""

    def connection_ending(self) -> None:
        """Nothing more is taken or given, though the last frames may still be on their way to the peer."""

    def connection_closed(self, error: Exception | None) -> None:
        """It is over; ``error`` is None when this side or the peer closed it in good order. Comes once."""


class FrameConnection(asyncio.BufferedProtocol):
    """One framed connection.

    Attributes:
        bytes_in: bytes received so far.
        bytes_out: bytes written so far.
        peer: the peer's address as text.
    """

    def __init__(
        self,
        protocol: Protocol,
        handler: ConnectionHandler,
        loop: asyncio.AbstractEventLoop,
        heartbeat: float = DEFAULT_HEARTBEAT,
    ) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.peer = "?"
        self._protocol = protocol
        self._handler = handler
        self._loop = loop
        self._decoder = FrameDecoder()
        self._liveness = Liveness(heartbeat, loop.time())
        self._transport: asyncio.Transport | None = None
        self._out: list[Part] = []
        self._out_bytes = 0
        self._flush_scheduled = False
        self._closing = False
        self._discarding = False
        self._error: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None

    # Receiving

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio: the connection stands."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH)
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if peer else "?"
        self._timer = self._loop.call_later(HANDSHAKE_TIMEOUT, self._handshake_late)
        try:
            self._handler.connection_opened(self)
        except TransportError as error:
            self.fail(error)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Called by asyncio: where to receive."""
        return self._decoder.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Called by asyncio: ``nbytes`` have arrived."""
        if self._discarding:
            return
        self.bytes_in += nbytes
        liveness = self._liveness
        now = liveness.heard = self._loop.time()
        try:
            for raw in self._decoder.buffer_updated(nbytes):
                self._receive(self._protocol.receive(raw))
                if self._protocol.state is State.CLOSED:
                    return
            if self._decoder.error is not None:
                raise self._decoder.error
        except Exception as error:  # noqa: BLE001 - whatever one peer's bytes cause ends that peer's connection only
            self.fail(error)
            return
        if not self._decoder.mid_frame:
            liveness.frame_began = None
        elif liveness.frame_began is None:
            liveness.frame_began = now

    def eof_received(self) -> bool:
        """Called by asyncio: the peer has closed its side."""
        if self._decoder.mid_frame and not self._discarding:
            self._error = self._error or TruncatedFrameError("the stream ended inside a frame")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio: the connection is over."""
        self._closing = self._discarding = True
        self._protocol.state = State.CLOSED
        if self._timer is not None:
            self._timer.cancel()
        self._out.clear()
        self._handler.connection_closed(self._error or exc)

    def pause_writing(self) -> None:
        """Called by asyncio: the socket does not keep up."""
        self._handler.writable_changed(False)

    def resume_writing(self) -> None:
        """Called by asyncio: it has caught up."""
        self._handler.writable_changed(True)

    # Sending

    def send(self, frame: Frame) -> None:
        """Write ``frame``; the frames of one turn of the loop leave together. Nothing happens once the connection closes.

        Raises:
            LocalProtocolError: the frame is over a limit; nothing was written.
        """
        if self._closing:
            return
        parts = encode(frame)
        self._out += parts
        for part in parts:
            self._out_bytes += part.nbytes if isinstance(part, memoryview) else len(part)
        if isinstance(frame, Hello | Welcome):
            self._opened(frame)
        if self._out_bytes >= FLUSH_BYTES:
            self._flush()
        elif not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush_turn)

    def close(self) -> None:
        """Write what is pending, then close."""
        if self._closing:
            return
        self._flush()
        self._closing = self._discarding = True
        self._arm(self._loop.time() + CLOSE_TIMEOUT, self._abort)
        self._handler.connection_ending()
        if self._transport is not None:
            self._transport.close()

    def abort(self, error: Exception) -> None:
        """End at once, what is pending unwritten; the handler is told ``error``."""
        self._error = self._error or error
        self._closing = self._discarding = True
        self._abort()

    def fail(self, error: Exception) -> None:
        """Tell the peer why, then close; further bytes of its are discarded. The handler is told ``error``."""
        if self._closing:
            return
        self._error = error
        code = getattr(error, "code", None)
        if code is None:
            logger.error("connection from %s ends on a defect of ours", self.peer, exc_info=error)
            code = "internal-error"
        # A peer that closed on us with an ERROR of its own needs no answer.
        if self._protocol.state is not State.CLOSED:
            self.send(Error(code, str(error), close=True))
        self._flush()
        self._closing = self._discarding = True
        self._protocol.state = State.CLOSED
        self._arm(self._loop.time() + LINGER, self._abort)
        self._handler.connection_ending()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
            try:
                self._transport.write_eof()
            except OSError:
                # The peer has reset the connection: there is nobody to linger for.
                self._transport.abort()

    def pause_reading(self) -> None:
        """Take no more from the socket for now."""
        if self._transport is not None and not self._closing:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take from the socket again."""
        if self._transport is not None and not self._closing:
            self._transport.resume_reading()

    # Inside

    def _receive(self, frame: Frame) -> None:
        if isinstance(frame, Ping):
            self.send(Pong(frame.token))
        elif isinstance(frame, Pong):
            return
        else:
            if isinstance(frame, Welcome):
                self._opened(frame)
            self._handler.frame_received(frame)

    def _opened(self, frame: Hello | Welcome) -> None:
        """Heartbeat and full-size frames begin once HELLO is answered."""
        if isinstance(frame, Hello):
            self._protocol.said_hello(frame.role)
            return
        if self._protocol.state is not State.OPEN:
            self._protocol.said_welcome()
        self._decoder.max_frame_bytes = self._protocol.largest_frame
        heartbeat_ms = frame.options.get("heartbeat_ms")
        if type(heartbeat_ms) is int and heartbeat_ms > 0:
            self._liveness.interval = heartbeat_ms / 1000
        self._arm(self._liveness.next_check(), self._check_liveness)

    def _flush_turn(self) -> None:
        self._flush_scheduled = False
        self._flush()

    def _flush(self) -> None:
        if not self._out or self._transport is None:
            return
        parts, self._out = self._out, []
        self.bytes_out += self._out_bytes
        self._out_bytes = 0
        self._liveness.said = self._loop.time()
        if not self._transport.is_closing():
            self._transport.writelines(parts)

    def _check_liveness(self) -> None:
        now = self._loop.time()
        verdict = self._liveness.check(now)
        if verdict is Verdict.SILENT:
            self.fail(
                PeerTimeoutError(f"silent for {now - self._liveness.heard:.1f} s, or a frame not complete in time")
            )
            return
        if verdict is Verdict.PING:
            self.send(Ping(0))
            self._flush()
        self._arm(self._liveness.next_check(), self._check_liveness)

    def _handshake_late(self) -> None:
        self.fail(PeerTimeoutError(f"the handshake was not complete within {HANDSHAKE_TIMEOUT:.0f} s"))

    def _arm(self, when: float, callback: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, callback)  # type: ignore[arg-type]  # one of our own methods

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
