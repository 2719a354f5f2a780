"""What a connection leaves is freed by itself: a look among all that a broker has comes once in hours, and stops everybody."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections import Counter
from contextlib import closing
from typing import Any

import pytest

ROUNDS = 20
HEAD = "HTTP/1.1\r\nHost: localhost\r\n"
LAST = f"{HEAD}Connection: close\r\n"
UPGRADE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: penstock.1\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
WAITS = "Expect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n"
KINDS = {
    "an answer": (f"GET /health/live {LAST}\r\n", ""),
    "a refusal": (f"GET /nothing {LAST}\r\n", ""),
    "a full queue": (f"POST /api/v1/queues/full/messages {LAST}Content-Length: 1\r\n\r\nx", ""),
    "a stored message": (f"POST /api/v1/queues/orders/messages {LAST}Content-Length: 1\r\n\r\nx", ""),
    "a stream of events": (f"GET /api/v1/events {HEAD}\r\n", "data:"),
    "a take that waits": (
        f'POST /api/v1/queues/empty/take {HEAD}{WAITS}{{"wait":"20s"}}',
        "100 Continue",
    ),
    "a WebSocket": (f"GET /ws {HEAD}{UPGRADE}\r\n", "\r\n\r\n"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_that_is_over_leaves_nothing_to_be_looked_for(kind: str, run: Any, api: Any, until: Any) -> None:
    asked, answered = KINDS[kind]

    async def once(address: tuple[str, int]) -> None:
        loop = asyncio.get_running_loop()
        # Without a transport of this side: what that leaves is none of the broker's.
        with closing(socket.socket()) as peer:
            peer.setblocking(False)
            await loop.sock_connect(peer, address)
            await loop.sock_sendall(peer, asked.encode())
            said = b""
            while part := await loop.sock_recv(peer, 65536):
                said += part
                if answered and answered.encode() in said:
                    break

    async def main() -> None:
        async with api() as there:
            await there.ask("POST", "/api/v1/queues", {"name": "empty"})
            await there.ask("POST", "/api/v1/queues", {"name": "full", "max_messages": 1})
            await there.publish("x", queue="full")
            address, broker = there.address, there.broker
            await there.session.close()
            await once(address)
            await until(lambda: not broker._connections.standing)
            gc.collect()
            gc.disable()
            gc.set_debug(gc.DEBUG_SAVEALL)
            try:
                for _ in range(ROUNDS):
                    await once(address)
                await until(lambda: not broker._connections.standing)
                gc.collect()
                left = Counter(type(each).__qualname__ for each in gc.garbage)
            finally:
                gc.set_debug(0)
                gc.garbage.clear()
                gc.enable()
            assert not {name: count for name, count in left.items() if count >= ROUNDS}

    run(main)
