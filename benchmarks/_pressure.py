"""The roles of the back-pressure benchmarks: endless senders, and a receiver that takes its time. Each counts at intervals."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from benchmarks._payloads import make_payloads
from benchmarks._worker import Parent, run_loop
from streams import Running, Sink, Source
from transport import Delivery, MessageBatch, Receiver, Sender

POOL = 10_000
Samples = list[tuple[float, int]]
"""(monotonic seconds, count since the start)."""


class Sampler:
    """Notes a count at each interval until it is stopped."""

    def __init__(self, interval: float, count: Callable[[], int]) -> None:
        self._loop = asyncio.get_running_loop()
        self._interval = interval
        self._count = count
        self.samples: Samples = []
        self._handle: asyncio.TimerHandle | None = None
        self._note()

    def _note(self) -> None:
        self.samples.append((time.monotonic(), self._count()))
        self._handle = self._loop.call_later(self._interval, self._note)

    def stop(self) -> Samples:
        """The samples; no more are taken."""
        if self._handle is not None:
            self._handle.cancel()
        return self.samples


def send_endlessly(parent: Parent, address: str, queue: str, size: int, interval: float, uvloop: bool) -> None:
    """Send as fast as demand allows until told to stop; what is counted is what the sender has pulled from its source."""
    payloads = make_payloads(POOL, size)
    pulled = 0

    def elements() -> Iterator[bytes]:
        nonlocal pulled
        for payload in itertools.cycle(payloads):
            pulled += 1
            yield payload

    async def run() -> Samples:
        running = Source.from_iterable(elements).to(Sender(address, queue=queue)).run()
        return await _sampled(parent, running, interval, lambda: pulled)

    parent.say(ready=True)
    parent.wait()
    samples = run_loop(run(), uvloop)
    parent.say(samples=samples)


def send_offered(
    parent: Parent, address: str, queue: str, rate: float, size: int, batch: int, interval: float, uvloop: bool
) -> None:
    """Offer ``rate`` numbered messages a second until told to stop, then wait until all that was taken is confirmed.

    A payload is its message's number from zero on, in decimal with leading zeros. What demand holds back is not made up for later.
    """
    pulled = 0
    ended = False

    async def batches() -> AsyncIterator[MessageBatch]:
        nonlocal pulled
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not ended:
            due = max(due + batch / rate, loop.time())
            await asyncio.sleep(due - loop.time())
            payloads = [b"%0*d" % (size, number) for number in range(pulled, pulled + batch)]
            pulled += batch
            yield MessageBatch.from_payloads(payloads)

    async def run() -> tuple[Samples, int]:
        nonlocal ended
        running = Source.from_async_iterable(batches).to(Sender(address, queue=queue)).run()
        sampler = Sampler(interval, lambda: pulled)
        await parent.told()
        samples = sampler.stop()
        ended = True
        return samples, (await running).messages

    parent.say(ready=True)
    parent.wait()
    samples, messages = run_loop(run(), uvloop)
    parent.say(samples=samples, messages=messages)


def receive_slowly(
    parent: Parent, address: str, queue: str, rate: float, max_in_flight: int, interval: float, uvloop: bool
) -> None:
    """Handle ``rate`` messages a second, on an absolute schedule, until told to stop; what is counted is what is acknowledged."""
    acknowledged = 0

    async def run() -> Samples:
        loop = asyncio.get_running_loop()
        due = loop.time()

        async def handle(delivery: Delivery) -> Delivery:
            nonlocal due
            due = max(due + 1 / rate, loop.time())
            await asyncio.sleep(due - loop.time())
            return delivery

        def note(delivery: Delivery) -> None:
            nonlocal acknowledged
            delivery.acknowledge()
            acknowledged += 1

        receiver = Receiver(address, queue=queue, max_in_flight=max_in_flight)
        running = receiver.map_async(1, handle).to(Sink.foreach(note)).run()
        return await _sampled(parent, running, interval, lambda: acknowledged)

    parent.say(ready=True)
    parent.wait()
    samples = run_loop(run(), uvloop)
    parent.say(samples=samples)


async def _sampled(parent: Parent, running: Running[Any], interval: float, count: Callable[[], int]) -> Samples:
    """Sample until the parent says stop; a stream that ends before that has failed."""
    sampler = Sampler(interval, count)
    ended = await until_told(parent, running)
    samples = sampler.stop()
    await cancelled(running, ended)
    return samples


async def until_told(parent: Parent, running: Running[Any]) -> asyncio.Future[Any]:
    """Wait until the parent says stop; a stream that ends before that has failed. What is returned is done when it ends."""
    told = asyncio.create_task(parent.told())
    ended = asyncio.ensure_future(running)
    await asyncio.wait((told, ended), return_when=asyncio.FIRST_COMPLETED)
    if ended.done():
        ended.result()
        raise RuntimeError("an endless stream has ended")
    return ended


async def cancelled(running: Running[Any], ended: asyncio.Future[Any]) -> None:
    """End a stream as it is, and wait until it has."""
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await ended
