"""TCP as streams of bytes: `bind` is a source of connections, `outgoing_connection` a flow through one.

Demand goes all the way: bytes are read from the socket only when downstream has requested a chunk, and upstream is asked for the next
chunk only while the socket takes what was written. Upstream's completion closes the writing side, the peer's closing completes downstream.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, cast

from streams import Flow, Materialization, Publisher, Running, Sink, Source, Subscriber, Subscription
from transport.address import Address, parse_address
from transport.errors import ConnectionLostError

CHUNK_BYTES = 64 * 1024
"""One element read from a socket has at most this many bytes."""
WRITE_BUFFER_HIGH = 256 * 1024
"""Bytes waiting for the socket above which upstream is asked for no more."""
CONNECT_TIMEOUT = 10.0
"""Seconds for `outgoing_connection` to connect."""
MAX_WAITING_CONNECTIONS = 1024
"""Accepted connections that wait for demand; more are refused by closing them."""


class TcpFlow(asyncio.BufferedProtocol, Publisher[bytes], Subscription):
    """Both directions of one connection: the publisher of what arrives, and through `writer` the subscriber of what leaves.

    Attributes:
        writer: subscribe it to what is to be sent.
        peer: the peer's address as text, once connected.
    """

    def __init__(self) -> None:
        self.writer = TcpWriter(self)
        self.peer = "?"
        self._buffer = bytearray(CHUNK_BYTES)
        self._transport: asyncio.Transport | None = None
        self._downstream: Subscriber[bytes] | None = None
        self._subscribed = False
        self._wanted = 0
        self._ended = False
        self._error: BaseException | None = None

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Nothing is read before it is wanted."""
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.peer = str(Address(*peer[:2])) if peer else "?"
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH)
        if self._wanted <= 0:
            self._transport.pause_reading()
        self.writer.connected(self._transport)

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002 - asyncio's signature
        """Where to receive."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """One chunk for downstream."""
        self._wanted -= 1
        if self._wanted <= 0 and self._transport is not None:
            self._transport.pause_reading()
        if self._downstream is not None:
            self._downstream.on_next(bytes(self._buffer[:nbytes]))

    def eof_received(self) -> bool:
        """The peer will send no more; our side may go on writing."""
        self._end(None)
        return not self.writer.ended

    def connection_lost(self, exc: Exception | None) -> None:
        """Both directions are over."""
        error = None if exc is None else ConnectionLostError(f"the connection to {self.peer} broke: {exc}")
        self._transport = None
        self._end(error)
        self.writer.disconnected(error or ConnectionLostError(f"the connection to {self.peer} is closed"))

    def pause_writing(self) -> None:
        """The socket does not keep up."""
        self.writer.pause()

    def resume_writing(self) -> None:
        """The socket has caught up."""
        self.writer.resume()

    # The stream's side

    def subscribe(self, subscriber: Subscriber[bytes]) -> None:
        """Serve the one subscriber of this connection."""
        if self._subscribed:
            raise RuntimeError("a connection has one subscriber")
        self._subscribed = True
        self._downstream = subscriber
        subscriber.on_subscribe(self)
        if self._ended:
            self._signal_end()

    def request(self, n: int) -> None:
        """Rule 3.8: n more chunks may come; rule 3.9: n <= 0 is an error signal."""
        if n <= 0:
            self._end(ValueError(f"request({n}): rule 3.9 of Reactive Streams wants a positive number"))
            self.close()
            return
        self._wanted += n
        if self._transport is not None and not self._ended:
            self._transport.resume_reading()

    def cancel(self) -> None:
        """Downstream takes no more; with nothing left to write either, the connection is closed."""
        self._downstream = None
        self._ended = True
        if self.writer.ended:
            self.close()

    def close(self) -> None:
        """Close after what is written has left."""
        if self._transport is not None:
            self._transport.close()

    def fail(self, error: BaseException) -> None:
        """End both directions at once."""
        self._end(error)
        if self._transport is not None:
            self._transport.abort()

    @property
    def read_ended(self) -> bool:
        """Whether nothing more will be read."""
        return self._ended

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
            downstream.on_complete()
        else:
            downstream.on_error(self._error)


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
        self.ended = False

    def on_subscribe(self, subscription: Subscription) -> None:
        """Rule 2.5: a second subscription is cancelled."""
        if self._upstream is not None:
            subscription.cancel()
            return
        self._upstream = subscription
        if self.ended:
            subscription.cancel()
        self._ask()

    def on_next(self, element: bytes) -> None:
        """Write, and ask for the next."""
        self._asked = False
        if self._transport is not None and not self.ended:
            self._transport.write(element)
            self._ask()

    def on_error(self, error: BaseException) -> None:
        """The peer sees the connection break: what it got is not whole."""
        self.ended = True
        self._flow.fail(error)

    def on_complete(self) -> None:
        """The peer sees the end of the stream."""
        self.ended = True
        if self._transport is not None:
            self._finish()

    def connected(self, transport: asyncio.Transport) -> None:
        """There is something to write to."""
        self._transport = transport
        if self.ended:
            self._finish()
        self._ask()

    def disconnected(self, error: Exception) -> None:  # noqa: ARG002 - the reading side tells why
        """Nothing can be written any more."""
        self._transport = None
        self.stop()

    def stop(self) -> None:
        """Take nothing more from upstream."""
        if not self.ended:
            self.ended = True
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

    def _finish(self) -> None:
        assert self._transport is not None
        if self._flow.read_ended:
            self._transport.close()
        else:
            self._transport.write_eof()


class IncomingConnection:
    """A connection that was accepted; to be run through a flow.

    Attributes:
        peer: the peer's address.
    """

    def __init__(self, tcp: TcpFlow) -> None:
        self._tcp = tcp
        self.peer = tcp.peer

    def handle_with(self, flow: Flow[bytes, bytes]) -> Running[Any]:
        """Run what arrives through ``flow`` and send what comes out; the handle is done when both directions are."""
        source: Source[bytes] = Source(lambda _: (self._tcp, None), name=f"tcp {self.peer}")
        return source.via(flow).run_with(Sink(self._attach))

    def _attach(self, publisher: Publisher[bytes], materialization: Materialization) -> asyncio.Future[None]:
        return _write_all(self._tcp, publisher, materialization)

    def close(self) -> None:
        """Refuse it."""
        self._tcp.close()


class Binding(Publisher[IncomingConnection], Subscription):
    """A listening socket; the value that running `bind` materializes."""

    def __init__(self, address: Address, materialization: Materialization) -> None:
        self._asked_for = address
        self._materialization = materialization
        self._server: asyncio.Server | None = None
        self._bound: asyncio.Future[Address] = materialization.loop.create_future()
        self._downstream: Subscriber[IncomingConnection] | None = None
        self._waiting: deque[TcpFlow] = deque()
        self._wanted = 0

    async def address(self) -> Address:
        """Where it listens, with the port that was really bound; raises OSError where that failed."""
        return await asyncio.shield(self._bound)

    def subscribe(self, subscriber: Subscriber[IncomingConnection]) -> None:
        """Listen, for the one subscriber of this run."""
        self._downstream = subscriber
        subscriber.on_subscribe(self)
        self._materialization.on_end(self._stop)
        self._materialization.spawn(self._listen(), f"bind {self._asked_for}")

    def request(self, n: int) -> None:
        """N more connections may come."""
        if n <= 0:
            self._fail(ValueError(f"request({n}): rule 3.9 of Reactive Streams wants a positive number"))
            return
        self._wanted += n
        self._emit()

    def cancel(self) -> None:
        """Accept no more; connections that were handed on live on."""
        self._downstream = None
        self._close()

    def accepted(self, tcp: TcpFlow) -> None:
        """A connection stands."""
        if self._downstream is None or len(self._waiting) >= MAX_WAITING_CONNECTIONS:
            tcp.close()
            return
        self._waiting.append(tcp)
        self._emit()

    async def _listen(self) -> None:
        address = self._asked_for
        try:
            self._server = await self._materialization.loop.create_server(
                lambda: _AcceptedFlow(self), address.host, address.port
            )
        except OSError as error:
            self._bound.set_exception(error)
            # Retrieved here: whoever never asks for the address learns of the failure from the stream.
            self._bound.exception()
            self._fail(error)
            return
        host, port = self._server.sockets[0].getsockname()[:2]
        self._bound.set_result(Address(host, port))

    def _emit(self) -> None:
        while self._waiting and self._wanted > 0 and self._downstream is not None:
            self._wanted -= 1
            self._downstream.on_next(IncomingConnection(self._waiting.popleft()))

    def _fail(self, error: BaseException) -> None:
        downstream, self._downstream = self._downstream, None
        self._close()
        if downstream is not None:
            downstream.on_error(error)

    def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        while self._waiting:
            self._waiting.popleft().close()

    async def _stop(self) -> None:
        self._close()


class _AcceptedFlow(TcpFlow):
    """A `TcpFlow` that reports to its binding once it stands."""

    def __init__(self, binding: Binding) -> None:
        super().__init__()
        self._binding = binding

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._binding.accepted(self)


def bind(address: str) -> Source[IncomingConnection]:
    """The connections that are made to ``address`` (``host:port``, port 0 for any); materializes a `Binding`.

    Run each with ``connection.handle_with(flow)``. The listening socket closes when the stream ends.
    """
    parsed = parse_address(address)

    def create(materialization: Materialization) -> tuple[Publisher[IncomingConnection], Binding]:
        binding = Binding(parsed, materialization)
        return binding, binding

    return Source(create, name=f"bind {address}")


def outgoing_connection(address: str) -> Flow[bytes, bytes]:
    """A flow through a new connection to ``address``: what flows in is sent, what arrives flows out.

    Fails with `ConnectionLostError` when it cannot connect within ``CONNECT_TIMEOUT`` or the connection breaks.
    """
    parsed = parse_address(address)

    def attach(publisher: Publisher[bytes], materialization: Materialization) -> Publisher[bytes]:
        tcp = TcpFlow()

        async def connect() -> None:
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    await materialization.loop.create_connection(lambda: tcp, parsed.host, parsed.port)
            except (OSError, TimeoutError) as error:
                reason = str(error) or type(error).__name__
                tcp.writer.stop()
                tcp.fail(ConnectionLostError(f"no connection to {parsed}: {reason}"))

        _own(tcp, materialization)
        publisher.subscribe(tcp.writer)
        materialization.spawn(connect(), f"connect {parsed}")
        return tcp

    return Flow(attach, name=f"outgoing_connection {address}")


def _write_all(tcp: TcpFlow, publisher: Publisher[bytes], materialization: Materialization) -> asyncio.Future[None]:
    """Send everything from ``publisher``; done when the connection has closed."""
    done: asyncio.Future[None] = materialization.loop.create_future()
    _own(tcp, materialization)
    publisher.subscribe(_Completing(tcp.writer, done))
    return done


def _own(tcp: TcpFlow, materialization: Materialization) -> None:
    """The connection ends with its run."""

    async def finish() -> None:
        tcp.writer.stop()
        tcp.close()

    materialization.on_end(finish)


class _Completing(Subscriber[bytes]):
    """Passes everything on to the writer and settles a future at the end."""

    def __init__(self, writer: TcpWriter, done: asyncio.Future[None]) -> None:
        self._writer = writer
        self._done = done

    def on_subscribe(self, subscription: Subscription) -> None:
        self._writer.on_subscribe(subscription)

    def on_next(self, element: bytes) -> None:
        self._writer.on_next(element)

    def on_error(self, error: BaseException) -> None:
        self._writer.on_error(error)
        if not self._done.done():
            self._done.set_exception(error)

    def on_complete(self) -> None:
        self._writer.on_complete()
        if not self._done.done():
            self._done.set_result(None)
