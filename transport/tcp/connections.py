"""TCP as streams of bytes: `bind` is a source of connections, `outgoing_connection` a flow through one.

Demand goes all the way. Bytes are read from the socket only when downstream has requested a chunk. Upstream is asked for the next chunk
only while the socket takes what was written. Upstream's completion closes the writing side, the peer's closing completes downstream.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from streams import (
    Flow,
    Materialization,
    Publisher,
    Running,
    Sink,
    Source,
    StreamClosedError,
    Subscriber,
)
from streams.errors import storable
from streams.stages.one_subscriber import OneSubscriber
from transport.errors import ConnectionLostError
from transport.shell.loop_transport import connect
from transport.tcp.flow import TcpFlow
from transport.wire.address import Address, parse_address

CONNECT_TIMEOUT = 10.0
"""Seconds for `outgoing_connection` to connect."""
MAX_WAITING_CONNECTIONS = 1024
"""Accepted connections that wait for demand; more are refused by closing them."""


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


class Binding(OneSubscriber[IncomingConnection]):
    """A listening socket; the value that running `bind` materializes."""

    what = "a binding"

    def __init__(self, address: Address, materialization: Materialization) -> None:
        super().__init__()
        self._asked_for = address
        self._m = materialization
        self._server: asyncio.Server | None = None
        self._bound: asyncio.Future[Address] = materialization.loop.create_future()
        self._emitting = False
        self._waiting: deque[TcpFlow] = deque()

    async def address(self) -> Address:
        """Where it listens, with the port that was really bound.

        Raises:
            OSError: listening failed.
            StreamClosedError: the stream ended before it listened.
        """
        return await asyncio.shield(self._bound)

    def _begin(self, subscriber: Subscriber[IncomingConnection]) -> None:
        """Listen."""
        self._m.on_end(self._stop)
        super()._begin(subscriber)
        if self._downstream is not None:
            self._m.spawn(self._listen(), f"bind {self._asked_for}")

    def _go_on(self) -> None:
        self._emit()

    def _cancelled(self) -> None:
        """Accept no more; connections that were handed on live on."""
        self._close()

    def _misused(self, error: Exception) -> None:
        self._fail(error)

    def accepted(self, tcp: TcpFlow) -> None:
        """A connection stands."""
        if self._downstream is None or len(self._waiting) >= MAX_WAITING_CONNECTIONS:
            tcp.close()
            return
        self._waiting.append(tcp)
        self._m.call(self._emit)

    async def _listen(self) -> None:
        address = self._asked_for
        try:
            # Served in a second step: a task that is cancelled while the first one serves would lose the open sockets.
            server = self._server = await self._m.loop.create_server(
                lambda: _AcceptedFlow(self), address.host, address.port, start_serving=False
            )
            if self._downstream is None:
                self._close()  # cancelled meanwhile
                return
            await server.start_serving()
        except OSError as error:
            self._bound.set_exception(error)
            # Retrieved here: whoever never asks for the address learns of the failure from the stream.
            self._bound.exception()
            self._fail(error)
            return
        if server.sockets:
            host, port = server.sockets[0].getsockname()[:2]
            self._bound.set_result(Address(host, port))

    def _emit(self) -> None:
        """Hand on what is wanted; downstream may request from within on_next, so this must not nest (3.3)."""
        if self._emitting:
            return
        self._emitting = True
        try:
            while self._waiting and self._wanted > 0 and self._downstream is not None:
                self._wanted -= 1
                tcp = self._waiting.popleft()
                self._downstream.on_next(IncomingConnection(tcp))
        except Exception:
            # A subscriber that raises has cancelled (2.13), and will not close what it was just given.
            self.cancel()
            tcp.close()
            raise
        finally:
            self._emitting = False

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

    def _stop(self) -> None:
        self._close()
        if not self._bound.done():
            self._bound.set_exception(StreamClosedError(f"the stream ended before {self._asked_for} was bound"))
            self._bound.exception()  # retrieved: nobody may have asked


class _AcceptedFlow(TcpFlow):
    """A `TcpFlow` that reports to its binding once it stands."""

    def __init__(self, binding: Binding) -> None:
        super().__init__()
        self._binding = binding

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._binding.accepted(self)


def bind(address: str) -> Source[IncomingConnection, Binding]:
    """The connections that are made to ``address`` (``host:port``, port 0 for any); materializes a `Binding`.

    Run each with ``connection.handle_with(flow)``. The listening socket closes when the stream ends.
    """
    parsed = parse_address(address)

    def create(materialization: Materialization) -> tuple[Publisher[IncomingConnection], Binding]:
        binding = Binding(parsed, materialization)
        return binding, binding

    return Source(create, name=f"bind {address}")


def outgoing_connection(address: str) -> Flow[bytes, bytes, None]:
    """A flow through a new connection to ``address``: what flows in is sent, what arrives flows out.

    Fails with `ConnectionLostError` when it cannot connect within ``CONNECT_TIMEOUT`` or the connection breaks.
    """
    parsed = parse_address(address)

    def attach(publisher: Publisher[bytes], materialization: Materialization) -> Publisher[bytes]:
        tcp = TcpFlow()

        async def open_it() -> None:
            try:
                await connect(tcp, parsed.host, parsed.port, CONNECT_TIMEOUT, materialization.loop)
            except (OSError, TimeoutError, UnicodeError) as error:
                reason = str(error) or type(error).__name__
                lost = ConnectionLostError(f"no connection to {parsed}: {reason}")
                tcp.writer.stop(lost)
                tcp.fail(lost)

        tcp.belong_to(materialization)
        publisher.subscribe(tcp.writer)
        materialization.spawn(open_it(), f"connect {parsed}")
        return tcp

    return Flow(attach, name=f"outgoing_connection {address}")


def _write_all(tcp: TcpFlow, publisher: Publisher[bytes], materialization: Materialization) -> asyncio.Future[None]:
    """Send everything from ``publisher``; done when all of it is written."""
    done: asyncio.Future[None] = materialization.loop.create_future()

    def settle(error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(storable(error))

    tcp.belong_to(materialization)
    publisher.subscribe(tcp.writer)
    tcp.writer.when_done(settle)
    return done
