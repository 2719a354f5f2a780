"""The role of the groups benchmark: receivers of a queue, and a sender that puts in as much as they have taken."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

from actors.batch import Message, MessageBatch
from benchmarks._worker import Parent, run_loop
from streams import Sink, Source
from transport import Administration, DeliveredBatch, Receiver, Sender

BATCH = 1_000
BLOCKED = "blocked"


def exchange(
    parent: Parent,
    send_address: str,
    receive_address: str,
    queue: str,
    grouped: bool,
    groups: int,
    backlog: int,
    blocked: int,
    receivers: int,
    max_in_flight: int,
    moved: int,
    size: int,
    uvloop: bool,
) -> None:
    """Fill a queue with a backlog, in front of it some of one group of which another receiver holds the first; then move messages.

    Says how long that took from the moment that the receivers begin to connect.
    """

    async def run() -> dict[str, Any]:
        async with Administration(send_address) as administration:
            await administration.create_queue(queue, max_messages=0, max_bytes=0, groups=grouped)
        payload, holding = b"x" * size, Holding()
        holder = (
            Receiver(receive_address, queue=queue, max_in_flight=1, deadline=False).to(Sink.foreach(holding.take)).run()
        )
        await send(of_one(payload, 1, BLOCKED))
        await holding.has_it.wait()
        await send(of_one(payload, blocked, BLOCKED))
        await send(of_many(payload, backlog, groups))
        moving = Moving(moved, asyncio.Event())
        taking = [
            Receiver(receive_address, queue=queue, max_in_flight=max_in_flight)
            .batches()
            .to(Sink.foreach(moving.take))
            .run()
            for _ in range(receivers)
        ]
        feeding = asyncio.ensure_future(send(moving.fed(payload, groups)))
        started = time.monotonic()
        await moving.ended.wait()
        seconds = time.monotonic() - started
        feeding.cancel()
        for running in (holder, *taking):
            running.cancel()
        await asyncio.gather(feeding, holder, *taking, return_exceptions=True)
        return {"seconds": seconds, "messages": moving.taken, "deliveries": moving.deliveries}

    async def send(found: Any) -> None:
        source: Source[Any] = (
            Source.from_iterable(found) if isinstance(found, list) else Source.from_async_iterable(found)
        )
        await source.to(Sender(send_address, queue=queue)).run()

    parent.say(ready=True)
    parent.wait()
    parent.say(**run_loop(run(), uvloop))


@dataclass
class Holding:
    """What one receiver keeps."""

    has_it: asyncio.Event = field(default_factory=asyncio.Event)
    kept: list[Any] = field(default_factory=list)

    def take(self, delivery: Any) -> None:
        """Have a message, and say nothing of it."""
        self.kept.append(delivery)
        self.has_it.set()


@dataclass
class Moving:
    """How far it is."""

    moved: int
    ended: asyncio.Event
    taken: int = 0
    deliveries: int = 0
    more: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, delivered: DeliveredBatch) -> None:
        """Acknowledge a batch."""
        self.taken += len(delivered)
        self.deliveries += 1
        delivered.acknowledge()
        self.more.set()
        if self.taken >= self.moved:
            self.ended.set()

    async def fed(self, payload: bytes, groups: int) -> AsyncIterator[MessageBatch]:
        """A batch for each that was taken."""
        batches, sent = list(_batches(payload, groups)), 0
        while True:
            while self.taken < sent + BATCH:
                self.more.clear()
                await self.more.wait()
            yield batches[sent // BATCH % len(batches)]
            sent += BATCH


def of_one(payload: bytes, count: int, group: str) -> list[MessageBatch]:
    """So many messages of one group."""
    messages = [Message(payload, group=group)] * min(count, BATCH)
    return [MessageBatch.from_messages(messages[: count - at]) for at in range(0, count, BATCH)]


def of_many(payload: bytes, count: int, groups: int) -> list[MessageBatch]:
    """So many messages, each of the next group."""
    batches = list(_batches(payload, groups))
    return [batches[at // BATCH % len(batches)].slice(0, min(BATCH, count - at)) for at in range(0, count, BATCH)]


def _batches(payload: bytes, groups: int) -> Iterator[MessageBatch]:
    for first in range(0, max(groups, BATCH), BATCH):
        names = [f"g{(first + at) % groups}" for at in range(BATCH)]
        yield MessageBatch.from_messages([Message(payload, group=name) for name in names])
