"""``durable_latency``: how long the disk makes a message wait, at a rate that nobody has trouble with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks._broker import BrokerProcess
from benchmarks._disk import data_folder
from benchmarks._paced_transfer import PARTS, POINTS, Schedule, move_paced
from benchmarks._processes import BenchmarkError, Worker, storage_facts
from benchmarks._report import Figure, Report, medians


def run(schedule: Schedule, rounds: int, data: Path | None) -> Report:
    """Rounds of the durable broker, the one in memory and the bare loop in turn."""
    results = []
    with data_folder(data) as folder:
        for number in range(rounds):
            results.append(_through_broker("durable", {"directory": str(folder / str(number))}, schedule))
            results.append(_through_broker("in memory", {}, schedule))
            results.append(_bare(folder, schedule))
    kinds = {kind: [one for one in results if one["kind"] == kind] for kind in ("durable", "in memory", "bare")}
    figures = [
        Figure(f"{point}, {part}, {kind}", medians(kinds[kind], f"{part} {point}") / 1000, "ms")
        for kind in ("durable", "in memory")
        for part in PARTS
        for point in POINTS
    ]
    figures += [
        Figure(f"ceiling: {point}, append + fdatasync", medians(kinds["bare"], point) / 1000, "ms") for point in POINTS
    ]
    for point in POINTS:
        share = medians(kinds["durable"], f"send to confirmation {point}") / medians(kinds["bare"], point)
        figures.append(Figure(f"times the ceiling, {point}, send to confirmation", share, ""))
    figures.append(Figure("syncs a message, durable", medians(kinds["durable"], "syncs") / schedule.count, ""))
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
            "rate": schedule.rate,
            "seconds": schedule.seconds,
            "warm_up": schedule.warm_up,
            "size": schedule.size,
            "max_in_flight": schedule.max_in_flight,
            "rounds": rounds,
            "uvloop": schedule.uvloop,
        },
        figures,
        results,
    )


def _through_broker(kind: str, options: dict[str, Any], schedule: Schedule) -> dict[str, Any]:
    with BrokerProcess(uvloop=schedule.uvloop, options=options) as broker:
        result, figures = move_paced(broker, schedule)
    return {"kind": kind} | result | ({"syncs": storage_facts(figures)["syncs"]} if kind == "durable" else {})


def _bare(folder: Path, schedule: Schedule) -> dict[str, Any]:
    with Worker("_disk:append_paced", path=str(folder / "paced"), **schedule.sending) as worker:
        worker.hear()
        worker.go()
        done = worker.hear(schedule.timeout)
    if done["messages"] != schedule.count:
        raise BenchmarkError(f"of {schedule.count} messages {done['messages']} were appended")
    return {"kind": "bare", "unit": "us", "syncs": done["syncs"], **done["latency_us"]}
