"""A client of WebSocket that says what it likes, over asyncio's streams: nothing of aiohttp, whose server it is to test.

`WsPeer` is a peer as tests of TCP have it (`Peer`): so the same test speaks to both.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import struct
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from tests.transport.conftest import Peer

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10

_writers: list[asyncio.StreamWriter] = []


async def connected(
    address: Any, context: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection, until `cut_off`."""
    reader, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
    _writers.append(writer)
    return reader, writer


async def cut_off() -> None:
    """End all connections that were made."""
    while _writers:
        writer = _writers.pop()
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


KEY = b"\x5a\xc3\x17\xe9"
"""The same each time: frames are parameters of tests, which must have the same names in each process that collects them."""


def masked(opcode: int, data: bytes, *, final: bool = True, key: bytes | None = None, first: int = 0) -> bytes:
    """A client's frame; ``first`` has more bits of its first byte."""
    key = KEY if key is None else key
    size = len(data)
    length = bytes([size]) if size < 126 else b"\x7e" + struct.pack(">H", size) if size < 1 << 16 else b""
    length = length or b"\x7f" + struct.pack(">Q", size)
    repeated = (key * (size // 4 + 1))[:size]
    body = (int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")).to_bytes(size, "big")
    return bytes([(0x80 if final else 0) | opcode | first, 0x80 | length[0]]) + length[1:] + key + body


def handshake(host: str, **headers: str | None) -> bytes:
    """The request of a handshake; a header of None is left out."""
    said: dict[str, str | None] = {
        "Host": host,
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
        "Sec-WebSocket-Protocol": "penstock.1",
    }
    said.update({name.replace("_", "-"): value for name, value in headers.items()})
    lines = "".join(f"{name}: {value}\r\n" for name, value in said.items() if value is not None)
    return f"GET /ws HTTP/1.1\r\n{lines}\r\n".encode()


class Received:
    """What a server sends: `read` gives payloads of messages, and notes the rest.

    Attributes:
        pongs: what each said.
        closed: code and reason of the close frame, once it has come.
        sizes: of each message.
    """

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self.pongs: list[bytes] = []
        self.closed: tuple[int, bytes] | None = None
        self.sizes: list[int] = []
        self._reader = reader

    async def read(self, _most: int = 0) -> bytes:
        """The next message; nothing at the end."""
        while True:
            try:
                opcode, data = await self._frame()
            except (asyncio.IncompleteReadError, ConnectionError):
                return b""
            if opcode == BINARY:
                self.sizes.append(len(data))
                return data
            if opcode == PONG:
                self.pongs.append(data)
            elif opcode == CLOSE:
                self.closed = struct.unpack(">H", data[:2])[0] if data else 1005, data[2:]
                return b""
            else:
                raise AssertionError(f"a frame of the kind {opcode}")

    async def _frame(self) -> tuple[int, bytes]:
        first, second = await self._reader.readexactly(2)
        assert first & 0xF0 == 0x80, "whole, and nothing reserved"
        assert second < 0x80, "a server masks nothing"
        size = second
        if second == 126:
            (size,) = struct.unpack(">H", await self._reader.readexactly(2))
        elif second == 127:
            (size,) = struct.unpack(">Q", await self._reader.readexactly(8))
        return first & 0xF, await self._reader.readexactly(size)


class Written:
    """Writes a stream as messages of so many bytes each; all at once where that is 0."""

    def __init__(self, writer: asyncio.StreamWriter, piece: int) -> None:
        self.raw = writer
        self.transport = writer.transport
        self.piece = piece

    def writelines(self, parts: Iterable[Any]) -> None:
        self.write(b"".join(bytes(part) for part in parts))

    def write(self, data: bytes) -> None:
        size = self.piece or len(data)
        self.raw.write(b"".join(masked(BINARY, data[at : at + size]) for at in range(0, len(data), size)))

    async def drain(self) -> None:
        await self.raw.drain()

    def close(self) -> None:
        if not self.transport.is_closing():
            self.raw.write(masked(CLOSE, struct.pack(">H", 1000)))
        self.raw.close()

    async def wait_closed(self) -> None:
        await self.raw.wait_closed()


class WsPeer(Peer):
    """A peer over WebSocket.

    Attributes:
        received: what has come beside the stream.
        raw: writes whatever it is given, as it is.
        head: the answer to the handshake.
    """

    received: Received
    raw: asyncio.StreamWriter
    head: str

    @classmethod
    async def connect(
        cls, address: Any, piece: int = 0, context: ssl.SSLContext | None = None, **headers: str | None
    ) -> WsPeer:
        """Connect, and shake hands; AssertionError where the server would not."""
        reader, writer = await connected(address, context)
        writer.write(handshake(f"{address.host}:{address.port}", **headers))
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        received = Received(reader)
        peer: WsPeer = cls(received, Written(writer, piece))  # type: ignore[arg-type]  # of both it has what a peer asks for
        peer.received, peer.raw, peer.head = received, writer, head
        assert head.startswith("HTTP/1.1 101 "), head
        return peer
