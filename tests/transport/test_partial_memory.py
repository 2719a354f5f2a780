"""Frames that never come whole, on a broker over real sockets: a bounded memory, a bounded wait for honest senders, nothing left behind."""

from __future__ import annotations

import asyncio
import gc
import struct
import weakref
from typing import Any

import msgpack
import pytest

from actors.batch import MessageBatch
from streams.testkit import settle
from transport.shell.partial_frames import IN_TURN, PartialRoom
from transport.wire.codec import encode
from transport.wire.frames import MAX_FRAME_BYTES
from transport.wire.messages import Demand, Error, Request, Send, Sent

MIB = 2**20
ROLES: dict[str, tuple[str, str | None, dict[str, Any]]] = {
    "sender": ("sending", "q", {}),
    "transaction": ("sending", None, {"writer": "w", "version": 1}),
    "admin": ("sending", None, {}),
    "receiver": ("receiving", "q", {}),
    "subscription": ("receiving", "q", {"subscription": "s"}),
}
WAYS = ["closes", "crashes", "breaks the protocol"]


def encoded(frame: Any) -> bytes:
    return b"".join(bytes(part) for part in encode(frame))


async def opened_as(role: str, broker: Any, opened: Any) -> Any:
    port, queue, options = ROLES[role]
    address = broker.send_address if port == "sending" else broker.receive_address
    return await opened.open(address, role, queue, **options)


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_begin_a_frame_as_large_as_it_may_send(run: Any, serve: Any, peers: Any, role: str) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            peer = await opened_as(role, broker, opened)
            peer.send_bytes(struct.pack(">IH", 8 * 1024 + 1, 10) + msgpack.packb([4, 1]))
            if role == "sender":
                peer.send_bytes(b"x" * 8 * 1024)
                refusal = await peer.refusal()
                # Taken whole, and then judged.
                assert refusal.code == "protocol-error"
            else:
                refusal = await peer.refusal()
                assert refusal.code == "frame-too-large"
                assert "in this role frames have a header only" in refusal.text

    run(main)


def test_frames_that_stop_in_the_middle_are_bounded_together_and_end_and_honest_senders_come_through(
    run: Any, serve: Any, peers: Any, until: Any
) -> None:
    large = MessageBatch.from_payloads([b"x" * (3 * MIB)])

    async def honest(broker: Any, opened: Any, number: int) -> None:
        sender = await opened.open(broker.send_address, "sender", "q", f"honest {number}".replace(" ", "-"))
        await sender.expect(Demand)
        sender.send(Send(0, None, large))
        await sender.flushed()
        assert (await sender.expect_later(Sent)).up_to == 1

    async def main() -> None:
        async with serve(heartbeat=0.2) as broker, peers() as opened:
            broker.partial.limit = 4 * MIB
            silent = []
            for _ in range(20):
                peer = await opened.open(broker.send_address, "sender", "q", f"s{len(silent)}")
                peer.send_bytes(encoded(Send(0, None, large))[: 2 * MIB])
                silent.append(peer)
            await until(lambda: broker.partial.waiting > 5)
            stopped = set(broker.connections.values())
            assert len(stopped) == len(silent)
            most = []
            watching = asyncio.create_task(_watch(broker, most))
            await asyncio.gather(*(honest(broker, opened, number) for number in range(5)))
            watching.cancel()
            assert max(most) <= broker.partial.limit + IN_TURN * 4 * MIB + 25 * 256 * 1024
            # Whoever stops in the middle is told so, one after another.
            for peer in silent:
                assert [frame.code for frame in await peer.rest() if isinstance(frame, Error)] == ["timeout"]
            # Not how many are left: the honest ones send no heartbeats, so they are given up as silent soon after.
            await until(lambda: not stopped & set(broker.connections.values()))
            assert broker.partial.bytes == broker.partial.waiting == 0

    run(main)


async def _watch(broker: Any, most: list[int]) -> None:
    while True:
        most.append(broker.partial.bytes)
        await settle(0.001)


def test_a_client_that_waits_for_memory_is_not_taken_for_silent(
    run: Any, serve: Any, peers: Any, until: Any, jump: Any
) -> None:
    async def main() -> None:
        async with serve(heartbeat=0.5) as broker, peers() as opened:
            broker.partial.limit = 1
            rooms = [PartialRoom(broker.partial, Holder()) for _ in range(IN_TURN)]
            assert [room.take(MIB, MIB) for room in rooms] == [True] * IN_TURN
            sender = await opened.open(broker.send_address, "sender", "q")
            await sender.expect(Demand)
            sender.send(Send(0, None, MessageBatch.from_payloads([b"x" * MIB])))
            await until(lambda: broker.partial.waiting == 1)
            # Six times as long as silence is borne.
            for _ in range(18):
                jump(0.5)
                await settle()
            for room in rooms:
                room.leave()
            assert (await sender.expect_later(Sent)).up_to == 1

    run(main)


class Holder:
    """One that goes on and never comes to its end."""

    @property
    def bytes_in(self) -> int:
        self.came = getattr(self, "came", 0) + MIB
        return self.came

    def room_found(self) -> None:
        raise AssertionError("it does not wait")

    def waited(self) -> float:
        return 0.0

    def too_slow(self) -> None:
        raise AssertionError("it goes on")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("role", ROLES)
def test_a_connection_that_is_over_leaves_nothing_behind_without_a_garbage_collection(
    run: Any, serve: Any, peers: Any, until: Any, role: str, way: str
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            peer = await opened_as(role, broker, opened)
            if role == "receiver":
                peer.send(Request(10, MIB))
            size = MAX_FRAME_BYTES if role == "sender" else 4096
            if way != "breaks the protocol":
                peer.send_bytes(struct.pack(">IH", size, 10) + b"x" * min(size - 100, 3 * MIB))
                await until(lambda: broker.partial.bytes > 1000)
            (handler,) = broker.connections.values()
            kept = [weakref.ref(handler), weakref.ref(handler.connection), weakref.ref(handler._port)]
            del handler
            if way == "closes":
                await peer.close()
            elif way == "crashes":
                peer.abort()
            else:
                peer.send_bytes(b"\xff" * 100)
                await peer.refusal()
                await peer.close()
            await until(lambda: not broker.connections)
            assert broker.partial.bytes == 0
            await until(lambda: all(reference() is None for reference in kept))

    gc.collect()
    gc.disable()
    try:
        run(main)
    finally:
        gc.enable()
