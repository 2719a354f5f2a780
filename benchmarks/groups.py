"""``groups``: what a queue with groups does with a long backlog, and behind a group that somebody has."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks._broker import BrokerProcess
from benchmarks._disk import data_folder
from benchmarks._processes import BenchmarkError, Worker, peak_resident_bytes, queue_facts, statistics
from benchmarks._report import Figure, Report, medians

QUEUE = "benchmark"
BACKLOG_SHARE = 0.5
"""Of the rate with a short backlog, for the rate with a long one."""
BLOCKED_SHARE = 0.3
"""Of the rate without them, for the rate behind messages of a group that somebody has."""
SHORT = 1_000
TIMEOUT = 600.0
MB = 1_000_000


def run(
    backlog: int,
    blocked: int,
    groups: int,
    receivers: int,
    max_in_flight: int,
    messages: int,
    size: int,
    rounds: int,
    uvloop: bool,
    data: Path | None,
) -> Report:
    """Rounds of each case, in turn."""
    cases = {
        "short": {"backlog": SHORT, "blocked": 0},
        "long": {"backlog": backlog, "blocked": 0},
        "behind": {"backlog": SHORT, "blocked": blocked},
        "plain": {"backlog": SHORT, "blocked": 0, "grouped": False},
    }
    common = {"grouped": True, "groups": groups, "receivers": receivers, "max_in_flight": max_in_flight}
    common |= {"moved": messages, "size": size, "uvloop": uvloop}
    results: list[dict[str, Any]] = []
    for _ in range(rounds):
        for name, case in cases.items():
            with data_folder(data) as folder:
                results.append({"case": name} | _measure(folder, uvloop, common | case))
    of = {name: [one for one in results if one["case"] == name] for name in cases}
    rate = {name: medians(of[name], "messages_per_s") for name in cases}
    figures = [
        Figure(f"messages through a backlog of {SHORT:,}", rate["short"], "msg/s"),
        Figure(f"messages through a backlog of {backlog:,}", rate["long"], "msg/s"),
        Figure("with the long one / with the short one", rate["long"] / rate["short"], "", BACKLOG_SHARE),
        Figure(f"messages behind {blocked:,} of one group that somebody has", rate["behind"], "msg/s"),
        Figure("behind them / without them", rate["behind"] / rate["short"], "", BLOCKED_SHARE),
        Figure("messages through a queue without groups", rate["plain"], "msg/s"),
        Figure("messages of one delivery", medians(of["short"], "per_delivery"), "msg"),
        Figure("broker's memory with the long one, peak", medians(of["long"], "peak_mb"), "MB"),
    ]
    return Report(
        "groups",
        "the rate at which a durable queue with groups gives messages to several receivers, and takes as many: with a short backlog, with "
        "a long one, and behind messages of one group of which another receiver holds the first. Each batch has every group.",
        "the same with a short backlog and nothing in front, in turn with it.",
        common | {"backlog": backlog, "blocked": blocked, "rounds": rounds},
        figures,
        results,
    )


def _measure(folder: Path, uvloop: bool, case: dict[str, Any]) -> dict[str, Any]:
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(uvloop=uvloop, options={"directory": str(folder / "data")}))
        addresses = {"send_address": broker.send_address, "receive_address": broker.receive_address}
        worker = stack.enter_context(Worker("_group_clients:exchange", queue=QUEUE, **addresses, **case))
        worker.hear()
        worker.go()
        found = worker.hear(TIMEOUT)
        facts = queue_facts(statistics(broker.send_address), QUEUE)
        peak = peak_resident_bytes(broker.pid)
    if facts["total_out"] < case["moved"]:
        raise BenchmarkError(f"{facts['total_out']} messages were delivered, and {case['moved']} taken")
    return {
        **found,
        "messages_per_s": found["messages"] / found["seconds"],
        "per_delivery": found["messages"] / found["deliveries"],
        "passed_over": facts["passed_over"],
        "peak_mb": peak / MB,
    }
