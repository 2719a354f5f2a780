"""One connection in the role ``admin``: HELLO, then one command at a time, each with its answer.

A refusal (ERROR that does not close) carries no request number, so it belongs to the command that waits. Between commands the
connection answers the broker's PING by itself, so an idle client stays connected.
"""

from __future__ import annotations

import asyncio
from typing import cast

from transport.errors import BrokerError, ConnectionLostError, PeerTimeoutError, RemoteProtocolError
from transport.shell.frame_connection import FrameConnection, frame_connection
from transport.shell.loop_transport import connect
from transport.wire.address import Address
from transport.wire.messages import VERSION, Command, Error, Frame, Hello, Options, Result, Welcome
from transport.wire.protocol import Protocol, Side
from transport.wire.receiving import Part

ROLE = "admin"


class AdministrationLink:
    """A connection, from the attempt to make it to its end.

    Args:
        address: the broker's.

    Attributes:
        over: why it has ended; None while it has not.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._loop = asyncio.get_running_loop()
        self._connection: FrameConnection | None = None
        self._waiting: asyncio.Future[Frame] | None = None
        self._closed = asyncio.Event()
        self._turn = asyncio.Lock()
        self._request = 0
        self.over: Exception | None = None

    async def open(self, deadline: float) -> Welcome:
        """Connect and say HELLO, until ``deadline`` on the loop's clock.

        Raises:
            OSError, TimeoutError: there is no broker.
            TransportError: it refused, or is none.
        """
        connection = frame_connection(Protocol(Side.CLIENT, frozenset({ROLE})), self, self._loop)
        welcome = self._waiting = self._loop.create_future()
        try:
            async with asyncio.timeout_at(deadline):
                await connect(
                    connection, self._address.host, self._address.port, deadline - self._loop.time(), self._loop
                )
                return cast("Welcome", await welcome)
        finally:
            self._waiting = None
            if welcome.done() and not welcome.cancelled():
                # Whoever ends it while it connects is not waited for.
                welcome.exception()

    async def ask(self, name: str, arguments: Options, seconds: float) -> Part:
        """Send one COMMAND and wait for its RESULT's body.

        Raises:
            BrokerError: a refusal.
            PeerTimeoutError: no answer within ``seconds``; the connection is over, for one that is late would be taken for the next one's.
            ConnectionLostError: the connection is over.
        """
        async with self._turn:
            if self.over is not None:
                raise ConnectionLostError(f"not connected to the broker at {self._address}: {self.over}") from self.over
            self._request += 1
            self._waiting = self._loop.create_future()
            try:
                async with asyncio.timeout(seconds):
                    self._send(Command(self._request, name, arguments))
                    return cast("Result", await self._waiting).json
            except TimeoutError:
                late = PeerTimeoutError(f"the broker at {self._address} did not answer {name} within {seconds:.3g} s")
                self.end(late)
                raise late from None
            except asyncio.CancelledError:
                self.end(ConnectionLostError(f"{name} was cancelled while the broker was working on it"))
                raise
            finally:
                self._waiting = None

    def end(self, error: Exception) -> None:
        """Be over because of ``error``; the first reason stands."""
        if self.over is None:
            self.over = error
        self._answer(self.over)
        if self._connection is not None:
            self._connection.abort(error)

    async def closed(self) -> None:
        """Wait until the socket is closed."""
        if self._connection is not None:
            await self._closed.wait()

    # ConnectionHandler

    def connection_opened(self, connection: FrameConnection) -> None:
        """Say HELLO."""
        self._connection = connection
        self._send(Hello(VERSION, ROLE, None, None, {}))

    def event_received(self, event: Frame, work: int) -> None:  # noqa: ARG002 - one command at a time bounds it
        """WELCOME, and the answer to the command that waits."""
        if isinstance(event, Error):
            if self._request:
                self._answer(BrokerError(event.code, event.text))
            return
        if isinstance(event, Result) and event.request != self._request:
            raise RemoteProtocolError(f"a RESULT for request {event.request}; {self._request} was asked")
        self._answer(event)

    def writable_changed(self, writable: bool) -> None:
        """One command is under way at a time: there is nothing to hold back."""

    def connection_ending(self, error: Exception | None) -> None:
        """Nothing more is answered: whoever waits is told why at once, however long the peer keeps its socket."""
        self._is_over(error)

    def connection_closed(self, error: Exception | None) -> None:
        """It is over; whoever waits is told why."""
        self._is_over(error)
        self._connection = None
        self._closed.set()

    def _is_over(self, error: Exception | None) -> None:
        if isinstance(error, OSError):
            error = ConnectionLostError(f"the connection to the broker at {self._address} broke: {error}")
        self.over = self.over or error or ConnectionLostError("the broker closed the connection")
        self._answer(self.over)

    def _send(self, frame: Frame) -> None:
        assert self._connection is not None, "it is open"
        self._connection.send(frame)

    def _answer(self, answer: Frame | Exception) -> None:
        waiting = self._waiting
        if waiting is None or waiting.done():
            return
        if isinstance(answer, Exception):
            waiting.set_exception(answer)
        else:
            waiting.set_result(answer)
