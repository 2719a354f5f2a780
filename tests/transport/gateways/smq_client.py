"""A client of both ports of the simple message queue, written byte by byte from the description of its wire; nothing of ours is in it."""

from __future__ import annotations

import asyncio
import socket
from typing import NamedTuple, Self


class EndedError(Exception):
    """The broker closed the connection."""


class Delivery(NamedTuple):
    kind: bytes
    id: bytes
    payload: bytes


class Port:
    """A connection to one of the ports; an address is host and port."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, address: tuple[str, int]) -> Self:
        reader, writer = await asyncio.open_connection(*address[:2])
        # As in Java, where nobody asks for it.
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        return cls(reader, writer)

    async def take(self, count: int) -> bytes:
        try:
            return await self.reader.readexactly(count)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise EndedError(f"after {getattr(error, 'partial', b'')!r}") from None

    async def rest(self) -> bytes:
        """All until the broker closes."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""

    def write(self, data: bytes) -> None:
        # Of a lost connection whoever reads hears; asyncio complains of the fifth write to it.
        if not self.writer.transport.is_closing():
            self.writer.write(data)

    def vanish(self) -> None:
        """As a crash: without a word."""
        self.writer.transport.abort()

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            return


class Source(Port):
    """Sends messages, each confirmed by a byte."""

    def say(self, payload: bytes, own_id: bytes | None = None) -> None:
        length = len(payload).to_bytes(4, "big", signed=True)
        self.write((b"M" if own_id is None else b"I" + own_id) + length + payload)

    async def accepted(self, count: int = 1) -> None:
        answer = await self.take(count)
        assert answer == b"Y" * count, answer

    async def send(self, payload: bytes, own_id: bytes | None = None) -> None:
        self.say(payload, own_id)
        await self.accepted()

    def end(self) -> None:
        self.write(b"E")


class Sink(Port):
    """Is given one message at a time."""

    async def delivered(self) -> Delivery:
        head = await self.take(1 + 16 + 4)
        assert head[:1] in (b"M", b"R"), head
        length = int.from_bytes(head[17:], "big", signed=True)
        assert length >= 0
        return Delivery(head[:1], head[1:17], await self.take(length))

    def yes(self, count: int = 1) -> None:
        self.write(b"Y" * count)

    async def receive(self) -> Delivery:
        """A message, accepted before it is looked at, as the original's reader does."""
        delivery = await self.delivered()
        self.yes()
        return delivery
