"""Batches, commands and senders, for tests of the broker."""

from __future__ import annotations

import json
from typing import Any

from actors.batch import MessageBatch
from transport.wire.messages import (
    Command,
    Demand,
    Result,
    Send,
    Sent,
)

MIB = 1 << 20


def batch(*payloads: bytes) -> MessageBatch:
    return MessageBatch.from_payloads(list(payloads))


async def command(admin: Any, command_name: str, /, **arguments: Any) -> Any:
    admin.send(Command(1, command_name, arguments))
    return json.loads((await admin.expect(Result)).json)


async def sender_with(peers: Any, broker: Any, *payloads: bytes, queue: str = "orders", client_id: str = "c") -> Any:
    """A sender whose messages are stored, each in a batch of its own."""
    sender = await peers.open(broker.send_address, "sender", queue, client_id)
    await sender.expect(Demand)
    for number, payload in enumerate(payloads):
        sender.send(Send(number, None, batch(payload)))
        await sender.expect_later(Sent)
    return sender
