"""The roles of a pair that works until it is told to stop: a sender as fast as demand allows, and a receiver that keeps up with it."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks._payloads import batches, make_payloads
from benchmarks._pressure import Sampler, Samples, cancelled, until_told
from benchmarks._worker import Parent, run_loop
from streams import Sink, Source
from transport import DeliveredBatch, MessageBatch, Receiver, Sender
from transport.clients.sender_session import Confirmation

POOL = 10_000
"""Payloads that it goes round in, or about ``POOL_BYTES`` of large ones."""


def send_steadily(
    parent: Parent, address: str, queue: str, size: int, batch: int, interval: float, uvloop: bool
) -> None:
    """Send batches until told to stop, then wait until all of them are confirmed; what is counted is what was confirmed."""
    payloads = make_payloads(POOL, size)
    confirmed = 0
    over = False

    def elements() -> Iterator[MessageBatch]:
        while True:
            for each in batches(payloads, len(payloads), batch):
                if over:
                    return
                yield each

    def note(confirmation: Confirmation) -> None:
        nonlocal confirmed
        confirmed += confirmation.count

    async def run() -> Samples:
        nonlocal over
        sender = Sender(address, queue=queue, max_batch_messages=batch)
        running = Source.from_iterable(elements).via(sender).to(Sink.foreach(note)).run()
        sampler = Sampler(interval, lambda: confirmed)
        ended = await until_told(parent, running)
        over = True
        await ended
        return sampler.stop()

    parent.say(ready=True)
    parent.wait()
    samples = run_loop(run(), uvloop)
    parent.say(samples=samples, messages=confirmed)


def receive_steadily(parent: Parent, address: str, queue: str, interval: float, uvloop: bool) -> None:
    """Receive and acknowledge batches until told to stop; what is counted is what has come."""
    received = 0

    def take(delivered: DeliveredBatch) -> None:
        nonlocal received
        received += len(delivered)
        delivered.acknowledge()

    async def run() -> Samples:
        running = Receiver(address, queue=queue).batches().to(Sink.foreach(take)).run()
        sampler = Sampler(interval, lambda: received)
        ended = await until_told(parent, running)
        await cancelled(running, ended)
        return sampler.stop()

    parent.say(ready=True)
    parent.wait()
    samples = run_loop(run(), uvloop)
    parent.say(samples=samples, messages=received)
