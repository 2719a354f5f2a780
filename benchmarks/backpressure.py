"""``backpressure``: a sender that could send a thousand times more than the receiver takes."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any

from benchmarks._broker import BrokerProcess
from benchmarks._processes import BenchmarkError, Worker, await_receivers
from benchmarks._report import Figure, Report
from benchmarks._watching import Samples, peak_rate, rate_between, watch

QUEUE = "benchmark"
GROWTH_TARGET_MIB = 10.0
RATE_RATIO_TARGET = 1.1
"""The sender's source may run this much faster than the receiver: demand is granted in steps, so a window's edge may fall on one."""
STOP_TIMEOUT = 30.0


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
        samples = asyncio.run(watch(broker, QUEUE, seconds, interval))
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


def _figures(
    samples: list[dict[str, Any]], settled: list[dict[str, Any]], pulled: Samples, taken: Samples
) -> list[Figure]:
    first, last = settled[0], settled[-1]
    memory = [one["rss_mib"] for one in settled]
    sender_rate = rate_between(pulled, first["time"], last["time"])
    receiver_rate = rate_between(taken, first["time"], last["time"])
    broker_share = (last["cpu_s"] - first["cpu_s"]) / (last["time"] - first["time"])
    return [
        Figure("broker's memory after the warm-up", first["rss_mib"], "MiB"),
        Figure("broker's memory at the end", last["rss_mib"], "MiB"),
        Figure("its growth", last["rss_mib"] - first["rss_mib"], "MiB", GROWTH_TARGET_MIB, "less"),
        Figure("its growth, highest sample", max(memory) - first["rss_mib"], "MiB"),
        Figure("sender's source, fastest second", peak_rate(pulled), "msg/s"),
        Figure("sender's source after the warm-up", sender_rate, "msg/s"),
        Figure("receiver after the warm-up", receiver_rate, "msg/s"),
        Figure("sender's rate / receiver's", sender_rate / receiver_rate, "", RATE_RATIO_TARGET, "less"),
        Figure("messages waiting at the end", last["ready"], "msg"),
        Figure("messages waiting, most", max(one["ready"] for one in samples), "msg"),
        Figure("broker's share of a core after the warm-up", broker_share * 100, "%"),
    ]
