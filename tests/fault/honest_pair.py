"""A sender and a receiver that behave, and what they see: latencies, and how long others take to be let in.

``python -m tests.fault.honest_pair SEND RECEIVE RATE`` sends on a schedule. For each line on its input it writes one of JSON: the
percentiles of what was received since the last one, in milliseconds, and the longest handshake.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
import sys
import time
from typing import Protocol

from streams import Sink, Source
from streams.testkit import settle
from tests.fault.attacks import Raw
from transport import Receiver, Sender

QUEUE = "honest"
STAMP = struct.Struct("<d")
HANDSHAKE_EVERY = 0.25
"""Seconds between two strangers that connect."""
HANDSHAKE_ROLES = ("receiver", "sender", "admin")


class Pair:
    """The two, and what they have measured since it was last asked for."""

    def __init__(self, send_address: str, receive_address: str, rate: float) -> None:
        self._addresses = send_address, receive_address
        self._interval = 1 / rate
        self._latencies: list[float] = []
        self._handshakes: list[float] = []
        self._sent = 0

    async def run(self) -> None:
        """Send and receive until cancelled."""
        await asyncio.gather(self._send(), self._receive(), self._knock())

    def measured(self) -> dict[str, float]:
        """The figures since the last call."""
        latencies, self._latencies = sorted(self._latencies), []
        handshakes, self._handshakes = self._handshakes, []

        def share(part: float) -> float:
            return round(latencies[int(part * (len(latencies) - 1))] * 1000, 3) if latencies else float("nan")

        return {
            "messages": len(latencies),
            "p50_ms": share(0.5),
            "p99_ms": share(0.99),
            "max_ms": share(1.0),
            "handshakes": len(handshakes),
            "handshake_ms": round(max(handshakes, default=0.0) * 1000, 3),
        }

    async def _send(self) -> None:
        source = Source.queue(100_000)
        sending = source.to(Sender(self._addresses[0], queue=QUEUE)).run()
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not sending.done():
            now = loop.time()
            while due <= now:
                # When it was to be sent: a late sender does not hide that others wait.
                sending.value.offer(STAMP.pack(time.monotonic() - (now - due)))
                due += self._interval
            await settle(due - now)

    async def _receive(self) -> None:
        def note(delivery: object) -> object:
            self._latencies.append(time.monotonic() - STAMP.unpack(delivery.payload)[0])  # type: ignore[attr-defined]  # a Delivery
            return delivery

        await Receiver(self._addresses[1], queue=QUEUE).map(note).to(Sink.acknowledge()).run()

    async def _knock(self) -> None:
        number = 0
        while True:
            role = HANDSHAKE_ROLES[number % len(HANDSHAKE_ROLES)]
            number += 1
            began = time.monotonic()
            address = self._addresses[1 if role == "receiver" else 0]
            queue = None if role == "admin" else "knocked"
            raw = await Raw.open(address, role, queue, f"stranger-{number}")
            self._handshakes.append(time.monotonic() - began)
            raw.close()
            await settle(HANDSHAKE_EVERY)


class Measuring(Protocol):
    """Clients that run until they are ended, and what they have measured since they were asked last."""

    async def run(self) -> None:
        """Be there, and be slow for nobody."""

    def measured(self) -> dict[str, float]:
        """As JSON has it."""


async def answer(pair: Measuring) -> None:
    """Have them run, and print what they have measured for each line that is read, until there are no more."""
    work = asyncio.create_task(pair.run())
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while True:
        line = asyncio.create_task(lines.readline())
        await asyncio.wait((line, work), return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            line.cancel()
            await work
            return
        if not await line:
            break
        print(json.dumps(pair.measured()), flush=True)
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work


async def main() -> None:
    """The process."""
    send_address, receive_address, rate = sys.argv[1:]
    pair = Pair(send_address, receive_address, float(rate))
    await answer(pair)


if __name__ == "__main__":
    asyncio.run(main())
