"""``cluster``: what it costs that a confirmation means the disks of half of the nodes and one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks._broker import BrokerProcess
from benchmarks._cluster import ClusterProcesses, ship_bare
from benchmarks._disk import data_folder
from benchmarks._report import Figure, Report, medians
from benchmarks._transfer import Transfer, move

SHARE_TARGET = 0.35
"""Of the rate of the same broker alone;"""
BARE_TARGET = 0.6
"""and of a bare loop that ships and syncs the same blocks on three nodes."""
LEADER_TARGET, FOLLOWER_TARGET = 1.5, 0.5
"""Times the processor time that a message costs the broker alone."""
ALONE, CLUSTER, BARE = "alone", "cluster", "bare"


def run(transfer: Transfer, rounds: int, data: Path | None) -> Report:
    """Rounds of all three in turn, so that what else the machine and its disk do meets them alike."""
    results: list[dict[str, Any]] = []
    with data_folder(data) as folder:
        for number in range(rounds):
            place = folder / str(number)
            place.mkdir()
            with BrokerProcess(uvloop=transfer.uvloop, options={"directory": str(place / "alone")}) as alone:
                results.append({"kind": ALONE} | move(alone, transfer))
            with ClusterProcesses(place / "nodes") as nodes:
                before = nodes.follower_cpu()
                moved = move(nodes, transfer)
                results.append({"kind": CLUSTER, "follower_cpu_s": nodes.follower_cpu() - before} | moved)
            results.append(ship_bare(place / "bare", transfer.messages, transfer.size, transfer.batch))
    kinds = {kind: [one for one in results if one["kind"] == kind] for kind in (ALONE, CLUSTER, BARE)}
    rates = {kind: medians(found, "messages_per_s") for kind, found in kinds.items()}
    cpu = medians(kinds[ALONE], "broker_cpu_s")
    return Report(
        "cluster",
        "sender, brokers and receiver as processes over loopback TCP, all on one machine; each of three brokers syncs its own journal, and "
        "a batch is confirmed and delivered when two of them have it on the disk (mode majority). The clock stops when everything is "
        "confirmed and acknowledged.",
        "the same broker alone, which syncs too; and a bare loop, three processes that ship and sync the same blocks without a broker.",
        {
            "messages": transfer.messages,
            "size": transfer.size,
            "batch": transfer.batch,
            "max_in_flight": transfer.max_in_flight,
            "rounds": rounds,
        },
        [
            Figure("alone", rates[ALONE], "msg/s"),
            Figure("cluster", rates[CLUSTER], "msg/s"),
            Figure("share of alone", rates[CLUSTER] / rates[ALONE], "", SHARE_TARGET),
            Figure("bare loop", rates[BARE], "msg/s"),
            Figure("share of the bare loop", rates[CLUSTER] / rates[BARE], "", BARE_TARGET),
            Figure(
                "leader's processor time a message, times that of one alone",
                medians(kinds[CLUSTER], "broker_cpu_s") / cpu,
                "",
                LEADER_TARGET,
                "less",
            ),
            Figure(
                "a follower's, times that of one alone",
                medians(kinds[CLUSTER], "follower_cpu_s") / cpu,
                "",
                FOLLOWER_TARGET,
                "less",
            ),
        ],
        results,
    )
