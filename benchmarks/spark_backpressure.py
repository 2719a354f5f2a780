"""``spark_backpressure``: a query that takes a twentieth of what a sender offers, stands still for a while, and goes on."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks._broker import BrokerProcess
from benchmarks._disk import data_folder
from benchmarks._processes import BenchmarkError, Worker
from benchmarks._report import Figure, Report
from benchmarks._watching import Samples, peak_rate, rate_between, watch
from benchmarks.backpressure import GROWTH_TARGET_MIB, RATE_RATIO_TARGET

QUEUE = "benchmark"
BATCH = 1_000
END_TIMEOUT = 300.0
"""Seconds in which the query takes what is in the queue at the end."""
READY_TIMEOUT = 120.0
OVERSHOOT = 1.1
"""What is stored may exceed the queue's limit by what a sender was granted before: a part of it."""


def run(
    seconds: float,
    warm_up: float,
    pause: float,
    rate: int,
    offered: float,
    size: int,
    max_queue_messages: int,
    interval: float,
    cores: int,
    uvloop: bool,
    data: Path | None,
) -> Report:
    """``seconds`` of the query, ``pause`` without it, and the rest of what was sent; the figures are of the first after the warm-up."""
    if warm_up >= seconds:
        raise BenchmarkError(f"the warm-up of {warm_up:g} s must end before the query is stopped, after {seconds:g} s")
    with ExitStack() as stack:
        folder = stack.enter_context(data_folder(data))
        options = {"directory": str(folder / "journal"), "max_queue_messages": max_queue_messages}
        broker = stack.enter_context(BrokerProcess(uvloop=uvloop, options=options))
        driver = stack.enter_context(
            Worker(
                "_spark:read_slowly",
                address=broker.receive_address,
                queue=QUEUE,
                rate=rate,
                folder=str(folder),
                max_rows_per_batch=rate,
                cores=cores,
            )
        )
        sending = {"rate": offered, "size": size, "batch": BATCH, "interval": interval, "uvloop": uvloop}
        sender = stack.enter_context(
            Worker("_pressure:send_offered", address=broker.send_address, queue=QUEUE, **sending)
        )
        driver.hear(READY_TIMEOUT)
        sender.hear()
        driver.go()
        sender.go()
        driver.hear(READY_TIMEOUT)
        running = asyncio.run(watch(broker, QUEUE, seconds, interval))
        driver.go()
        stopped = driver.hear(END_TIMEOUT)
        standing = asyncio.run(watch(broker, QUEUE, pause, interval))
        # The sender offers nothing new from here on. What waits in it for room comes once the query goes on.
        sender.go()
        driver.go()
        driver.hear(READY_TIMEOUT)
        sent = sender.hear(END_TIMEOUT)
        driver.go()
        driver.hear(END_TIMEOUT)
        driver.go(rows=sent["messages"])
        done = driver.hear(END_TIMEOUT + max_queue_messages / rate)
    if done["rows"] != sent["messages"] or done["twice_or_missing"]:
        raise BenchmarkError(
            f"of {sent['messages']} messages {done['rows']} were counted, {done['twice_or_missing']} micro-batches had gaps"
        )
    settled = [one for one in running if one["time"] >= running[0]["time"] + warm_up]
    if len(settled) < 2:
        raise BenchmarkError(f"{len(settled)} samples after the warm-up: run longer, or sample more often")
    parameters = {
        "seconds": seconds,
        "warm_up": warm_up,
        "pause": pause,
        "rate": rate,
        "offered": offered,
        "size": size,
        "max_queue_messages": max_queue_messages,
        "cores": cores,
    }
    return Report(
        "spark_backpressure",
        "a query whose foreachBatch takes a fixed number of rows a second, and a sender that offers many times as many, through a durable "
        "queue with a limit: rates, memory and lag once the queue is full; then the query is stopped, and started again. Every message "
        "has a number, and the run fails unless the query has counted each once and in order.",
        "the query's own rate, which is what the sender's must come down to; the queue's limit, which bounds the lag.",
        parameters,
        [
            *_figures(settled, standing, sent["samples"], stopped["samples"], max_queue_messages),
            Figure("messages sent, and counted once each", done["rows"], "msg"),
        ],
        [{"running": running, "standing": standing, "sender": sent["samples"], "query": done["samples"]}],
    )


def _figures(
    settled: list[dict[str, Any]],
    standing: list[dict[str, Any]],
    pulled: Samples,
    taken: Samples,
    limit: int,
) -> list[Figure]:
    first, last = settled[0], settled[-1]
    sender_rate = rate_between(pulled, first["time"], last["time"])
    query_rate = rate_between(taken, first["time"], last["time"])
    memory = [one["rss_mib"] for one in settled]
    lag = max(one["total_in"] - one["total_acknowledged"] for one in [*settled, *standing])
    return [
        Figure("sender's source, fastest second", peak_rate(pulled), "msg/s"),
        Figure("sender's source after the warm-up", sender_rate, "msg/s"),
        Figure("query after the warm-up", query_rate, "rows/s"),
        Figure("sender's rate / query's", sender_rate / query_rate, "", RATE_RATIO_TARGET, "less"),
        Figure("broker's memory after the warm-up", memory[0], "MiB"),
        Figure("its growth, highest sample", max(memory) - memory[0], "MiB", GROWTH_TARGET_MIB, "less"),
        Figure("its growth while the query stands still", standing[-1]["rss_mib"] - last["rss_mib"], "MiB"),
        Figure("sent and not acknowledged, most", lag, "msg", limit * OVERSHOOT, "less"),
        Figure("sent while the query stands still", standing[-1]["total_in"] - standing[0]["total_in"], "msg"),
    ]
