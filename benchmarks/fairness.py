"""``fairness``: many receivers of one queue, few of them with demand; and what it costs to come and go."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from benchmarks._broker import BrokerProcess
from benchmarks._links import raise_file_limit
from benchmarks._processes import BenchmarkError, Worker, await_receivers, cpu_seconds, queue_facts, statistics
from benchmarks._report import Figure, Report, medians

QUEUE = "benchmark"
FAIR_SHARE = 0.5
"""Of the mean, for the active receiver that gets least."""
GROWTH_TARGET = 3.0
"""Of the time for twice as many: 2 when the cost of one does not depend on the others, 4 when it grows with their number."""
TIMEOUT = 300.0
SPARE_FILES = 100
"""What a process opens beside its connections."""


def run(connected: int, active: int, messages: int, size: int, max_in_flight: int, rounds: int, uvloop: bool) -> Report:
    """Rounds of: half the connections, all of them, and the crowd."""
    limit = raise_file_limit()
    if connected + SPARE_FILES > limit:
        raise BenchmarkError(f"{connected} connections need more open files than the {limit} that a process may have")
    half = max(1, connected // 2)
    results: list[dict[str, Any]] = []
    for _ in range(rounds):
        results.append({"kind": "half"} | _come_and_go(half, uvloop))
        results.append({"kind": "all"} | _come_and_go(connected, uvloop))
        results.append({"kind": "crowd"} | _crowd(connected, active, messages, size, max_in_flight, uvloop))
    halves, wholes, crowds = ([one for one in results if one["kind"] == kind] for kind in ("half", "all", "crowd"))
    connect, connect_half = medians(wholes, "connect_s"), medians(halves, "connect_s")
    leave, leave_half = medians(wholes, "disconnect_s"), medians(halves, "disconnect_s")
    cpu, cpu_half = medians(wholes, "broker_cpu_s"), medians(halves, "broker_cpu_s")
    figures = [
        Figure("least that an active receiver got", medians(crowds, "min"), "msg"),
        Figure("mean", medians(crowds, "mean"), "msg"),
        Figure("most", medians(crowds, "max"), "msg"),
        Figure("least / mean", medians(crowds, "min") / medians(crowds, "mean"), "", FAIR_SHARE),
        Figure("messages through the crowd", medians(crowds, "messages_per_s"), "msg/s"),
        Figure(f"connect {half}", connect_half, "s"),
        Figure(f"connect {connected}", connect, "s"),
        Figure("times as long for twice as many", connect / connect_half, "", GROWTH_TARGET, "less"),
        Figure(f"disconnect {half}", leave_half, "s"),
        Figure(f"disconnect {connected}", leave, "s"),
        Figure("times as long for twice as many, leaving", leave / leave_half, "", GROWTH_TARGET, "less"),
        Figure(f"broker's CPU for {half} to come and go", cpu_half, "s"),
        Figure(f"broker's CPU for {connected} to come and go", cpu, "s"),
        Figure("times as much for twice as many", cpu / cpu_half, "", GROWTH_TARGET, "less"),
    ]
    return Report(
        "fairness",
        "how evenly the active ones among many connected receivers of one queue are served, and how long it takes to connect (TCP, HELLO, "
        "WELCOME) and to disconnect (CANCEL, the broker's close) all of them.",
        "an equal share, the mean; and for coming and going, time proportional to the number.",
        {
            "connected": connected,
            "active": active,
            "messages": messages,
            "size": size,
            "max_in_flight": max_in_flight,
            "rounds": rounds,
            "uvloop": uvloop,
        },
        figures,
        results,
    )


def _come_and_go(count: int, uvloop: bool) -> dict[str, Any]:
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(uvloop=uvloop))
        clients = stack.enter_context(
            Worker(
                "_links:connect_and_disconnect",
                address=broker.receive_address,
                queue=QUEUE,
                count=count,
                uvloop=uvloop,
            )
        )
        clients.hear()
        cpu = cpu_seconds(broker.pid)
        clients.go()
        times = clients.hear(TIMEOUT)
        cpu = cpu_seconds(broker.pid) - cpu
        left = queue_facts(statistics(broker.send_address), QUEUE)["receivers"]
    if left:
        raise BenchmarkError(f"{left} of {count} receivers are still there after they have gone")
    return {**times, "broker_cpu_s": cpu}


def _crowd(connected: int, active: int, messages: int, size: int, max_in_flight: int, uvloop: bool) -> dict[str, Any]:
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(uvloop=uvloop))
        crowd = stack.enter_context(
            Worker(
                "_links:receive_in_crowd",
                address=broker.receive_address,
                queue=QUEUE,
                messages=messages,
                connected=connected,
                active=active,
                max_in_flight=max_in_flight,
                uvloop=uvloop,
            )
        )
        sender = stack.enter_context(
            Worker(
                "_clients:send",
                address=broker.send_address,
                queue=QUEUE,
                messages=messages,
                size=size,
                batch=1_000,
                batched=False,
                uvloop=uvloop,
            )
        )
        crowd.hear(TIMEOUT)
        sender.hear()
        await_receivers(broker.send_address, QUEUE, connected)
        sender.go()
        sent = sender.hear(TIMEOUT)
        received = crowd.hear(TIMEOUT)
        facts = queue_facts(statistics(broker.send_address), QUEUE)
    counts = received["counts"]
    if not messages == sent["messages"] == sum(counts) == facts["total_acknowledged"]:
        raise BenchmarkError(
            f"{messages} were sent, {sum(counts)} received, {facts['total_acknowledged']} acknowledged"
        )
    return {
        "min": min(counts),
        "mean": sum(counts) / len(counts),
        "max": max(counts),
        "messages_per_s": messages / (received["ended"] - sent["started"]),
        "counts": counts,
    }
