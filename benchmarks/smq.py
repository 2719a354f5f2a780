"""``smq``: how long the simple message queue's sources wait for a confirmation, beside senders of Penstock's own protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks._broker import ANY_PORT, BrokerProcess
from benchmarks._processes import BenchmarkError, Worker, queue_facts, statistics
from benchmarks._report import Figure, Report, medians

NATIVE_QUEUE, SMQ_QUEUE = "native", "smq"
MOST_TIMES = 2.0
DELAYED_MS = 10.0
"""Far less than the 40 ms that a system puts an acknowledgement off."""
SPLIT_FROM = 8192 - 5
"""Payloads above are written apart from their heads."""
QUEUE_BYTES = 8 * 2**30
TIMEOUT = 120.0


def run(sizes: Sequence[int], messages: int, warm_up: int, rounds: int, uvloop: bool) -> Report:
    """Rounds of all sizes in turn, each on a broker of its own."""
    results = [_round(size, messages, warm_up, uvloop) for _ in range(rounds) for size in sizes]
    figures = []
    for size in sizes:
        own = [one for one in results if one["size"] == size]
        smq, native = medians(own, "smq p50") / 1000, medians(own, "native p50") / 1000
        split = size > SPLIT_FROM
        what = f"{size} bytes{' in two writes' if split else ''}"
        figures.append(Figure(f"p50, {what}, SMQ", smq, "ms", DELAYED_MS if split else None, "less"))
        figures.append(Figure(f"p50, {what}, native", native, "ms"))
        figures.append(Figure(f"times native, {size} bytes", medians(own, "times"), "", MOST_TIMES, "less"))
    return Report(
        "smq",
        "the time from a message's first byte written to its confirmation, one message at a time, of a client that writes as the "
        "original's does: Nagle's algorithm on, and a message that does not fit 8,192 bytes with its head in two writes.",
        "the same messages as frames of Penstock's own protocol through a socket with nothing between, the two alternating message by "
        "message on one broker in memory.",
        {"sizes": list(sizes), "messages": messages, "warm_up": warm_up, "rounds": rounds, "uvloop": uvloop},
        figures,
        results,
    )


def _round(size: int, messages: int, warm_up: int, uvloop: bool) -> dict[str, Any]:
    options = {"smq_source": ANY_PORT, "smq_queue": SMQ_QUEUE, "max_queue_bytes": QUEUE_BYTES, "memory_watermark": 1.0}
    with BrokerProcess(uvloop=uvloop, options=options) as broker:
        assert broker.smq_source is not None
        addresses = {"source": broker.smq_source, "native": broker.send_address, "queue": NATIVE_QUEUE}
        with Worker("_smq_clients:send_one_at_a_time", **addresses, size=size, count=messages, skip=warm_up) as worker:
            spreads = worker.hear(TIMEOUT)
        stored = {
            queue: queue_facts(statistics(broker.send_address), queue)["ready"] for queue in (SMQ_QUEUE, NATIVE_QUEUE)
        }
    if set(stored.values()) != {messages + warm_up}:
        raise BenchmarkError(f"of {messages + warm_up} messages {stored} are stored")
    found = {f"{name} {point}": value for name, points in spreads.items() for point, value in points.items()}
    return {"size": size, "unit": "us", "times": found["smq p50"] / found["native p50"], **found}
