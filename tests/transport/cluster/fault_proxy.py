"""A place between a register and its etcd, on loopback, where requests and answers are lost, or held back.

The register has a connection for each request, so what becomes of a connection is what becomes of a call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from enum import Enum, auto

from transport.wire.address import Address

HEAD_END = b"\r\n\r\n"


class Fate(Enum):
    """What becomes of a connection."""

    PASS = auto()
    LOSE_ANSWER = auto()
    """The request is forwarded, and the connection cut when the answer has come."""
    LOSE_REQUEST = auto()
    """The request is read, and the connection cut."""
    HOLD = auto()
    """The same, and it is forwarded at `FaultProxy.release`."""
    STALL = auto()
    """The request is forwarded, and nothing comes back; the connection stays."""
    HALF_AN_ANSWER = auto()
    """The request is forwarded, and the connection cut in the midst of the answer."""


class FaultProxy:
    """Listens in the place of an etcd."""

    def __init__(self, target: Address) -> None:
        self.planned: deque[Fate] = deque()
        self.connections = 0
        self._target = target
        self._server: asyncio.Server | None = None
        self._port = 0
        self._held: list[bytes] = []
        self._handlers: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self._port)

    async def listen(self) -> None:
        """Begin, or begin again at the same port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def close(self) -> None:
        """End it and all its connections."""
        for each in self._handlers:
            each.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)
        await self.refuse()

    async def release(self) -> None:
        """Forward what was held back, and wait until it is answered, to nobody."""
        held, self._held = self._held, []
        for request in held:
            await self._answer_to(request)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        self.connections += 1
        fate = self.planned.popleft() if self.planned else Fate.PASS
        try:
            request = await read_message(reader)
            if fate is Fate.HOLD:
                self._held.append(request)
            elif fate is not Fate.LOSE_REQUEST:
                answer = await self._answer_to(request)
                if fate is Fate.STALL:
                    await reader.read()  # until the client goes
                elif fate is not Fate.LOSE_ANSWER:
                    writer.write(answer[: len(answer) // 2] if fate is Fate.HALF_AN_ANSWER else answer)
                    await writer.drain()
        except (asyncio.CancelledError, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._handlers.discard(task)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer_to(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(*self._target)
        try:
            writer.write(request)
            return await read_message(reader)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def read_message(reader: asyncio.StreamReader) -> bytes:
    """A whole message of HTTP."""
    head = await reader.readuntil(HEAD_END)
    fields = dict(line.split(b":", 1) for line in head.lower().split(b"\r\n")[1:] if line)
    if b"chunked" in fields.get(b"transfer-encoding", b""):
        body = b""
        while not body.endswith(b"0\r\n" + HEAD_END) and b"\r\n0\r\n" not in body:
            body += await reader.readuntil(HEAD_END)
        return head + body
    return head + await reader.readexactly(int(fields.get(b"content-length", b"0")))
