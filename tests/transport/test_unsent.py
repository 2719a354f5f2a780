"""What waits for all sockets together: who gives way, and who is cut."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.batch import MessageBatch
from transport.errors import UnreadError
from transport.shell.unsent import (
    COUNTED_BYTES,
    LEAST_UNSENT_BYTES,
    MOST_UNSENT_BYTES,
    WRITE_BUFFER_HIGH,
    Unsent,
    UnsentTotal,
    unsent_bytes_limit,
)
from transport.wire import messages as wire
from transport.wire.codec import encode

MIB = 2**20


class Peer:
    """A connection as far as the total knows it."""

    def __init__(self, total: UnsentTotal) -> None:
        self.unsent = Unsent(total, self)
        self.ways = 0
        self.error: Exception | None = None

    def give_way(self) -> None:
        self.ways += 1

    def abort(self, error: Exception, /) -> None:
        self.error = error
        self.unsent.drained()


def test_above_the_limit_whoever_has_most_gives_way_and_one_that_has_little_never_does() -> None:
    total = UnsentTotal(8 * MIB)
    great, small, little = Peer(total), Peer(total), Peer(total)
    little.unsent.count(COUNTED_BYTES)
    great.unsent.count(3 * MIB)
    small.unsent.count(MIB)
    assert total.bytes == 6 * MIB, "in classes"
    assert (great.ways, small.ways) == (0, 0)
    small.unsent.count(3 * MIB)
    assert total.bytes == 8 * MIB
    small.unsent.count(MIB)
    third = Peer(total)
    third.unsent.count(2 * MIB + 1)
    assert (great.ways, small.ways, third.ways, little.ways) == (1, 0, 0, 0)
    great.unsent.drained()
    assert not great.unsent.gives_way
    assert total.bytes == 6 * MIB


def test_above_twice_the_limit_whoever_has_most_is_cut_until_it_is_less() -> None:
    total = UnsentTotal(8 * MIB)
    peers = [Peer(total) for _ in range(12)]
    for peer in peers:
        peer.unsent.count(2 * MIB - 1)
        assert total.bytes <= 16 * MIB
    cut = [peer for peer in peers if peer.error is not None]
    assert len(cut) == 4
    assert all(isinstance(peer.error, UnreadError) for peer in cut)
    assert "twice the broker's 8388608" in str(cut[0].error)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 20 * MIB)), max_size=100))
def test_the_total_is_what_all_have_and_within_twice_the_limit(steps: list[tuple[int, int]]) -> None:
    total = UnsentTotal(16 * MIB)
    peers = [Peer(total) for _ in range(10)]
    real = [0] * 10
    for number, size in steps:
        peer = peers[number]
        peer.unsent.count(size)
        real[number] = size
        for each, one in enumerate(peers):
            if one.error is not None:
                real[each], one.error = 0, None
        assert total.bytes == sum(each.unsent.bytes for each in peers) <= 32 * MIB
        assert sum(size for size in real if size > COUNTED_BYTES) <= total.bytes


def test_the_limit_follows_from_the_memory_there_is() -> None:
    assert [unsent_bytes_limit(memory) for memory in (2**26, 2**30, 2**40)] == [
        LEAST_UNSENT_BYTES,
        2**27,
        MOST_UNSENT_BYTES,
    ]


async def until(condition: Callable[[], bool]) -> None:
    async def turn() -> None:
        await asyncio.sleep(0)

    async with asyncio.timeout(10):
        while not condition():
            await turn()


async def connect(broker: Any, name: str) -> tuple[socket.socket, Any]:
    """A receiver of a queue of its own that reads nothing more, and the broker's end of it."""
    loop = asyncio.get_running_loop()
    host, port = broker.receive_address.split(":")
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.setblocking(False)
    known = set(broker.connections)
    await loop.sock_connect(peer, (host, int(port)))
    await loop.sock_sendall(peer, b"".join(encode(wire.Hello(wire.VERSION, "receiver", name, name, {}))))
    await until(
        lambda: any(each.actor is not None for number, each in broker.connections.items() if number not in known)
    )
    return peer, max(broker.connections.items())[1].connection


@pytest.mark.event_loop
def test_of_those_who_do_not_read_the_greatest_is_held_up_and_another_goes_on(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve(heartbeat=60.0) as broker:
            broker.unsent.limit = WRITE_BUFFER_HIGH
            (one, great), (other, small) = await connect(broker, "great"), await connect(broker, "small")
            frame = wire.Deliver(0, 1, 1, False, MessageBatch.from_payloads([bytes(WRITE_BUFFER_HIGH // 8)]))
            while great._unsent.bytes < WRITE_BUFFER_HIGH // 2:
                great.send(frame)
                await asyncio.sleep(0)
            assert not great._blocked, "alone it may have more"
            while not great._unsent.gives_way and not small._unsent.gives_way:
                small.send(frame)
                great.send(frame)
                await asyncio.sleep(0)
            assert (bool(great._blocked), great._reading, bool(small._blocked)) == (True, False, False)
            # It takes all of it, and goes on.
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(20):
                while great._blocked:
                    await loop.sock_recv(one, MIB)
            assert not great._unsent.gives_way
            assert great._reading
            one.close()
            other.close()
            await until(lambda: not broker.connections)
            assert broker.unsent.bytes == 0

    run(main)
