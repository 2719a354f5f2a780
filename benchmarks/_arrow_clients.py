"""The roles of sender and receiver in the benchmark `arrow`: an application whose data is Arrow's, and one that has payload objects."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from benchmarks._payloads import batches, make_payloads
from benchmarks._worker import Parent, run_loop
from streams import Sink, Source
from transport import DeliveredBatch, Receiver, Sender, SendSummary
from transport.clients.arrow import ArrowDelivery  # loads what Arrow takes, before the clock runs

MAX_IN_FLIGHT_BYTES = 32 * 1024 * 1024
"""The receiver's, in every form; `receive_arrow` has the same."""


def send_arrow(parent: Parent, messages: int, size: int, batch: int, **where: Any) -> None:
    """Send ``messages`` payloads in record batches of ``batch`` rows, which the application has."""
    payloads = make_payloads(messages, size)
    ready = [pa.record_batch({"payload": payloads[start : start + batch]}) for start in range(0, len(payloads), batch)]
    _send(parent, lambda: _cycled(ready, messages), arrow=True, **where)


def send_objects(parent: Parent, messages: int, size: int, batch: int, **where: Any) -> None:
    """Send ``messages`` payloads in batches of ``batch``, built from payload objects while the clock runs."""
    payloads = make_payloads(messages, size)
    _send(parent, lambda: batches(payloads, messages, batch), arrow=False, **where)


def receive_arrow(parent: Parent, messages: int, **where: Any) -> None:
    """Receive and acknowledge ``messages`` as record batches of all columns."""
    counts = [0, 0]

    def take(delivery: ArrowDelivery) -> None:
        counts[0] += delivery.records.num_rows
        counts[1] += delivery.records["payload"].nbytes
        delivery.acknowledge()

    _receive(parent, messages, counts, lambda receiver: receiver.arrow().to(Sink.foreach(take)), **where)


def receive_objects(parent: Parent, messages: int, **where: Any) -> None:
    """Receive and acknowledge ``messages`` as batches, each made a list of payload objects."""
    counts = [0, 0]

    def take(delivered: DeliveredBatch) -> None:
        payloads = delivered.payloads()
        counts[0] += len(payloads)
        counts[1] += sum(map(len, payloads))
        delivered.acknowledge()

    _receive(parent, messages, counts, lambda receiver: receiver.batches().to(Sink.foreach(take)), **where)


def _send(parent: Parent, data: Any, arrow: bool, address: str, queue: str, uvloop: bool, **_: Any) -> None:
    async def run() -> SendSummary:
        sender = Sender(address, queue=queue)
        source: Source[Any] = Source.from_iterable(data)
        return await source.to(sender.arrow() if arrow else sender).run()

    parent.say(ready=True)
    parent.wait()
    started, cpu = time.monotonic(), time.process_time()
    summary = run_loop(run(), uvloop)
    parent.say(started=started, ended=time.monotonic(), messages=summary.messages, cpu_s=time.process_time() - cpu)


def _receive(
    parent: Parent,
    messages: int,
    counts: list[int],
    graph: Any,
    address: str,
    queue: str,
    max_in_flight: int,
    uvloop: bool,
    **_: Any,
) -> None:
    receiver = Receiver(
        address, queue=queue, max_in_flight=max_in_flight, max_in_flight_bytes=MAX_IN_FLIGHT_BYTES, limit=messages
    )

    async def run() -> int:
        elements: int = await graph(receiver).run()
        return elements

    parent.say(ready=True)
    parent.wait()
    cpu = time.process_time()
    elements = run_loop(run(), uvloop)
    parent.say(
        ended=time.monotonic(),
        messages=counts[0],
        elements=elements,
        bytes=counts[1],
        cpu_s=time.process_time() - cpu,
    )


def _cycled(ready: list[Any], messages: int) -> Iterator[Any]:
    left = messages
    while left > 0:
        for records in ready:
            if left <= 0:
                return
            yield records.slice(0, left)
            left -= records.num_rows
