"""``cluster_latency``: how long a message waits for the disks of half of the nodes and one, at a rate that nobody has trouble with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks._broker import BrokerProcess
from benchmarks._cluster import ClusterProcesses
from benchmarks._disk import data_folder
from benchmarks._paced_transfer import PARTS, POINTS, Schedule, move_paced
from benchmarks._processes import cpu_seconds, storage_facts
from benchmarks._report import Figure, Report, medians
from benchmarks._transfer import Served

TARGET = 2.0
"""Times what it takes the same broker alone."""
ALONE, CLUSTER = "alone", "cluster"


def run(schedule: Schedule, rounds: int, data: Path | None) -> Report:
    """Rounds of one broker and of three in turn, so that what else the machine and its disk do meets them alike."""
    results: list[dict[str, Any]] = []
    with data_folder(data) as folder:
        for number in range(rounds):
            place = folder / str(number)
            place.mkdir()
            with BrokerProcess(uvloop=schedule.uvloop, options={"directory": str(place / "alone")}) as alone:
                results.append({"kind": ALONE} | _measure(alone, schedule))
            with ClusterProcesses(place / "nodes") as nodes:
                before = nodes.follower_cpu()
                measured = _measure(nodes, schedule)
                follower = (nodes.follower_cpu() - before) / schedule.count * 1e6
                results.append({"kind": CLUSTER, "follower_cpu_us": follower} | measured)
    kinds = {kind: [one for one in results if one["kind"] == kind] for kind in (ALONE, CLUSTER)}
    figures: list[Figure] = []
    for part in PARTS:
        for point in POINTS:
            found = {kind: medians(rounds, f"{part} {point}") for kind, rounds in kinds.items()}
            figures += [Figure(f"{point}, {part}, {kind}", value / 1000, "ms") for kind, value in found.items()]
            share = found[CLUSTER] / found[ALONE]
            figures.append(Figure(f"{point}, {part}, times that of one alone", share, "", TARGET, "less"))
    for kind, found_rounds in kinds.items():
        figures.append(Figure(f"syncs a message, {kind}", medians(found_rounds, "syncs") / schedule.count, ""))
        figures.append(Figure(f"broker's processor time a message, {kind}", medians(found_rounds, "cpu_us"), "us"))
    figures.append(Figure("a follower's", medians(kinds[CLUSTER], "follower_cpu_us"), "us"))
    figures += [
        Figure(f"lateness of the paced sender itself, {point}, {kind}", medians(found, f"late {point}") / 1000, "ms")
        for kind, found in kinds.items()
        for point in POINTS
    ]
    return Report(
        "cluster_latency",
        "the time from the moment at which a message was to be sent (an absolute schedule; the sender's own lateness is part of it) to "
        "the moment at which the receiver's handler has it, and to its confirmation; each message sent and acknowledged by itself. Each "
        "of three brokers, all on one machine, syncs its own journal, and a message is confirmed and delivered when two of them have it "
        "on the disk (mode majority).",
        "the same broker alone, which syncs too, on the same schedule. Rounds alternate.",
        {
            "rate": schedule.rate,
            "seconds": schedule.seconds,
            "warm_up": schedule.warm_up,
            "size": schedule.size,
            "max_in_flight": schedule.max_in_flight,
            "rounds": rounds,
        },
        figures,
        results,
    )


def _measure(broker: Served, schedule: Schedule) -> dict[str, Any]:
    cpu = cpu_seconds(broker.pid)
    result, figures = move_paced(broker, schedule)
    cpu = cpu_seconds(broker.pid) - cpu
    return result | {"syncs": storage_facts(figures)["syncs"], "cpu_us": cpu / schedule.count * 1e6}
