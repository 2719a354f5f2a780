"""``delays``: millions of messages that wait for their times over a year, and how late those come that are due, through kills."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from benchmarks._broker import BrokerProcess
from benchmarks._disk import data_folder, disk_bytes
from benchmarks._processes import (
    BenchmarkError,
    Worker,
    peak_resident_bytes,
    queue_facts,
    resident_bytes,
    statistics,
)
from benchmarks._report import Figure, Report
from benchmarks._transfer import QUEUE

MB = 1_000_000
MEMORY_TARGET_MB = 250.0
LATE_TARGET_MS = 50.0
FILL_TIMEOUT = 7_200.0
LIFE_TIMEOUT = 600.0
SETTLED_SECONDS = 5.0
"""What is due sooner after a receiver has begun comes behind what was due while the broker was down."""
LEAST_SECONDS = 65.0
"""After all is sent, so that it waits in the calendar."""
FILLED_PER_SECOND = 2_500.0
"""The fewest batches that are sent a second; what is measured is due when all is sent."""


def run(messages: int, batch: int, rate: float, seconds: float, kills: int, size: int, data: Path | None) -> Report:
    """Fill, and then so many lives of the broker, each ended by a kill, in which what is due is received."""
    with data_folder(data) as folder:
        result = _measure(messages, batch, rate, seconds, kills, size, folder)
    return Report(
        "delays",
        "a durable broker with messages that wait for times over a year: its memory (the kernel's peak of all lives), the time from the "
        "restart of the process until it listens, and how late a receiver has messages of which so many are due a second, of those that "
        "were due while broker and receiver were there.",
        "none: what is due is due.",
        {"messages": messages, "batch": batch, "rate": rate, "seconds of a life": seconds, "kills": kills},
        [
            Figure("sent", result["sent_per_s"], "msg/s"),
            Figure("broker's memory, peak", result["peak_rss"] / MB, "MB", MEMORY_TARGET_MB, "less"),
            Figure("with all of them waiting", result["filled_rss"] / MB, "MB", MEMORY_TARGET_MB, "less"),
            Figure("from restart until it listens, longest", result["restart_s"], "s"),
            Figure("late, median", result["late_ms"][0], "ms"),
            Figure("late, p99", result["late_ms"][1], "ms", LATE_TARGET_MS, "less"),
            Figure("late, most", result["late_ms"][2], "ms"),
            Figure("came too early", result["early"], "messages", 0, "less"),
            Figure("due and never came", result["missing"], "messages", 0, "less"),
            Figure("came again after a kill", result["again"], "messages"),
            Figure("disk", result["disk_bytes"] / MB, "MB"),
        ],
        [result],
    )


def _measure(
    messages: int, batch: int, rate: float, seconds: float, kills: int, size: int, folder: Path
) -> dict[str, Any]:
    options = {
        "directory": str(folder / "delays"),
        "max_queue_messages": 2 * messages + 1_000_000,
        "max_queue_bytes": 2**40,
    }
    measured = min(messages, int(rate * seconds * (kills + 1)))
    load = {"messages": messages, "measured": measured, "rate": rate, "size": size, "batch": batch}
    with BrokerProcess(options=options) as broker:
        begin = time.time() + (messages / batch + measured) / FILLED_PER_SECOND + 10.0 + LEAST_SECONDS
        with Worker("_delayed_clients:send", address=broker.send_address, queue=QUEUE, begin=begin, **load) as sender:
            sender.hear()
            sender.go()
            sent = sender.hear(FILL_TIMEOUT)
        waiting = queue_facts(statistics(broker.send_address), QUEUE)["delayed"]
        if waiting != messages:
            raise BenchmarkError(f"{messages} were sent, of which {waiting} wait: sending was too slow")
        result: dict[str, Any] = {
            "sent_per_s": messages / sent["seconds"],
            "filled_rss": resident_bytes(broker.pid),
            "peak_rss": peak_resident_bytes(broker.pid),
            "disk_bytes": disk_bytes(folder / "delays"),
            "restart_s": 0.0,
        }
        time.sleep(max(0.0, begin - 5.0 - time.time()))
        broker.kill()
    late: list[float] = []
    came: dict[int, int] = {}
    early = 0
    for life in range(kills + 1):
        started = time.monotonic()
        with BrokerProcess(options=options) as broker:
            result["restart_s"] = max(result["restart_s"], time.monotonic() - started)
            with Worker(
                "_delayed_clients:receive", address=broker.receive_address, queue=QUEUE, seconds=seconds
            ) as receiver:
                receiver.hear()
                since = time.time() + SETTLED_SECONDS
                receiver.go()
                time.sleep(seconds)
                result["peak_rss"] = max(result["peak_rss"], peak_resident_bytes(broker.pid))
                until = time.time()
                if life < kills:
                    broker.kill()
                found = receiver.hear(LIFE_TIMEOUT)["came"]
                if life == kills:
                    found += _last(broker, begin, measured, rate)
        for number, due, at in found:
            came[number] = came.get(number, 0) + 1
            early += at < due
            if since <= due <= until:
                late.append(1000 * (at - due))
    late.sort()
    if not late:
        raise BenchmarkError("nothing was due while it was looked at")
    result["late_ms"] = [late[len(late) // 2], late[len(late) * 99 // 100], late[-1]]
    result["early"] = early
    result["missing"] = sum(number not in came for number in range(measured))
    result["again"] = sum(times - 1 for times in came.values())
    return result


def _last(broker: BrokerProcess, begin: float, measured: int, rate: float) -> list[tuple[int, float, float]]:
    """What is left when all that is measured is due."""
    seconds = max(0.0, begin + measured / rate - time.time()) + 10.0
    with Worker("_delayed_clients:receive", address=broker.receive_address, queue=QUEUE, seconds=seconds) as receiver:
        receiver.hear()
        receiver.go()
        last: list[tuple[int, float, float]] = receiver.hear(seconds + LIFE_TIMEOUT)["came"]
        return last
