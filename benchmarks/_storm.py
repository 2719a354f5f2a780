"""The role of many clients that come back at one time, each with a password: HELLO, the exchange of SCRAM, WELCOME, and then nothing.

They remember the keys of the password, as our clients do when they reconnect, so what a broker spends on them is seen and not what they do.
"""

from __future__ import annotations

import asyncio
import time
from functools import cache
from typing import cast

from benchmarks._links import raise_file_limit
from benchmarks._worker import Parent, run_loop
from transport import parse_address
from transport.security.scram import ClientExchange
from transport.security.verifier import Keys, derive
from transport.wire.codec import decode, encode
from transport.wire.frames import FrameDecoder
from transport.wire.messages import VERSION, Auth, Error, Frame, Hello, Welcome
from transport.wire.protocol import MECHANISM

AT_ONCE = 200
"""Connections that are being made at one time: fewer than a broker lets in before it knows them."""
SECONDS = 120.0
"""Time for all of them."""


class Returning(asyncio.BufferedProtocol):
    """One client's connection; `opened` is done when WELCOME has come."""

    def __init__(self, exchange: ClientExchange, queue: str, name: str) -> None:
        self._exchange = exchange
        self._hello = Hello(VERSION, "receiver", queue, name, {MECHANISM: "SCRAM-SHA-256"})
        self._decoder = FrameDecoder()
        self._answered = False
        self._transport: asyncio.Transport
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._transport = cast("asyncio.Transport", transport)
        self._write(self._hello, Auth(self._exchange.first()))

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Called by asyncio."""
        return self._decoder.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Called by asyncio."""
        self._decoder.received(nbytes)
        for raw in iter(self._decoder.next_frame, None):
            self._heard(decode(raw))

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        if not self.opened.done():
            self.opened.set_exception(exc or ConnectionError("the broker closed the connection"))

    def close(self) -> None:
        """End it as a process that dies does."""
        self._transport.abort()

    def _heard(self, frame: Frame) -> None:
        if isinstance(frame, Auth) and not self._answered:
            self._answered = True
            self._write(Auth(self._exchange.answer(frame.data)))
        elif isinstance(frame, Auth):
            self._exchange.conclude(frame.data)
        elif isinstance(frame, Welcome):
            self.opened.set_result(None)
        elif isinstance(frame, Error) and not self.opened.done():
            self.opened.set_exception(RuntimeError(f"{frame.code}: {frame.text}"))

    def _write(self, *frames: Frame) -> None:
        self._transport.writelines([part for frame in frames for part in encode(frame)])


def come_back(parent: Parent, address: str, queue: str, user: str, password: str, count: int, uvloop: bool) -> None:
    """Connect ``count`` clients; then, when told, have all of them break off and come back, and time that."""
    to = parse_address(address)

    @cache
    def keys(salt: bytes, iterations: int) -> Keys:
        return derive(password, salt, iterations)

    async def connect_all() -> list[Returning]:
        gate = asyncio.Semaphore(AT_ONCE)
        loop = asyncio.get_running_loop()

        async def connect(number: int) -> Returning:
            async with gate:
                _, client = await loop.create_connection(
                    lambda: Returning(ClientExchange(user, keys), queue, f"{queue}-{number}"), to.host, to.port
                )
                await client.opened
                return client

        async with asyncio.timeout(SECONDS):
            return await asyncio.gather(*(connect(number) for number in range(count)))

    async def run() -> None:
        clients = await connect_all()
        parent.say(ready=True)
        await parent.told()
        began = time.monotonic()
        for client in clients:
            client.close()
        clients = await connect_all()
        parent.say(clients=len(clients), seconds=time.monotonic() - began)
        await parent.told()
        for client in clients:
            client.close()

    raise_file_limit()
    run_loop(run(), uvloop)
