"""The roles of sender and receiver in the throughput benchmarks: the product's own clients, as an application uses them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from benchmarks._payloads import batches, cycled, make_payloads
from benchmarks._worker import Parent, run_loop
from streams import Sink, Source
from transport import DeliveredBatch, MessageBatch, Receiver, Sender, Timed
from transport.clients.sender import SendSummary

LEVELS = 10
"""Priorities of what is sent by `send_levels`, batches of each in turn."""


def send(
    parent: Parent, address: str, queue: str, messages: int, size: int, batch: int, batched: bool, uvloop: bool
) -> None:
    """Send ``messages`` payloads: in batches built from payload objects while the clock runs, or one at a time.

    Says when it began and when the last one was confirmed.
    """
    payloads = make_payloads(messages, size)
    source: Source[Any] = (
        Source.from_iterable(lambda: batches(payloads, messages, batch))
        if batched
        else Source.from_iterable(lambda: cycled(payloads, messages))
    )
    _send(parent, source, address, queue, batch, uvloop)


def send_levels(
    parent: Parent, address: str, queue: str, messages: int, size: int, batch: int, batched: bool, uvloop: bool
) -> None:
    """The same in batches of ten priorities, each in turn, the highest first: the first message is the first that a receiver has."""
    if not batched:
        raise ValueError("single messages of many priorities are not sent")
    payloads = make_payloads(messages, size)

    def elements() -> Iterator[Timed[MessageBatch]]:
        for number, one in enumerate(batches(payloads, messages, batch)):
            yield Timed(one, priority=LEVELS - 1 - number % LEVELS)

    _send(parent, Source.from_iterable(elements), address, queue, batch, uvloop)


def _send(parent: Parent, source: Source[Any], address: str, queue: str, batch: int, uvloop: bool) -> None:
    async def run() -> SendSummary:
        return await source.to(Sender(address, queue=queue, max_batch_messages=batch)).run()

    parent.say(ready=True)
    parent.wait()
    started, cpu = time.monotonic(), time.process_time()
    summary = run_loop(run(), uvloop)
    parent.say(
        started=started,
        ended=time.monotonic(),
        messages=summary.messages,
        resent=summary.resent,
        cpu_s=time.process_time() - cpu,
    )


def receive_first(parent: Parent, queue: str, uvloop: bool) -> None:
    """Wait for a broker's address, connect there, and say when the first delivery has come; it goes back unacknowledged."""

    def stamped(delivered: DeliveredBatch) -> tuple[float, DeliveredBatch]:
        return time.monotonic(), delivered

    async def run(address: str) -> tuple[float, DeliveredBatch]:
        return await Receiver(address, queue=queue).batches().map(stamped).to(Sink.head()).run()

    parent.say(ready=True)
    told = parent.wait()
    if told is not None:
        came, delivered = run_loop(run(told["address"]), uvloop)
        parent.say(came=came, first=delivered.first, messages=len(delivered))


def receive(
    parent: Parent, address: str, queue: str, messages: int, max_in_flight: int, batched: bool, uvloop: bool
) -> None:
    """Receive and acknowledge ``messages``, as batches or each as an object; says when the broker has taken note of the last."""
    receiver = Receiver(address, queue=queue, max_in_flight=max_in_flight, limit=messages)
    counts = [0, 0]

    def take(delivered: DeliveredBatch) -> None:
        counts[0] += len(delivered.batch)
        counts[1] += len(delivered.batch.payloads.data)
        delivered.acknowledge()

    async def run() -> int:
        if batched:
            return await receiver.batches().to(Sink.foreach(take)).run()
        return await receiver.to(Sink.acknowledge()).run()

    parent.say(ready=True)
    parent.wait()
    cpu = time.process_time()
    elements = run_loop(run(), uvloop)
    parent.say(
        ended=time.monotonic(),
        messages=counts[0] if batched else elements,
        elements=elements,
        bytes=counts[1],
        cpu_s=time.process_time() - cpu,
    )
