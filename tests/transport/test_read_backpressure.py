"""A client that says a great deal in tiny frames is read no faster than it is handled."""

from __future__ import annotations

from typing import Any

import pytest

from actors import MessageBatch
from transport.broker_connection import MAX_WAITING, BrokerConnection
from transport.frames import SHARED_BUFFER_BYTES
from transport.wire import Ack, Deliver, Demand, Request, Send, Sent, encode

FRAMES = 200_000


def test_a_flood_of_tiny_frames_waits_in_the_socket_and_is_handled_whole(
    run: Any, serve: Any, peers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 0
    read_no_faster = BrokerConnection._read_no_faster_than_handled

    def noticed(connection: BrokerConnection) -> None:
        nonlocal most
        read_no_faster(connection)
        if connection.actor is not None:
            most = max(most, connection.actor.waiting)

    monkeypatch.setattr(BrokerConnection, "_read_no_faster_than_handled", noticed)

    async def main() -> None:
        async with serve() as broker, peers() as opened:
            receiver = await opened.open(broker.receive_address, "receiver")
            one = b"".join(bytes(part) for part in encode(Request(1, 1)))
            receiver.send_bytes(one * FRAMES)
            receiver.send(Request(3, 1_000_000))
            sender = await opened.open(broker.send_address, "sender")
            await sender.expect(Demand)
            sender.send(Send(0, None, MessageBatch.from_payloads([b"a", b"b", b"c"])))
            await sender.expect(Sent)
            got = 0
            while got < 3:
                delivered = await receiver.expect(Deliver)
                got += len(delivered.batch)
                receiver.send(Ack([(delivered.first, len(delivered.batch))]))
        in_one_receive = SHARED_BUFFER_BYTES // len(one)
        assert in_one_receive < FRAMES / 4, "the flood must be many receives long"
        assert MAX_WAITING < most <= MAX_WAITING + in_one_receive + 1

    run(main)
