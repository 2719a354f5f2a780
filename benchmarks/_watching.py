"""A broker and its queue watched at intervals, and rates out of counts that were noted at intervals."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from itertools import pairwise
from typing import Any

from benchmarks._broker import BrokerProcess
from benchmarks._processes import MIB, BenchmarkError, cpu_seconds, queue_facts, resident_bytes
from transport import Administration

Samples = list[list[float]]
"""[monotonic seconds, count since the start]."""


async def watch(broker: BrokerProcess, queue: str, seconds: float, interval: float) -> list[dict[str, Any]]:
    """The broker at each interval, from outside (memory, processor) and from inside (the queue)."""
    loop = asyncio.get_running_loop()
    samples: list[dict[str, Any]] = []
    async with Administration(broker.send_address) as administration:
        start = loop.time()
        for number in range(int(seconds / interval) + 1):
            await asyncio.sleep(start + number * interval - loop.time())
            facts = queue_facts(await administration.statistics(), queue)
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


def rate_between(samples: Samples, begin: float, end: float) -> float:
    """Counts a second between the samples nearest after ``begin`` and ``end``."""
    if len(samples) < 2:
        raise BenchmarkError(f"{len(samples)} samples tell no rate: run longer, or sample more often")
    first = samples[min(bisect_left(samples, [begin]), len(samples) - 2)]
    last = samples[min(bisect_left(samples, [end]), len(samples) - 1)]
    if last[0] <= first[0]:
        raise BenchmarkError("too few samples to tell a rate: run longer, or sample more often")
    return (last[1] - first[1]) / (last[0] - first[0])


def peak_rate(samples: Samples) -> float:
    """The most that was counted a second between two samples."""
    return max(
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for earlier, later in pairwise(samples)
        if later[0] > earlier[0]
    )
