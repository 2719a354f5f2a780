"""The roles of sender and receiver in ``delays``: each message carries its number and the time at which it is due."""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
import time
from collections.abc import Iterator
from typing import Any

from benchmarks._worker import Parent, run_loop
from streams import Sink, Source
from transport import DeliveredBatch, MessageBatch, Receiver, Sender, Timed, TransportError
from transport.clients.sender import SendSummary

DUE = struct.Struct("<Qd")
YEAR_SECONDS = 365 * 24 * 3600
SOON_SECONDS = 600.0
"""What is not measured is due this much later than what is, at least."""


def due_times(messages: int, measured: int, rate: float, begin: float) -> Iterator[tuple[int, float]]:
    """Numbers and times: ``measured`` of them evenly from ``begin`` on, the rest anywhere within a year, all in no order."""
    chance = random.Random(messages)
    numbers = list(range(measured))
    chance.shuffle(numbers)
    every = max(1, messages // max(1, measured))
    later = begin + measured / rate + SOON_SECONDS
    for number in range(messages):
        at, rest = divmod(number, every)
        if not rest and at < measured:
            yield numbers[at], begin + numbers[at] / rate
        else:
            yield measured + number, later + chance.random() * YEAR_SECONDS


def send(
    parent: Parent,
    address: str,
    queue: str,
    messages: int,
    measured: int,
    rate: float,
    begin: float,
    size: int,
    batch: int,
) -> None:
    """Send all of them, those that are measured each with its own time, the others in batches; says how long that took."""
    rest = bytes(max(0, size - DUE.size))

    def elements() -> Iterator[Timed[Any]]:
        others: list[bytes] = []
        for number, due in due_times(messages, measured, rate, begin):
            payload = DUE.pack(number, due) + rest
            if number < measured or batch == 1:
                yield Timed(payload, deliver_at=due)
                continue
            others.append(payload)
            if len(others) == batch:
                yield Timed(MessageBatch.from_payloads(others), deliver_at=due)
                others = []
        if others:
            yield Timed(MessageBatch.from_payloads(others), deliver_at=due)

    async def run() -> SendSummary:
        return await Source.from_iterable(elements).to(Sender(address, queue=queue)).run()

    parent.say(ready=True)
    parent.wait()
    started = time.monotonic()
    summary = run_loop(run(), uvloop=True)
    parent.say(messages=summary.messages, seconds=time.monotonic() - started)


def receive(parent: Parent, address: str, queue: str, seconds: float) -> None:
    """Receive for so long, or until the broker is killed; says of each message its number, when it was due, and when it came."""
    came: list[tuple[int, float, float]] = []

    def take(delivered: DeliveredBatch) -> None:
        now = time.time()
        for payload in delivered.batch.payloads:
            number, due = DUE.unpack_from(payload)
            came.append((number, due, now))
        delivered.acknowledge()

    async def run() -> None:
        with contextlib.suppress(TimeoutError, TransportError):
            async with asyncio.timeout(seconds):
                await Receiver(address, queue=queue).batches().to(Sink.foreach(take)).run()

    parent.say(ready=True)
    parent.wait()
    run_loop(run(), uvloop=True)
    parent.say(came=came)
