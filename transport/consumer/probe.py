"""A probe of a consumer's health over HTTP, as an orchestrator of containers asks for it (RFC 9112, one request a connection)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Self

from transport.wire.address import parse_address

READ_TIMEOUT = 5.0
"""Seconds in which a request must have come, and its answer have left."""
MAX_REQUEST_BYTES = 8192
"""Of a request line and headers; a probe's have a few hundred."""
MAX_CONNECTIONS = 32
"""At a time; further ones are closed at once."""
HEALTHY = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n"
UNHEALTHY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 10\r\nConnection: close\r\n\r\nunhealthy\n"


class HealthProbe:
    """Answers every request with 200 or 503, as ``healthy`` says; an async context manager.

    Attributes:
        address: where it listens; with port 0, the port that it got.
    """

    def __init__(self, address: str, healthy: Callable[[], bool]) -> None:
        self.address = parse_address(address)
        self._healthy = healthy
        self._open: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            OSError: the address cannot be had.
        """
        host, port = self.address
        self._server = await asyncio.start_server(self._accept, host, port, limit=MAX_REQUEST_BYTES)
        self.address = self.address._replace(port=self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.ensure_future(self._answer(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(HEALTHY if self._healthy() else UNHEALTHY)
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # who asks badly, too slowly (TimeoutError is an OSError) or goes away gets no answer
        finally:
            writer.transport.abort()
