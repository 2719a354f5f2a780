"""Sources that count, and what a queue has stored, for tests of senders."""

from __future__ import annotations

from typing import Any

from streams.testkit import settle
from transport import (
    Backoff,
)
from transport.wire.messages import (
    Ack,
    Deliver,
    Request,
)

QUICK = Backoff(minimum=0.001, maximum=0.01, give_up_after=15.0)


def numbered(count: int) -> list[bytes]:
    return [b"message %d" % number for number in range(count)]


async def stored(broker: Any, peers: Any, count: int, queue: str = "orders") -> list[bytes]:
    """Take ``count`` messages, see that there are no more, and leave none."""
    payloads: list[bytes] = []
    async with peers() as opened:
        receiver = await opened.open(broker.receive_address, "receiver", queue)
        receiver.send(Request(10_000_000, 1 << 40))
        while len(payloads) < count:
            delivered = await receiver.expect(Deliver)
            payloads += delivered.batch.payloads.tolist()
            receiver.send(Ack([(delivered.first, len(delivered.batch))]))
        assert broker.queues.get(queue) is not None
        await settle()
    assert len(payloads) == count
    return payloads
