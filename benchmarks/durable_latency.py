"""``durable_latency``: how long the disk makes a message wait, at a rate that nobody has trouble with."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks._broker import BrokerProcess
from benchmarks._disk import data_folder
from benchmarks._processes import BenchmarkError, Worker, await_receivers, queue_facts, statistics, storage_facts
from benchmarks._report import Figure, Report, medians

QUEUE = "benchmark"
GRACE = 60.0
"""Seconds beyond the schedule for the last message to arrive."""
POINTS = ("p50", "p99")
ROUND_PARTS = ("sender to receiver", "send to confirmation")


def run(
    rate: float,
    seconds: float,
    warm_up: float,
    size: int,
    max_in_flight: int,
    rounds: int,
    uvloop: bool,
    data: Path | None,
) -> Report:
    """Rounds of the durable broker, the one in memory and the bare loop in turn."""
    count, skip = max(1, int(rate * (seconds + warm_up))), int(rate * warm_up)
    schedule = {"rate": rate, "count": count, "size": size, "skip": skip}
    timeout = seconds + warm_up + GRACE
    results = []
    with data_folder(data) as folder:
        for number in range(rounds):
            directory = {"directory": str(folder / str(number))}
            results.append(_through_broker("durable", directory, schedule, max_in_flight, uvloop, timeout))
            results.append(_through_broker("in memory", {}, schedule, max_in_flight, uvloop, timeout))
            results.append(_bare(folder, schedule, timeout))
    kinds = {kind: [one for one in results if one["kind"] == kind] for kind in ("durable", "in memory", "bare")}
    figures = [
        Figure(f"{point}, {part}, {kind}", medians(kinds[kind], f"{part} {point}") / 1000, "ms")
        for kind in ("durable", "in memory")
        for part in ROUND_PARTS
        for point in POINTS
    ]
    figures += [
        Figure(f"ceiling: {point}, append + fdatasync", medians(kinds["bare"], point) / 1000, "ms") for point in POINTS
    ]
    for point in POINTS:
        share = medians(kinds["durable"], f"send to confirmation {point}") / medians(kinds["bare"], point)
        figures.append(Figure(f"times the ceiling, {point}, send to confirmation", share, ""))
    figures.append(Figure("syncs a message, durable", medians(kinds["durable"], "syncs") / count, ""))
    figures.append(
        Figure("lateness of the paced sender itself, p50", medians(kinds["durable"], "late p50") / 1000, "ms")
    )
    figures.append(
        Figure("lateness of the paced sender itself, p99", medians(kinds["durable"], "late p99") / 1000, "ms")
    )
    return Report(
        "durable_latency",
        "the time from the moment at which a message was to be sent (an absolute schedule; the sender's own lateness is part of it) to "
        "the moment at which the receiver's handler has it, and to its confirmation; three processes, each message sent and acknowledged "
        "by itself, the broker with a journal that syncs before it confirms or delivers.",
        "the same schedule in a plain loop that appends what is due to a file and syncs, without broker or sockets; and the broker in "
        "memory. Rounds alternate.",
        {
            "rate": rate,
            "seconds": seconds,
            "warm_up": warm_up,
            "size": size,
            "max_in_flight": max_in_flight,
            "rounds": rounds,
            "uvloop": uvloop,
        },
        figures,
        results,
    )


def _through_broker(
    kind: str, options: dict[str, Any], schedule: dict[str, Any], max_in_flight: int, uvloop: bool, timeout: float
) -> dict[str, Any]:
    count = schedule["count"]
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(uvloop=uvloop, options=options))
        receiving = {"count": count, "skip": schedule["skip"], "max_in_flight": max_in_flight, "uvloop": uvloop}
        receiver = stack.enter_context(
            Worker("_paced:receive_timed", address=broker.receive_address, queue=QUEUE, **receiving)
        )
        sender = stack.enter_context(
            Worker("_paced:send_paced_confirmed", address=broker.send_address, queue=QUEUE, **schedule)
        )
        receiver.hear()
        sender.hear()
        await_receivers(broker.send_address, QUEUE, 1)
        sender.go()
        sent, received = sender.hear(timeout), receiver.hear(timeout)
        figures = statistics(broker.send_address)
        acknowledged = queue_facts(figures, QUEUE)["total_acknowledged"]
    if not count == sent["messages"] == received["messages"] == acknowledged:
        raise BenchmarkError(f"of {count} messages {received['messages']} arrived, {acknowledged} were acknowledged")
    result = {"kind": kind, "unit": "us"}
    result |= {f"sender to receiver {point}": value for point, value in received["latency_us"].items()}
    result |= {f"send to confirmation {point}": value for point, value in sent["latency_us"].items()}
    result |= {f"late {point}": value for point, value in sent["lateness_us"].items()}
    return result | ({"syncs": storage_facts(figures)["syncs"]} if kind == "durable" else {})


def _bare(folder: Path, schedule: dict[str, Any], timeout: float) -> dict[str, Any]:
    with Worker("_disk:append_paced", path=str(folder / "paced"), **schedule) as worker:
        worker.hear()
        worker.go()
        done = worker.hear(timeout)
    if done["messages"] != schedule["count"]:
        raise BenchmarkError(f"of {schedule['count']} messages {done['messages']} were appended")
    return {"kind": "bare", "unit": "us", "syncs": done["syncs"], **done["latency_us"]}
