"""From HTTP to the native protocol: the handshake of WebSocket (RFC 6455, section 4.2) at ``/ws``.

Behind it the connection is one of Penstock's own clients, as on the other addresses, and HTTP has nothing to do with it any more.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from transport.broker.broker_connection import BrokerConnection
from transport.gateways.http.answers import ALWAYS, Answer
from transport.gateways.http.problems import ProblemError
from transport.gateways.http.signing import OVER
from transport.gateways.http.websocket import WebSocket, WebSocketProtocol
from transport.wire.protocol import RECEIVING_ROLES, SENDING_ROLES, Protocol, Side

if TYPE_CHECKING:
    from aiohttp import web

    from transport.broker.listener import Host
    from transport.gateways.http.connections import HttpConnection
    from transport.gateways.http.console.sessions import Session
    from transport.security.principal import Principal

PATH: Final = "/ws"
SUBPROTOCOL: Final = "penstock.1"
ROLES: Final = SENDING_ROLES | RECEIVING_ROLES
"""Both: a page has one address."""
_VERSION: Final = "13"
_KEY_BYTES: Final = 16
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CLOSES: Final = {"Connection": "close"}


class _OfSession(BrokerConnection):
    """A connection that is known by a session, and ends with it."""

    def __init__(self, host: Host, states: Protocol, session: Session) -> None:
        super().__init__(host, states, session.principal)
        self._session = session
        session.ends.add(self._session_over)
        self._until = host.loop.call_at(session.until, self._session_over)

    def connection_closed(self, error: Exception | None) -> None:
        """As of a `BrokerConnection`."""
        self._forget_session()
        super().connection_closed(error)

    def _session_over(self) -> None:
        self._forget_session()
        by, rights = self._session.principal, self.operations
        # HELLO may have shown another proof, which is the one that counts then.
        if rights is None or (rights.principal.proof is by.proof and rights.principal.shown is by.shown):
            self.refused("authentication-required", OVER)

    def _forget_session(self) -> None:
        self._session.ends.discard(self._session_over)
        self._until.cancel()


class _Early:
    """Stands where aiohttp's parser of WebSocket would, and sees what came before the answer."""

    came = False

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """As of a parser."""
        self.came = self.came or bool(data)
        return False, b""

    def feed_eof(self) -> None:
        """As of a parser."""


def answer(
    host: Host,
    request: web.BaseRequest,
    connection: HttpConnection,
    known: Principal | None,
    session: Session | None = None,
) -> Answer:
    """What a request for ``/ws`` is answered with.

    Args:
        host: what the broker gives.
        request: as it came.
        connection: on which it came.
        known: who the request has shown that asks; HELLO may leave it at that. None where it has shown nothing.
        session: by which that is known, where it is.

    Raises:
        ProblemError: it asks for no WebSocket, or for one of another kind.
    """
    accept = _accept(request)

    async def switch(_request: web.BaseRequest) -> web.StreamResponse:
        _switch(host, connection, known, session, accept)
        # aiohttp ends the request when it is told that its connection is over: in the next turn of the loop.
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nobody answers it")

    early = _Early()
    request.protocol.set_parser(cast("Any", early))
    if early.came or connection.wire.keeps:
        _refuse("protocol-error", "bytes of the WebSocket came before its handshake was answered")
    _place_of(host, connection)
    return Answer(writes=switch)


def _accept(request: web.BaseRequest) -> str:
    """What the client is to see that it spoke to WebSocket."""
    headers = request.headers
    if request.method != "GET":
        _refuse("method-not-allowed", f"{request.method:.20} is not possible there; GET is", {"Allow": "GET"})
    if request.body_exists:
        # The rest of it would be taken for the native protocol.
        _refuse("protocol-error", f"a request for {PATH} has no body")
    wanted = {each.strip().lower() for each in headers.get("Connection", "").split(",")}
    if headers.get("Upgrade", "").strip().lower() != "websocket" or "upgrade" not in wanted:
        _refuse("upgrade-required", f"{PATH} speaks WebSocket alone", {"Upgrade": "websocket"})
    if headers.get("Sec-WebSocket-Version", "").strip() != _VERSION:
        _refuse(
            "upgrade-required", f"the version of WebSocket is to be {_VERSION}", {"Sec-WebSocket-Version": _VERSION}
        )
    offered = [each.strip() for line in headers.getall("Sec-WebSocket-Protocol", ()) for each in str(line).split(",")]
    if SUBPROTOCOL not in offered:
        _refuse("protocol-error", f"ask for the subprotocol {SUBPROTOCOL}: it is what is spoken here")
    key = headers.get("Sec-WebSocket-Key", "").strip()
    try:
        size = len(base64.b64decode(key, validate=True))
    except (binascii.Error, ValueError):
        size = 0
    if size != _KEY_BYTES:
        _refuse("protocol-error", f"Sec-WebSocket-Key is to be the base64 of {_KEY_BYTES} bytes")
    return base64.b64encode(hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()).decode()


def _refuse(code: str, text: str, headers: dict[str, str] | None = None) -> NoReturn:
    """What was to be something else than HTTP is not read on as HTTP."""
    raise ProblemError(code, text, headers=_CLOSES | (headers or {}))


def _place_of(host: Host, connection: HttpConnection) -> None:
    """Have it be one of those again that have not shown who they are, where a request before had shown it."""
    if connection.entrant is not None:
        return
    unopened = host.entrance.unopened
    entrant = None if unopened.full else unopened.enter(connection.wire.peer.rpartition(":")[0])
    if entrant is None:
        _refuse("limit-exceeded", "too many connections have not shown who they are: try again later")
    connection.entrant = entrant


def _switch(
    host: Host, connection: HttpConnection, known: Principal | None, session: Session | None, accept: str
) -> None:
    """Take the connection out of HTTP, and have the native protocol carried on it; it counts once at any time."""
    entrant, connection.entrant = connection.entrant, None
    transport = connection.wire.hand_over()
    if transport is None or transport.is_closing():
        if entrant is not None:
            entrant.leave()
        return
    transport.write(_head(accept))
    protocol = WebSocketProtocol(Protocol(Side.BROKER, ROLES))
    handler = (
        BrokerConnection(host, protocol.states, known)
        if session is None
        else _OfSession(host, protocol.states, session)
    )
    handler.listener, handler.entrant = connection.listener, entrant
    WebSocket(transport, host.accept(protocol, handler), protocol, host.turns).open()


def _head(accept: str) -> bytes:
    named = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Accept": accept,
        "Sec-WebSocket-Protocol": SUBPROTOCOL,
        **ALWAYS,
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 101 Switching Protocols\r\n{lines}\r\n".encode()
