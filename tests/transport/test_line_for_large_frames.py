"""A Sender of large messages and those who hold up the line for the memory of large frames: it keeps its place, and its turn comes."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from streams import Source
from transport import Sender
from transport.clients.link import FrameConnection
from transport.shell.partial_frames import IN_TURN, LEAST_PROGRESS, LOOK_SECONDS
from transport.wire.frames import MAX_FRAME_BYTES

MIB = 2**20
ATTACKERS = 16
HEARTBEAT = 1.0


def test_a_sender_of_large_messages_comes_through_those_who_hold_up_the_line_and_never_loses_its_place(
    run: Any, serve: Any, peers: Any, until: Any, jump: Any
) -> None:
    async def main() -> None:
        async with serve(heartbeat=HEARTBEAT) as broker, peers() as opened:
            broker.partial.limit = 1
            looks = 0
            look = broker.partial.look

            def counted() -> bool:
                nonlocal looks
                looks += 1
                return bool(look())

            broker.partial.look = counted
            attackers = [await opened.open(broker.send_address, "sender", client_id=f"a{k}") for k in range(ATTACKERS)]
            for attacker in attackers:
                attacker.send_bytes(struct.pack(">IH", MAX_FRAME_BYTES, 20) + bytes(2 * LEAST_PROGRESS))
            await until(lambda: broker.partial.waiting == ATTACKERS - IN_TURN)
            sender = Sender(broker.send_address, queue="orders", client_id="honest")
            task = asyncio.ensure_future(Source.from_iterable([bytes(11 * MIB)] * 2).to(sender).run())
            await until(lambda: broker.partial.waiting == ATTACKERS - IN_TURN + 1)
            (mine,) = [each for each in broker.connections.values() if each.client_id == "honest"]
            wire: FrameConnection = mine.connection
            ever = broker._connections.numbers
            wires: list[FrameConnection] = [each.connection for each in broker.connections.values() if each is not mine]
            while not task.done():
                before, seen = wire.bytes_in, looks
                # While it is its turn it brings what it can, whatever the machine has to do besides.
                await until(
                    lambda before=before: task.done() or wire._receiver.stalled or wire.bytes_in >= before + 2 * MIB
                )
                goes_on = [each.bytes_in + LEAST_PROGRESS for each in wires]
                for attacker in attackers:
                    if not attacker._writer.transport.is_closing():
                        attacker.send_bytes(bytes(LEAST_PROGRESS))
                await until(
                    lambda goes_on=goes_on: all(
                        each.bytes_in >= most or each._receiver.stalled or each._closing
                        for each, most in zip(wires, goes_on, strict=True)
                    )
                )
                jump(LOOK_SECONDS)
                await until(lambda seen=seen: task.done() or looks > seen or not broker.partial.waiting)
                assert looks <= 4 * ATTACKERS / IN_TURN, "three looks for each turn before it, and its own"
            assert (await task).messages == 2
            assert broker._connections.numbers == ever, "it did not connect again"
            assert looks > 6 * HEARTBEAT / LOOK_SECONDS / 2, "it stood in line for longer than three heartbeats"

    run(main)
