"""Many connections that break off in one moment, and come back at once: over real sockets, on both event loops."""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from transport import Broker, parse_address
from transport.shell.connection import Connection
from transport.shell.turns import ENDS
from transport.wire.codec import encode
from transport.wire.messages import VERSION, Hello

CROWD = 5 * ENDS
DEADLINE = 20.0
RESET = struct.pack("ii", 1, 0)
"""For SO_LINGER: a close is a reset."""


@pytest.fixture(params=["asyncio", "uvloop"], name="run_on")
def run_on_fixture(request: pytest.FixtureRequest) -> Callable[[Any], None]:
    """Runs a test's coroutine function on one of the loops."""
    factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    if request.param == "uvloop":
        factory = pytest.importorskip("uvloop", reason="uvloop is not installed").new_event_loop

    def run(main: Any) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(asyncio.wait_for(main(), DEADLINE))

    return run


async def crowd_of(broker: Broker, reset: bool) -> list[socket.socket]:
    """So many receivers, each let in; a process that dies has its system close them all, or reset them."""
    return await asyncio.gather(*(one_of(broker, number, reset) for number in range(CROWD)))


async def one_of(broker: Broker, number: int, reset: bool) -> socket.socket:
    loop = asyncio.get_running_loop()
    peer = socket.socket()
    peer.setblocking(False)
    if reset:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    await loop.sock_connect(peer, parse_address(broker.receive_address))
    await loop.sock_sendall(peer, b"".join(encode(Hello(VERSION, "receiver", "orders", f"client-{number}", {}))))
    answer = await loop.sock_recv(peer, 4096)
    assert b"limit-exceeded" not in answer
    assert answer
    return peer


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_a_crowd_that_breaks_off_comes_to_its_end_in_many_turns(run_on: Any, serve: Any, reset: bool) -> None:
    async def main() -> None:
        async with serve() as broker:
            for each in await crowd_of(broker, reset):
                each.close()
            counts = [len(broker.connections)]
            assert counts == [CROWD]
            while counts[-1]:
                await asyncio.sleep(0)
                counts.append(len(broker.connections))
            ended = [before - after for before, after in itertools.pairwise(counts)]
            # Those who come to their end as they break off, and those who have waited for it.
            assert max(ended) <= 2 * ENDS, ended

    run_on(main)


def test_the_transports_of_a_crowd_that_closes_are_closed_in_many_turns(
    run_on: Any, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = Connection.connection_lost
    closed = 0

    def counting(connection: Any, exc: Exception | None) -> None:
        nonlocal closed
        closed += 1
        lost(connection, exc)

    async def main() -> None:
        async with serve() as broker:
            for each in await crowd_of(broker, reset=False):
                each.close()
            monkeypatch.setattr(Connection, "connection_lost", counting)
            counts = [0]
            while broker.connections:
                await asyncio.sleep(0)
                counts.append(closed)
            assert max(after - before for before, after in itertools.pairwise(counts)) <= 2 * ENDS
            assert closed == CROWD

    run_on(main)


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_a_crowd_that_comes_back_finds_its_room_though_its_end_has_to_wait(
    run_on: Any, serve: Any, reset: bool
) -> None:
    async def main() -> None:
        async with serve(max_connections=CROWD) as broker:
            for _ in range(3):
                for each in await crowd_of(broker, reset):
                    each.close()
            last = await crowd_of(broker, reset)
            assert len(broker.connections) == CROWD
            for each in last:
                each.close()

    run_on(main)
