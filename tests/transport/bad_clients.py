"""What bad clients send, and bystanders who must notice nothing of it."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgpack

from actors.batch import MessageBatch
from transport.wire.codec import encode
from transport.wire.messages import (
    Ack,
    Deliver,
    Demand,
    Frame,
    Request,
    Send,
    Sent,
)

PORTS = ["sending", "receiving"]

BATCH = MessageBatch.from_payloads([b"x"])

MIB = 1024 * 1024


def address(broker: Any, port: str) -> str:
    found: str = broker.send_address if port == "sending" else broker.receive_address
    return found


def role_of(port: str) -> str:
    return "sender" if port == "sending" else "receiver"


def frame_bytes(header: Any, body: bytes = b"") -> bytes:
    """A frame around any header, whatever the protocol says of it."""
    packed = header if isinstance(header, bytes) else msgpack.packb(header)
    return struct.pack(">IH", 6 + len(packed) + len(body), len(packed)) + packed + body


def encoded(frame: Frame) -> bytes:
    return b"".join(bytes(part) for part in encode(frame))


class Bystanders:
    """A sender and a receiver on the same broker that must not notice anything."""

    def __init__(self, sender: Any, receiver: Any) -> None:
        self.sender = sender
        self.receiver = receiver
        self.sent = 0

    async def go_on(self) -> None:
        """One message through, from send to acknowledgement."""
        payload = b"message %d" % self.sent
        self.sender.send(Send(self.sent, None, MessageBatch.from_payloads([payload])))
        confirmed = await self.sender.expect_later(Sent)
        assert confirmed == Sent(self.sent + 1, self.sent)
        delivered = await self.receiver.expect(Deliver)
        assert (delivered.first, delivered.batch.payloads.tolist()) == (self.sent, [payload])
        self.receiver.send(Ack([(self.sent, 1)]))
        self.sent += 1


@asynccontextmanager
async def bystanders(broker: Any, peers: Any) -> AsyncIterator[Bystanders]:
    sender = await peers.open(broker.send_address, "sender", "bystanders", "bystander")
    receiver = await peers.open(broker.receive_address, "receiver", "bystanders", "bystander")
    receiver.send(Request(1000, MIB))
    await sender.expect(Demand)
    pair = Bystanders(sender, receiver)
    await pair.go_on()
    yield pair
    await pair.go_on()
    assert {connection.queue for connection in broker.connections.values()} >= {"bystanders"}
