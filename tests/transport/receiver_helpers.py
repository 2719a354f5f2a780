"""Queues that are filled and looked at, for tests of receivers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from streams import Source
from transport import (
    Delivery,
    Sender,
)
from transport.wire.messages import Command, Result


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"message %d" % number for number in range(start, start + count)]


async def fill(broker: Any, count: int, queue: str = "orders", batch: int = 1000) -> None:
    sender = Sender(broker.send_address, queue=queue, max_batch_messages=batch)
    await Source.from_iterable(numbered(count)).to(sender).run()


def noting(payloads: list[bytes]) -> Callable[[Delivery], Delivery]:
    """A step that keeps the payloads that go through it."""

    def note(delivery: Delivery) -> Delivery:
        payloads.append(delivery.payload)
        return delivery

    return note


async def row(broker: Any, peers: Any, queue: str = "orders") -> dict[str, Any]:
    """The queue's statistics."""
    async with peers() as opened:
        admin = await opened.open(broker.send_address, "admin", None)
        admin.send(Command(1, "queue.list", {}))
        answer = await admin.expect(Result)
    found: dict[str, Any] = next(entry for entry in json.loads(answer.json) if entry["name"] == queue)
    return found
