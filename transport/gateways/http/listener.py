"""The listener of HTTP: an address of the broker, whose connections aiohttp serves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from transport.broker.listener import Host, Listener
from transport.config.listener_names import HTTP
from transport.errors import LocalProtocolError
from transport.gateways.http.connections import UNAVAILABLE, HttpConnection, Wire
from transport.gateways.http.problems import ProblemError, bare
from transport.gateways.http.receipts import Receipts

if TYPE_CHECKING:
    from aiohttp import web

    from transport.broker.strangers import Entrant
    from transport.gateways.http.gateway import Gateway


class HttpListener(Listener[Any]):
    """As any listener, with aiohttp's protocol in the place of one of ours.

    Args:
        address: host:port; port 0 for any that is free.

    Raises:
        LocalProtocolError: aiohttp is not installed.
    """

    def __init__(self, address: str) -> None:
        super().__init__(HTTP, address, _none, _none, protected=True)
        try:
            import aiohttp  # noqa: F401, PLC0415 - an extra
        except ModuleNotFoundError as error:
            raise LocalProtocolError(
                f"HTTP at {address} needs the extra http: pip install 'penstock-mq[http]' ({error})"
            ) from None
        self._gateway: Gateway | None = None
        self._server: web.Server | None = None
        self._connections: dict[asyncio.Protocol, HttpConnection] = {}

    async def start(self, host: Host) -> None:
        """As `Listener.start`."""
        from transport.gateways.http import gateway  # noqa: PLC0415 - loads aiohttp

        receipts = await Receipts.of(host.memory, host.epoch)
        self._gateway = gateway.Gateway(host, receipts, self.wanted.host)
        self._server = gateway.server_of(self._gateway, self._connections)
        await super().start(host)

    def accept(self, host: Host, entrant: Entrant | None = None) -> Wire:  # type: ignore[override]  # a protocol as well
        """The protocol of a connection that has come."""
        assert self._server is not None, "it has started"
        inner = self._server()
        connection = HttpConnection(host, inner, self._gone)
        connection.listener, connection.entrant = self.name, entrant
        self._connections[inner] = connection
        return connection.wire

    def _gone(self, inner: asyncio.Protocol) -> None:
        self._connections.pop(inner, None)

    def _refusal(self, text: str) -> bytes:
        return bare(ProblemError("limit-exceeded", text), UNAVAILABLE)


def _none(*_: Any) -> Any:
    raise AssertionError("connections of HTTP are made by `accept`")
