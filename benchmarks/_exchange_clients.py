"""The roles of the benchmark of exchanges: one that publishes, with the keys that it is told, and one that drains several queues."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from actors.batch import BinaryColumn, MessageBatch
from benchmarks._payloads import make_payloads
from benchmarks._worker import Parent, run_loop
from streams import Sink, Source
from transport import DeliveredBatch, Receiver, Sender
from transport.clients.sender import SendSummary


def publish(
    parent: Parent,
    address: str,
    to: dict[str, Any],
    messages: int,
    size: int,
    batch: int,
    keys: int,
    uvloop: bool,
) -> None:
    """Publish ``messages`` in batches that are made before the clock runs.

    ``to`` is what a `Sender` is given: a queue, or an exchange and a routing key. The messages have ``keys`` keys in turn, each its own
    where that is 0, and none where it is less.
    """
    batches = list(_batches(messages, size, batch, keys))
    sender = Sender(address, **to, max_batch_messages=batch)

    async def run() -> SendSummary:
        return await Source.from_iterable(batches).to(sender).run()

    parent.say(ready=True)
    while parent.wait() is not None:
        started, cpu = time.monotonic(), time.process_time()
        summary = run_loop(run(), uvloop)
        parent.say(started=started, ended=time.monotonic(), messages=summary.messages, cpu_s=time.process_time() - cpu)


def _batches(messages: int, size: int, batch: int, keys: int) -> list[MessageBatch]:
    payloads = make_payloads(messages, size)
    found = []
    for start in range(0, messages, batch):
        stop = min(messages, start + batch)
        data = BinaryColumn.from_values([payloads[number % len(payloads)] for number in range(start, stop)])
        column = None
        if keys >= 0:
            numbers = (number % keys if keys else number for number in range(start, stop))
            column = BinaryColumn.from_values([b"k.%d" % number for number in numbers])
        found.append(MessageBatch(data, None, column))
    return found


def drain(parent: Parent, address: str, queues: list[str], messages: int, max_in_flight: int, uvloop: bool) -> None:
    """Receive and acknowledge ``messages`` of each queue, in batches; says when the broker has taken note of the last."""
    counts = dict.fromkeys(queues, 0)

    async def take(queue: str) -> None:
        def count(delivered: DeliveredBatch) -> None:
            counts[queue] += len(delivered.batch)
            delivered.acknowledge()

        receiver = Receiver(address, queue=queue, max_in_flight=max_in_flight, limit=messages)
        await receiver.batches().to(Sink.foreach(count)).run()

    async def run() -> None:
        await asyncio.gather(*(take(queue) for queue in queues))

    parent.say(ready=True)
    parent.wait()
    cpu = time.process_time()
    run_loop(run(), uvloop)
    parent.say(ended=time.monotonic(), counts=counts, cpu_s=time.process_time() - cpu)
