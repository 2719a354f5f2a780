"""One TCP connection as streams: `TcpFlow` is the publisher of what arrives, its `TcpWriter` the subscriber of what leaves."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import cast

from streams import (
    UNBOUNDED,
    Materialization,
    StreamClosedError,
    Subscriber,
    Subscription,
    null_element,
)
from streams.stages.one_subscriber import OneSubscriber
from transport.errors import ConnectionLostError
from transport.shell.loop_transport import Connectable, pause_from_the_start, pause_reading
from transport.wire.address import Address

CHUNK_BYTES = 64 * 1024
"""One element read from a socket has at most this many bytes."""
WRITE_BUFFER_HIGH = 256 * 1024
"""Bytes waiting for the socket above which upstream is asked for no more."""
CLOSE_TIMEOUT = 5.0
"""Seconds in which the peer must take some of what was written last; else the connection is aborted, for nobody waits for it for ever."""

RESET = struct.pack("ii", 1, 0)
"""The socket option that has closing discard what has not left: to linger, for no time."""


class TcpFlow(Connectable, OneSubscriber[bytes]):
    """Both directions of one connection: the publisher of what arrives, and through `writer` the subscriber of what leaves.

    Attributes:
        writer: subscribe it to what is to be sent.
        peer: the peer's address as text, once connected.
    """

    what = "a connection"

    def __init__(self) -> None:
        OneSubscriber.__init__(self)
        self.writer = TcpWriter(self)
        self.peer = "?"
        self._m: Materialization | None = None
        self._buffer = memoryview(bytearray(CHUNK_BYTES))
        self._transport: asyncio.Transport | None = None
        self._closing = False
        self._early: bytes | None = None
        self._ended = False
        self._error: BaseException | None = None
        self._interrupted = False
        self._gone: asyncio.Future[None] | None = None
        self._patience: asyncio.TimerHandle | None = None

    def belong_to(self, m: Materialization) -> None:
        """The connection ends with the run ``m``, and a subscriber that raises fails it."""
        self._m = m
        m.on_cancel(self._interrupt)
        m.on_end(self._finish)

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Nothing is read before it is wanted."""
        self._transport = cast("asyncio.Transport", transport)
        self.made = True
        if self._closing:
            self._transport.abort()
            return
        peer = transport.get_extra_info("peername")
        self.peer = str(Address(*peer[:2])) if peer else "?"
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH)
        if self._wanted <= 0:
            pause_from_the_start(self._transport, asyncio.get_running_loop(), lambda: self._wanted <= 0)
        self.writer.connected(self._transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Where to receive."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """One chunk for downstream, or to be kept until it is asked for: a paused loop may read once before it has paused."""
        chunk = bytes(self._buffer[:nbytes])
        if self._wanted > 0:
            self._emit(chunk)
        else:
            assert self._early is None, "a transport that was paused from within its own read reads no further"
            self._early = chunk
        if self._wanted <= 0 and self._transport is not None:
            pause_reading(self._transport)

    def eof_received(self) -> bool:
        """The peer will send no more; our side may go on writing."""
        self._end(None)
        return not self.writer.ended

    def connection_lost(self, exc: Exception | None) -> None:
        """Both directions are over. Whoever made the connection may have said so before."""
        error = None if exc is None else ConnectionLostError(f"the connection to {self.peer} broke: {exc}")
        self._transport = None
        if self._patience is not None:
            self._patience.cancel()
        self._end(error)
        self.writer.disconnected(error or ConnectionLostError(f"the connection to {self.peer} is closed"))
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)

    def give_up(self, error: Exception) -> None:
        """On asyncio's loop the peer sees the connection break: what it got is not whole. Uvloop has closed it by now, in good order."""
        self._break()
        self.connection_lost(error)

    def pause_writing(self) -> None:
        """The socket does not keep up."""
        self.writer.pause()

    def resume_writing(self) -> None:
        """The socket has caught up."""
        self.writer.resume()

    # The stream's side

    def _begin(self, subscriber: Subscriber[bytes]) -> None:
        super()._begin(subscriber)
        if self._ended:
            self._signal_end()

    def _go_on(self) -> None:
        early, self._early = self._early, None
        if early is not None:
            self._emit(early)
        if self._wanted > 0 and self._transport is not None:
            self._transport.resume_reading()

    def _misused(self, error: Exception) -> None:
        """Fail the stream, and close the connection."""
        if not self._ended:
            self._end(error)
            self.close()

    def _cancelled(self) -> None:
        """Downstream takes no more; with nothing left to write either, the connection is closed.

        Else what still arrives is read and dropped: a peer that nobody reads from would stop reading as well, and whether it is still
        there could not be seen.
        """
        if self._ended:
            return
        self._ended = True
        self._early = None
        if self.writer.ended:
            self.close()
            return
        self._wanted = UNBOUNDED
        if self._transport is not None:
            self._transport.resume_reading()

    def close(self) -> None:
        """Close after what is written has left."""
        self._closing = True
        if self._transport is not None:
            self._transport.close()

    def fail(self, error: BaseException) -> None:
        """End both directions at once."""
        self._closing = True
        self._end(error)
        self._break()

    @property
    def read_ended(self) -> bool:
        """Whether nothing more will be read."""
        return self._ended

    # Inside

    def _interrupt(self) -> None:
        """The run is cancelled or has failed."""
        self._interrupted = True
        self.writer.stop()

    async def _finish(self) -> None:
        """Close with the run, which waits for it: as long as the socket takes what was written, and `CLOSE_TIMEOUT` at most.

        What a run that was cancelled has written is not whole; the rest of it is not waited for, and the peer sees the connection break.
        """
        self.writer.stop()
        self.close()
        transport = self._transport
        if transport is None:
            return
        waiting = transport.get_write_buffer_size()
        self._gone = asyncio.get_running_loop().create_future()
        if waiting and self._interrupted:
            self._break()
        else:
            self._break_later(waiting)
        await asyncio.wait((self._gone,), timeout=CLOSE_TIMEOUT)

    def _break_later(self, waiting: int) -> None:
        """End the connection if no more of the ``waiting`` bytes has left after a while."""

        def look() -> None:
            if self._transport is not None:
                left = self._transport.get_write_buffer_size()
                if left < waiting:
                    self._break_later(left)
                else:
                    self._break()

        self._patience = asyncio.get_running_loop().call_later(CLOSE_TIMEOUT, look)

    def _break(self) -> None:
        """End the connection at once, so that the peer sees a reset: at an end in good order it would take what it has got for whole."""
        if self._transport is not None:
            if (connected := self._transport.get_extra_info("socket")) is not None:  # a loop may have closed it
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self._transport.abort()

    def _emit(self, chunk: bytes) -> None:
        self._wanted -= 1
        if self._downstream is not None:
            self._signal(self._downstream.on_next, chunk)

    def _end(self, error: BaseException | None) -> None:
        if not self._ended:
            self._ended = True
            self._error = error
            self._signal_end()

    def _signal_end(self) -> None:
        downstream, self._downstream = self._downstream, None
        if downstream is None:
            return
        if self._error is None:
            self._signal(downstream.on_complete)
        else:
            self._signal(downstream.on_error, self._error)

    def _signal(self, signal: Callable[..., object], *arguments: object) -> None:
        """A subscriber that raises has cancelled (2.13), and fails its run; asyncio would take it for a fault of the connection."""
        try:
            signal(*arguments)
        except Exception as error:
            self.cancel()
            if self._m is None:
                raise
            self._m.fail(error)


class TcpWriter(Subscriber[bytes]):
    """Writes the chunks of upstream, one request at a time while the socket takes them.

    Attributes:
        ended: whether nothing more will be written.
    """

    def __init__(self, flow: TcpFlow) -> None:
        self._flow = flow
        self._transport: asyncio.Transport | None = None
        self._upstream: Subscription | None = None
        self._writable = True
        self._asked = False
        self._error: BaseException | None = None
        self._on_done: Callable[[BaseException | None], None] | None = None
        self.ended = False

    def when_done(self, callback: Callable[[BaseException | None], None]) -> None:
        """Have ``callback`` called when everything is written (None), or with what prevents that; not where the run is stopped."""
        if self.ended:
            callback(self._error)
        else:
            self._on_done = callback

    def on_subscribe(self, subscription: Subscription) -> None:
        """A second subscription is cancelled (2.5), and any when nothing can be written."""
        if subscription is None:
            raise null_element("TcpWriter")
        if self._upstream is not None or self.ended:
            subscription.cancel()
            return
        self._upstream = subscription
        self._ask()

    def on_next(self, element: bytes) -> None:
        """Write, and ask for the next."""
        if element is None:
            raise null_element("TcpWriter")
        if self._transport is None or self.ended or self._transport.is_closing():
            return  # the peer has gone: asyncio would only warn, for each element, until it says so
        self._asked = False
        try:
            self._transport.write(element)
        except TypeError as error:
            # No bytes: upstream's fault, but its call is to return normally (2.13).
            self.stop(error)
            self._flow.fail(error)
            return
        self._ask()

    def on_error(self, error: BaseException) -> None:
        """The peer sees the connection break: what it got is not whole."""
        if error is None:
            raise null_element("TcpWriter")
        if not self.ended:
            self._end(error)
            self._flow.fail(error)

    def on_complete(self) -> None:
        """The peer sees the end of the stream."""
        if self.ended:
            return
        self._end(None)
        if self._transport is not None:
            self._finish()

    def connected(self, transport: asyncio.Transport) -> None:
        """There is something to write to."""
        self._transport = transport
        if self.ended:
            self._finish()
        self._ask()

    def disconnected(self, error: Exception) -> None:
        """Nothing can be written any more."""
        self._transport = None
        self.stop(error)

    def stop(self, error: BaseException | None = None) -> None:
        """Take nothing more from upstream: because of ``error``, or because the run is over."""
        if self.ended:
            return
        if error is None:
            self._on_done = None
        self._end(error or StreamClosedError("the connection's run is over"))
        if self._upstream is not None:
            self._upstream.cancel()

    def pause(self) -> None:
        """Ask for nothing."""
        self._writable = False

    def resume(self) -> None:
        """Ask again."""
        self._writable = True
        self._ask()

    def _ask(self) -> None:
        if (
            self._upstream is not None
            and self._transport is not None
            and self._writable
            and not (self._asked or self.ended)
        ):
            self._asked = True
            self._upstream.request(1)

    def _end(self, error: BaseException | None) -> None:
        self.ended = True
        self._error = error
        on_done, self._on_done = self._on_done, None
        if on_done is not None:
            on_done(error)

    def _finish(self) -> None:
        assert self._transport is not None
        if self._flow.read_ended:
            self._transport.close()
        else:
            self._transport.write_eof()
