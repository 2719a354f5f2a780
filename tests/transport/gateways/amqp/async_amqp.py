"""A client of AMQP on the event loop that says what it is told to, and gives no sign of its own accord: for many of them at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, NamedTuple, Self, TypeVar

from tests.transport.gateways.amqp.raw_amqp import OPEN, methods, start_ok, tune_ok
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp.layout import FRAME_HEAD, FRAME_HEARTBEAT, FRAME_METHOD, HEAD_BYTES, PROTOCOL_HEADER
from transport.gateways.amqp.method import Method
from transport.gateways.amqp.method_codec import decode_method

M = TypeVar("M", bound=Method)


class EndedError(Exception):
    """The broker has ended the connection."""


class Came(NamedTuple):
    """A method that has come: when, by the loop's time, on which channel, and what it is."""

    when: float
    channel: int
    method: Method


class AsyncClient(asyncio.Protocol):
    """One connection.

    Attributes:
        transport: of asyncio.
        came: methods that have come and nobody has looked at.
        signs: heartbeats that have come.
        gone: whether the connection is over.
    """

    def __init__(self) -> None:
        self.transport: Any = None
        self.came: deque[Came] = deque()
        self.signs = 0
        self.gone = False
        self._rest = bytearray()
        self._wake = asyncio.Event()

    @classmethod
    async def knock(cls, host: str, port: int) -> Self:
        """One that has said nothing yet."""
        _, client = await asyncio.get_running_loop().create_connection(cls, host, port)
        return client

    @classmethod
    async def open(cls, host: str, port: int, *, heartbeat: int = 0) -> Self:
        """One with a channel."""
        client = await cls.knock(host, port)
        said = methods(0, start_ok(), tune_ok(heartbeat=heartbeat), OPEN) + methods(1, connection.ChannelOpen())
        client.transport.write(PROTOCOL_HEADER + said)
        await client.until(connection.ChannelOpenOk)
        return client

    def say(self, *said: Method, channel: int = 1) -> None:
        """Write methods."""
        self.transport.write(methods(channel, *said))

    async def ask(self, said: Method, kind: type[M], channel: int = 1) -> M:
        """Say one, and wait for its answer."""
        self.say(said, channel=channel)
        return (await self.until(kind))[1]

    async def until(self, kind: type[M]) -> tuple[float, M]:
        """When the next of a kind came, and what it is; what came before it is passed over. Raises EndedError."""
        while True:
            while self.came:
                when, _, method = self.came.popleft()
                if isinstance(method, kind):
                    return when, method
            await self.more()

    async def more(self) -> None:
        """Wait until something comes, or the end. Raises EndedError where that has come before."""
        if self.gone:
            raise EndedError
        self._wake.clear()
        await self._wake.wait()

    def frame_received(self, kind: int, channel: int, payload: bytes) -> None:
        """A frame has come that is no method; of no interest, unless to a child of this class."""

    # asyncio's protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        rest, at = self._rest, 0
        rest += data
        while len(rest) - at > HEAD_BYTES:
            kind, channel, size = FRAME_HEAD.unpack_from(rest, at)
            end = at + HEAD_BYTES + size
            if len(rest) <= end:
                break
            payload = bytes(rest[at + HEAD_BYTES : end])
            at = end + 1
            if kind == FRAME_METHOD:
                self.came.append(Came(asyncio.get_running_loop().time(), channel, decode_method(payload)))
            elif kind == FRAME_HEARTBEAT:
                self.signs += 1
            else:
                self.frame_received(kind, channel, payload)
        del rest[:at]
        self._wake.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        self.gone = True
        self._wake.set()
