"""``spark_latency``: how old a message is when a query's ``foreachBatch`` has it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks._broker import BrokerProcess
from benchmarks._disk import data_folder
from benchmarks._paced import STAMP
from benchmarks._processes import BenchmarkError, Worker
from benchmarks._report import Figure, Report, medians

QUEUE = "benchmark"
GRACE = 120.0
"""Seconds beyond the schedule for the last message to arrive."""
START_TIMEOUT = 300.0
"""Seconds for the floor and for the first micro-batch of a query."""
FLOOR_BATCHES, FLOOR_SKIP = 60, 20
POINTS = ("p50", "p90", "p99")


def run(
    rate: float, seconds: float, warm_up: float, rounds: int, cores: int, uvloop: bool, data: Path | None
) -> Report:
    """Rounds of the floor and of the queue, each in a Spark session of its own."""
    count, skip = max(1, int(rate * (seconds + warm_up))), int(rate * warm_up)
    results = [_round(rate, count, skip, cores, uvloop, data) for _ in range(rounds)]
    figures = [Figure(f"{point}, send to foreachBatch", medians(results, point) / 1000, "ms") for point in POINTS]
    figures += [
        Figure(f"floor: {point}, from planning to foreachBatch", medians(results, f"floor {point}") / 1000, "ms")
        for point in POINTS
    ]
    figures += [
        Figure("a micro-batch", medians(results, "period_ms"), "ms"),
        Figure(
            "floor and half a micro-batch",
            medians(results, "floor p50") / 1000 + medians(results, "period_ms") / 2,
            "ms",
        ),
        Figure("lateness of the paced sender itself, p99", medians(results, "late p99") / 1000, "ms"),
    ]
    return Report(
        "spark_latency",
        "the time from the moment at which a message was to be sent (an absolute schedule) to the moment at which a query's foreachBatch "
        "has the rows of its micro-batch at hand; a durable broker, each message sent by itself.",
        "in the same session, a source without any I/O that has one row whenever it is asked: the time from its being asked to the same "
        "moment. A message that comes at any time waits, beside that, for half a micro-batch on average before Spark asks.",
        {"rate": rate, "seconds": seconds, "warm_up": warm_up, "rounds": rounds, "cores": cores},
        figures,
        results,
    )


def _round(rate: float, count: int, skip: int, cores: int, uvloop: bool, data: Path | None) -> dict[str, Any]:
    with ExitStack() as stack:
        folder = stack.enter_context(data_folder(data))
        broker = stack.enter_context(BrokerProcess(uvloop=uvloop, options={"directory": str(folder)}))
        to = {"address": broker.send_address, "queue": QUEUE, "rate": rate, "size": STAMP.size}
        driver = stack.enter_context(
            Worker("_spark:time_rows", address=broker.receive_address, queue=QUEUE, count=count, skip=skip, cores=cores)
        )
        driver.hear()
        driver.go(floor_batches=FLOOR_BATCHES, floor_skip=FLOOR_SKIP)
        floor = driver.hear(START_TIMEOUT)["floor_us"]
        _send(to, 1, START_TIMEOUT)
        driver.hear(START_TIMEOUT)
        sent = _send(to, count, count / rate + GRACE)
        came = driver.hear(GRACE)
    if came["rows"] != count:
        raise BenchmarkError(f"of {count} messages {came['rows']} came out of the query")
    return {
        **came["latency_us"],
        **{f"floor {point}": value for point, value in floor.items()},
        **{f"late {point}": value for point, value in sent["lateness_us"].items()},
        "period_ms": count / rate * 1000 / came["batches"],
    }


def _send(to: dict[str, Any], count: int, timeout: float) -> dict[str, Any]:
    with Worker("_paced:send_paced", count=count, **to) as sender:
        sender.hear()
        sender.go()
        return sender.hear(timeout)
