"""``backpressure``: a sender that could send a thousand times more than the receiver takes."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

from benchmarks._broker import BrokerProcess
from benchmarks._processes import (
    MIB,
    BenchmarkError,
    Worker,
    await_receivers,
    cpu_seconds,
    queue_facts,
    resident_bytes,
)
from benchmarks._report import Figure, Report
from transport import Administration

QUEUE = "benchmark"
GROWTH_TARGET_MIB = 10.0
RATE_RATIO_TARGET = 1.1
"""The sender's source may run this much faster than the receiver: demand is granted in steps, so a window's edge may fall on one."""
STOP_TIMEOUT = 30.0

Samples = list[list[float]]


def run(
    seconds: float,
    warm_up: float,
    rate: float,
    size: int,
    max_in_flight: int,
    max_queue_messages: int,
    interval: float,
    uvloop: bool,
) -> Report:
    """One long run; the figures are of the time after the warm-up."""
    if warm_up >= seconds:
        raise BenchmarkError(f"the warm-up of {warm_up:g} s must end before the run, after {seconds:g} s")
    common = {"queue": QUEUE, "interval": interval, "uvloop": uvloop}
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(uvloop=uvloop, options={"max_queue_messages": max_queue_messages}))
        receiver = stack.enter_context(
            Worker(
                "_pressure:receive_slowly",
                address=broker.receive_address,
                rate=rate,
                max_in_flight=max_in_flight,
                **common,
            )
        )
        sender = stack.enter_context(
            Worker("_pressure:send_endlessly", address=broker.send_address, size=size, **common)
        )
        receiver.hear()
        sender.hear()
        receiver.go()
        await_receivers(broker.send_address, QUEUE, 1)
        sender.go()
        samples = asyncio.run(_watch(broker, seconds, interval))
        sender.go()
        receiver.go()
        pulled = sender.hear(STOP_TIMEOUT)["samples"]
        taken = receiver.hear(STOP_TIMEOUT)["samples"]
    settled = [one for one in samples if one["time"] >= samples[0]["time"] + warm_up]
    if len(settled) < 2:
        raise BenchmarkError(f"{len(settled)} samples after the warm-up: run longer, or sample more often")
    parameters = {
        "seconds": seconds,
        "warm_up": warm_up,
        "rate": rate,
        "size": size,
        "max_in_flight": max_in_flight,
        "max_queue_messages": max_queue_messages,
        "interval": interval,
        "uvloop": uvloop,
    }
    return Report(
        "backpressure",
        "a sender with an endless source and a receiver that handles a fixed number of messages a second, three processes: what happens "
        "once the queue is full. The sender's rate is counted where it takes from its own source.",
        "the receiver's own rate, which is what the sender's must come down to; and the broker's memory after the warm-up, "
        "which is what it must stay at.",
        parameters,
        _figures(samples, settled, pulled, taken),
        [*samples, {"sender_pulled": pulled, "receiver_acknowledged": taken}],
    )


async def _watch(broker: BrokerProcess, seconds: float, interval: float) -> list[dict[str, Any]]:
    """The broker at each interval, from outside (memory, processor) and from inside (the queue)."""
    loop = asyncio.get_running_loop()
    samples: list[dict[str, Any]] = []
    async with Administration(broker.send_address) as administration:
        start = loop.time()
        for number in range(int(seconds / interval) + 1):
            await asyncio.sleep(start + number * interval - loop.time())
            facts = queue_facts(await administration.statistics(), QUEUE)
            samples.append(
                {
                    "time": loop.time(),
                    "rss_mib": resident_bytes(broker.pid) / MIB,
                    "cpu_s": cpu_seconds(broker.pid),
                    "ready": facts["ready"],
                    "in_flight": facts["in_flight"],
                    "granted": facts["capacity_granted"],
                    "total_in": facts["total_in"],
                    "total_acknowledged": facts["total_acknowledged"],
                }
            )
    return samples


def _figures(
    samples: list[dict[str, Any]], settled: list[dict[str, Any]], pulled: Samples, taken: Samples
) -> list[Figure]:
    first, last = settled[0], settled[-1]
    memory = [one["rss_mib"] for one in settled]
    sender_rate = _rate(pulled, first["time"], last["time"])
    receiver_rate = _rate(taken, first["time"], last["time"])
    broker_share = (last["cpu_s"] - first["cpu_s"]) / (last["time"] - first["time"])
    return [
        Figure("broker's memory after the warm-up", first["rss_mib"], "MiB"),
        Figure("broker's memory at the end", last["rss_mib"], "MiB"),
        Figure("its growth", last["rss_mib"] - first["rss_mib"], "MiB", GROWTH_TARGET_MIB, "less"),
        Figure("its growth, highest sample", max(memory) - first["rss_mib"], "MiB"),
        Figure("sender's source, fastest second", _peak(pulled), "msg/s"),
        Figure("sender's source after the warm-up", sender_rate, "msg/s"),
        Figure("receiver after the warm-up", receiver_rate, "msg/s"),
        Figure("sender's rate / receiver's", sender_rate / receiver_rate, "", RATE_RATIO_TARGET, "less"),
        Figure("messages waiting at the end", last["ready"], "msg"),
        Figure("messages waiting, most", max(one["ready"] for one in samples), "msg"),
        Figure("broker's share of a core after the warm-up", broker_share * 100, "%"),
    ]


def _rate(samples: Samples, begin: float, end: float) -> float:
    """Counts a second between the samples nearest after ``begin`` and ``end``."""
    first = samples[min(bisect_left(samples, [begin]), len(samples) - 2)]
    last = samples[min(bisect_left(samples, [end]), len(samples) - 1)]
    if last[0] <= first[0]:
        raise BenchmarkError("too few samples to tell a rate: run longer, or sample more often")
    return (last[1] - first[1]) / (last[0] - first[0])


def _peak(samples: Samples) -> float:
    return max(
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for earlier, later in pairwise(samples)
        if later[0] > earlier[0]
    )
