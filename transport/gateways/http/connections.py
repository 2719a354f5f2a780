"""One connection that carries HTTP: what aiohttp's protocol does not bound by itself is bounded here.

aiohttp parses and writes. It cuts heads that are too large. It waits for ever for the rest of a head, lets a peer send requests without end
while one is answered, and waits for ever for a peer that reads nothing. Around it here: a head is there in time, what comes behind a
request is bounded, and a peer that does not read is let go. How it gets what is received is in `fed`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, cast

from transport.broker.served import RefusalError, Served
from transport.errors import TransportError
from transport.gateways.http.fed import Fed
from transport.gateways.http.problems import ProblemError, bare, known
from transport.shell.ends import leave_no_cycle
from transport.shell.loop_transport import peer_of
from transport.wire.messages import NOT_LEADER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from transport.broker.listener import Host
    from transport.broker.operations import Operations
    from transport.security.principal import Principal

HEAD_SECONDS: Final = 10.0
"""For a request's head, from its first byte or the connection's beginning."""
UNREAD_SECONDS: Final = 60.0
LEAST_READ_BYTES: Final = 64 * 1024
"""In so many seconds a peer takes so much of what waits for it, at least."""
PIPELINED_BYTES: Final = 64 * 1024
"""Bytes of further requests that may come while one is answered."""
ROLE: Final = "http"
UNAVAILABLE: Final = 503
"""The status of what is said where no request was heard."""


class HttpConnection(Served[Any]):
    """A connection as the broker counts, lists and ends it.

    Args:
        host: what the broker gives.
        inner: aiohttp's protocol.
        gone: told when it is over, by aiohttp's protocol.
    """

    opens_at_once = False

    def __init__(self, host: Host, inner: asyncio.Protocol, gone: Callable[[asyncio.Protocol], object]) -> None:
        super().__init__(host.connections, host.loop.time(), ROLE)
        self._over = gone
        self.wire = Wire(self, inner, host)
        self._doors: Callable[[Principal], Operations] = host.operations

    def not_leading(self, text: str, leader: str) -> None:
        """As of `Served`; where the leader is stands beside it, as in the answer to a request."""
        self.wire.end(ProblemError(NOT_LEADER, text, {"leader": leader.split(",") if leader else []}))

    def door(self, principal: Principal, *, proved: bool = True) -> Operations:
        """The door for whoever asks now; ``proved`` unless nobody was asked who they are, and somebody could be."""
        operations = self._doors(principal)
        operations.peer, operations.number = self.wire.peer, self.number
        if proved:
            # For the list of connections, and for who is let go when the users change.
            self.operations = operations
            self.opened()
        return operations

    def answered(self) -> None:
        """Nobody asks now: who asks next says again who they are."""
        self.operations = None

    def event_received(self, event: Any, work: int) -> None:
        """Never told: aiohttp has the requests."""

    def drain(self) -> None:
        """As `Served.drain`: what is asked is answered first."""
        self.wire.last_request()

    def refused(self, code: str, text: str) -> None:
        """End the connection; whoever waits for an answer gets none."""
        self.wire.end(RefusalError(code, text))

    def connection_closed(self, error: Exception | None) -> None:
        """Forget the connection."""
        super().connection_closed(error)
        self._over(self.wire.inner)

    def cut(self) -> None:
        """As `Served.cut`."""
        self.wire.abort()


class Wire(Fed):
    """The transport's protocol, around aiohttp's.

    Attributes:
        peer: the client's address.
        inner: aiohttp's protocol.
        bytes_in: so many have come.
        bytes_out: so many were answered with, heads not counted.
    """

    __slots__ = (
        "_behind",
        "_broken",
        "_closing",
        "_head",
        "_last",
        "_loop",
        "_request",
        "_served",
        "_unread",
        "bytes_in",
        "bytes_out",
        "peer",
    )

    def __init__(self, served: HttpConnection, inner: asyncio.Protocol, host: Host) -> None:
        super().__init__(inner, host.turns)
        self.peer = "?"
        self.bytes_in = self.bytes_out = 0
        self._served: HttpConnection | None = served
        self._loop = host.loop
        self._request: Any = None
        self._behind = 0
        # A body within which came what is no HTTP, until its request is answered.
        self._broken: Any = None
        self._last = False
        self._head: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._closing: asyncio.TimerHandle | None = None

    # What aiohttp's requests say

    def begins(self, request: Any) -> None:
        """A request's head is there."""
        self._request, self._behind = request, 0
        inner = self.inner
        if inner._request_count != self._seen and not inner._messages:
            self._kept_was_parsed(request._message, request.content)
        self._cancel_head()
        self._break_off()

    def ends(self, sent: int) -> None:
        """It is answered, with a body of so many bytes."""
        self.bytes_out += sent
        self._request = None
        self._forget_body()
        if self._last:
            self.close()
        elif self._in_head and not self.inner._messages:
            # Of the next one something is there already, and not all of its head.
            self._await_head()

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """What TLS has verified of the peer; as of a `Connection`."""
        return None if self._transport is None else self._transport.get_extra_info("peercert")

    @property
    def is_last(self) -> bool:
        """Whether the connection ends behind the request that is being answered."""
        return self._last

    def last_request(self) -> None:
        """End behind the request that is being answered; at once where there is none."""
        self._last = True
        if self._request is None:
            self.close()

    # asyncio's

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Have aiohttp serve it, unless there are too many."""
        # uvloop's is no subclass of it.
        self._transport = transport = cast("asyncio.Transport", transport)
        self.peer = peer_of(transport)
        try:
            assert self._served is not None, "it is not over"
            self._served.connection_opened(self)  # type: ignore[arg-type]  # it has of a connection what the broker asks
        except TransportError as error:
            transport.write(bare(known(error) or ProblemError("limit-exceeded", str(error)), UNAVAILABLE))
            self.close()
            return
        self.inner.connection_made(cast("asyncio.Transport", _Closable(transport, self)))
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Hand it on, if it may be there."""
        self.bytes_in += len(data)
        if self._transport is None or self._transport.is_closing():
            return  # uvloop has read it in the same turn
        request = self._request
        if request is not None and request.content.at_eof():
            self._behind += len(data)
            if self._behind > PIPELINED_BYTES:
                self.end(RefusalError("limit-exceeded", "too many requests came before one was answered"))
                return
        self._feed(data)

    def _hand_on(self, piece: bytes) -> None:
        body = self._content
        super()._hand_on(piece)
        if body is not None and body is not self._content and not body.is_eof():
            self._broken = body
            self._break_off()
        if self._in_head and self._request is None and self._head is None:
            self._await_head()

    def eof_received(self) -> bool | None:
        """The client says no more."""
        stays_open: bool | None = self.inner.eof_received()
        return stays_open

    def pause_writing(self) -> None:
        """The client takes less than it is answered with."""
        self.inner.pause_writing()
        if self._unread is None and self._transport is not None:
            self._watch(self._transport)

    def resume_writing(self) -> None:
        """It goes on."""
        self._cancel_unread()
        self.inner.resume_writing()

    def hand_over(self) -> asyncio.Transport | None:
        """Let the transport go to another protocol; None where it is gone. To HTTP, and in the broker's books, this connection is over."""
        transport, self._transport = self._transport, None
        self._drop()
        self._cancel_head()
        self._cancel_unread()
        if transport is not None:
            # Not at once: a request of its is being answered.
            self._loop.call_soon(self.inner.connection_lost, None)
            self._is_over(None)
        return transport

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        transport, self._transport = self._transport, None
        self._drop()
        self._cancel_head()
        self._cancel_unread()
        if self._closing is not None:
            self._closing.cancel()
        if transport is not None:
            self.inner.connection_lost(exc)
            leave_no_cycle(transport)
        self._is_over(exc)
        self._request = None

    # As the broker sees a connection

    def fail(self, error: Exception) -> None:
        """As of a `Connection`."""
        self.end(error)

    def abort(self, error: Exception | None = None) -> None:  # noqa: ARG002 - as of a `Connection`
        """End it at once."""
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close behind what waits to be read; a peer that does not read it is not waited for."""
        if self._transport is not None:
            self._transport.close()
            if self._closing is None:
                self._closing = self._loop.call_later(UNREAD_SECONDS, self.abort)

    def end(self, error: Exception) -> None:
        """End it; where nothing is being answered, with the reason: a client that says something just then takes it for its answer."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._request is None:
            transport.write(bare(known(error) or ProblemError("shutting-down", str(error)), UNAVAILABLE))
        self.close()

    # Inside

    def _is_over(self, error: Exception | None) -> None:
        """Tell the broker, and forget who knows this one: they are freed by themselves then, and nobody has to look for them."""
        served, self._served = self._served, None
        if served is not None:
            served.connection_closed(error)

    def _break_off(self) -> None:
        """Whoever waits for the rest of a body is told that there is none, which aiohttp tells nobody."""
        request, body = self._request, self._broken
        if body is None or request is None or request.content is not body:
            return
        # Where the next request would begin nobody knows.
        self._broken, self._last = None, True
        body.set_exception(
            ProblemError("protocol-error", "the body is no HTTP from some place on: it breaks off there")
        )
        body.feed_eof()

    def _await_head(self) -> None:
        self._cancel_head()
        self._head = self._loop.call_later(HEAD_SECONDS, self._too_slow)

    def _too_slow(self) -> None:
        self._head = None
        if self._waiting or self._in_line:
            # It may be here already, and is not parsed yet.
            self._await_head()
        elif self._transport is not None and not self._transport.is_closing():
            text = f"the head of a request is to come within {HEAD_SECONDS:g} s"
            self._transport.write(bare(ProblemError("too-slow", text)))
            self.close()

    def _watch(self, transport: asyncio.Transport) -> None:
        """Look later whether the client goes on reading."""
        waits = transport.get_write_buffer_size()
        self._unread = self._loop.call_later(UNREAD_SECONDS, self._look, transport, waits)

    def _look(self, transport: asyncio.Transport, waited: int) -> None:
        if waited - transport.get_write_buffer_size() < LEAST_READ_BYTES:
            self.abort()
        else:
            self._watch(transport)

    def _cancel_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _cancel_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


class _Closable:
    """The transport as aiohttp has it: what it closes is let go in time, and what it does not take yet is kept, too."""

    __slots__ = ("_transport", "_wire")

    def __init__(self, transport: asyncio.Transport, wire: Wire) -> None:
        self._transport = transport
        self._wire = wire

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def close(self) -> None:
        """As of a transport."""
        self._wire.close()

    def pause_reading(self) -> None:
        """As of a transport."""
        self._wire.hold()

    def resume_reading(self) -> None:
        """As of a transport."""
        self._wire.go_on()
