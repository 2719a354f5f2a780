"""Messages on a fixed schedule: the paced sender and the timing receiver, through a broker and through a bare relay.

A payload begins with the time at which it was to be sent, CLOCK_MONOTONIC in nanoseconds, which all processes of a machine share. A
late sender does not move the schedule, so its lateness counts as latency: nothing is omitted when something stalls.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
import struct
import time
from array import array
from collections.abc import Callable
from typing import Any

from benchmarks._worker import Parent, run_loop
from streams import Sink, Source, SourceQueue
from transport import Delivery, MessageBatch, Receiver, Sender, parse_address
from transport.clients.sender_session import Confirmation
from transport.wire.codec import decode, encode
from transport.wire.frames import MAX_FRAME_BYTES, FrameDecoder
from transport.wire.messages import Send

STAMP = struct.Struct("<q")
WAITING = 100_000
"""Payloads that wait in the sender for demand, at most: more than a minute's at the default rate."""
FIRST_DELAY = 0.05
"""Seconds from the start to the first message."""
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}

Emit = Callable[[bytes], None]


class Pacer:
    """Emits ``count`` payloads of ``size`` bytes, ``rate`` a second, at absolute times.

    Attributes:
        lateness: how late each was emitted, nanoseconds.
        done: resolved after the last; fails when the emitter has no more room.
    """

    def __init__(self, rate: float, count: int, size: int, emit: Emit) -> None:
        self._loop = asyncio.get_running_loop()
        self._interval = 1 / rate
        self._start = self._loop.time() + FIRST_DELAY
        self._count = count
        self._padding = bytes(max(0, size - STAMP.size))
        self._emit = emit
        self._emitted = 0
        self.lateness = array("q")
        self.done: asyncio.Future[None] = self._loop.create_future()
        self._loop.call_at(self._start, self._tick)

    def due(self, number: int) -> float:
        """When payload ``number`` is, or was, to be emitted: monotonic seconds."""
        return self._start + number * self._interval

    def _tick(self) -> None:
        """Emit everything that is due."""
        while self._emitted < self._count:
            due = self.due(self._emitted)
            now = time.monotonic()
            if due > now:
                self._loop.call_at(due, self._tick)
                return
            self._emitted += 1
            self.lateness.append(int((now - due) * 1e9))
            try:
                self._emit(STAMP.pack(int(due * 1e9)) + self._padding)
            except OverflowError as error:
                self.done.set_exception(error)
                return
        self.done.set_result(None)


def precise_loop() -> asyncio.AbstractEventLoop:
    """A loop whose timers are exact to about 0.1 ms; those of epoll, and uvloop's, are whole milliseconds."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


def send_paced(parent: Parent, address: str, queue: str, rate: float, count: int, size: int) -> None:
    """Send on schedule through a `Sender`."""

    async def run() -> None:
        running = Source.queue(WAITING).to(Sender(address, queue=queue)).run()
        source: SourceQueue[bytes] = running.value

        def emit(payload: bytes) -> None:
            if not source.offer(payload):
                raise OverflowError(f"{WAITING} messages wait for demand: the broker cannot keep up with the rate")

        parent.say(ready=True)
        await parent.told()
        pacer = Pacer(rate, count, size, emit)
        await pacer.done
        source.complete()
        summary = await running
        parent.say(messages=summary.messages, lateness_us=spread(pacer.lateness))

    _run_precise(run())


def send_paced_confirmed(
    parent: Parent, address: str, queue: str, rate: float, count: int, size: int, skip: int
) -> None:
    """Send on schedule, and time the confirmations; ``skip`` first ones do not count."""
    latencies = array("q")
    pacer: Pacer | None = None

    def confirmed(confirmation: Confirmation) -> None:
        assert pacer is not None, "nothing was sent before"
        now = time.monotonic()
        numbers = range(confirmation.sequence, confirmation.sequence + confirmation.count)
        latencies.extend([int((now - pacer.due(number)) * 1e9) for number in numbers])

    async def run() -> None:
        nonlocal pacer
        running = Source.queue(WAITING).via(Sender(address, queue=queue)).to(Sink.foreach(confirmed)).run()
        source: SourceQueue[bytes] = running.value

        def emit(payload: bytes) -> None:
            if not source.offer(payload):
                raise OverflowError(f"{WAITING} messages wait for demand: the broker cannot keep up with the rate")

        parent.say(ready=True)
        await parent.told()
        pacer = Pacer(rate, count, size, emit)
        await pacer.done
        source.complete()
        await running
        lateness = spread(pacer.lateness[skip:])
        parent.say(messages=len(latencies), lateness_us=lateness, latency_us=spread(latencies[skip:]))

    _run_precise(run())


def receive_timed(
    parent: Parent, address: str, queue: str, count: int, skip: int, max_in_flight: int, uvloop: bool
) -> None:
    """Acknowledge each message as it is handed over; ``skip`` first ones do not count."""
    latencies = array("q")

    def take(delivery: Delivery) -> None:
        latencies.append(time.monotonic_ns() - STAMP.unpack_from(delivery.payload)[0])
        delivery.acknowledge()

    async def run() -> int:
        receiver = Receiver(address, queue=queue, max_in_flight=max_in_flight, limit=count)
        return await receiver.to(Sink.foreach(take)).run()

    parent.say(ready=True)
    messages = run_loop(run(), uvloop)
    parent.say(messages=messages, latency_us=spread(latencies[skip:]))


def write_paced(parent: Parent, address: str, rate: float, count: int, size: int) -> None:
    """The same schedule, each payload a frame written to a bare transport."""

    async def run() -> None:
        parsed = parse_address(address)
        transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, parsed.host, parsed.port)
        sequence = 0

        def emit(payload: bytes) -> None:
            nonlocal sequence
            transport.writelines(encode(Send(sequence, None, MessageBatch.from_payloads([payload]))))
            sequence += 1

        parent.say(ready=True)
        await parent.told()
        pacer = Pacer(rate, count, size, emit)
        await pacer.done
        transport.close()
        parent.say(messages=sequence, lateness_us=spread(pacer.lateness))

    _run_precise(run())


class _TimedProtocol(asyncio.BufferedProtocol):
    """Decodes frames and notes how old they are."""

    def __init__(self) -> None:
        self._decoder = FrameDecoder(MAX_FRAME_BYTES)
        self.latencies = array("q")
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        return self._decoder.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._decoder.received(nbytes)
        for raw in iter(self._decoder.next_frame, None):
            frame = decode(raw)
            assert isinstance(frame, Send), "nothing else is written"
            stamp = STAMP.unpack_from(frame.batch.payloads[0])[0]
            self.latencies.append(time.monotonic_ns() - stamp)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self.ended.set_result(None)


def read_timed(parent: Parent, address: str, skip: int, uvloop: bool) -> None:
    """Time each frame to the end of the stream."""

    async def run() -> array[int]:
        parsed = parse_address(address)
        _, protocol = await asyncio.get_running_loop().create_connection(_TimedProtocol, parsed.host, parsed.port)
        parent.say(ready=True)
        await protocol.ended
        return protocol.latencies

    latencies = run_loop(run(), uvloop)
    parent.say(messages=len(latencies), latency_us=spread(latencies[skip:]))


def _run_precise(main: Any) -> None:
    with asyncio.Runner(loop_factory=precise_loop) as runner:
        runner.run(main)


def spread(nanoseconds: array[int]) -> dict[str, float]:
    """Percentiles and maximum of what is not sorted yet, in microseconds."""
    ordered = sorted(nanoseconds)
    last = len(ordered) - 1
    spread = {name: ordered[min(last, int(share * len(ordered)))] / 1000 for name, share in SHARES.items()}
    return spread | {"max": ordered[last] / 1000}
