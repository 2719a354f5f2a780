"""The roles of ``http``: a server whose handler only parses, and clients that each wait for one answer after another."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable

from benchmarks._worker import Parent, run_loop
from transport import parse_address

QUEUE = "/api/v1/queues/orders"
PUBLISH, SETTLE = "publish", "settle"


class Client:
    """One connection, and one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, path: str, kind: str, body: bytes) -> bytes:
        """The body of the answer, which must be a good one."""
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        length = next(line for line in answer.lower().split("\r\n") if line.startswith("content-length:"))
        said = await self._reader.readexactly(int(length.partition(":")[2]))
        if answer.split()[1] not in ("200", "201"):
            raise ConnectionError(f"{answer.splitlines()[0]}: {said.decode()}")
        return said

    def close(self) -> None:
        """End."""
        self._writer.close()


async def publish(client: Client, requests: int, payload: bytes) -> None:
    """Publish one message after another."""
    for _ in range(requests):
        await client.ask(f"{QUEUE}/messages", "application/octet-stream", payload)


async def settle(client: Client, requests: int, _payload: bytes) -> None:
    """Take a message and acknowledge it, over and over; there is always one."""
    for _ in range(requests):
        (taken,) = json.loads(await client.ask(f"{QUEUE}/take", "application/json", b'{"visibility":3600}'))["messages"]
        said = json.dumps({"receipt": taken["receipt"]}).encode()
        await client.ask(f"{QUEUE}/acknowledge", "application/json", said)


WORK: dict[str, Callable[[Client, int, bytes], Awaitable[None]]] = {PUBLISH: publish, SETTLE: settle}


def clients(parent: Parent, uvloop: bool, connections: int, size: int) -> None:
    """Told a server's address, some work and how many requests, do it on all connections together, and say how long it took."""
    run_loop(_clients(parent, connections, b"x" * size), uvloop)


async def _clients(parent: Parent, connections: int, payload: bytes) -> None:
    loop = asyncio.get_running_loop()
    parent.say()
    while (told := await loop.run_in_executor(None, parent.wait)) is not None:
        place = parse_address(told["address"])
        there = [Client(*await asyncio.open_connection(*place)) for _ in range(connections)]
        work, each = WORK[told["work"]], told["requests"] // connections
        begun = time.monotonic()
        await asyncio.gather(*(work(client, each, payload) for client in there))
        took = time.monotonic() - begun
        for client in there:
            client.close()
        parent.say(seconds=took, requests=each * connections)


def parser(parent: Parent, uvloop: bool) -> None:
    """A server of the same library, whose handler reads a request's body and answers with as much as the broker does."""
    run_loop(_parser(parent), uvloop)


async def _parser(parent: Parent) -> None:
    from aiohttp import web  # noqa: PLC0415 - an extra

    async def handle(request: web.BaseRequest) -> web.Response:
        await request.read()
        return web.Response(status=201, body=b'{"numbers":[0]}', content_type="application/json")

    server = await asyncio.get_running_loop().create_server(web.Server(handle, access_log=None), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    parent.say(address=f"{host}:{port}")
    await parent.told()
    server.close()
