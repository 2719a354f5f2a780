"""``latency``: how old a message is when its receiver gets it, at a rate that nobody has trouble with."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from benchmarks._broker import BrokerProcess
from benchmarks._paced import SHARES
from benchmarks._processes import BenchmarkError, Worker, await_receivers, queue_facts, statistics
from benchmarks._relay import RelayProcess
from benchmarks._report import Figure, Report, medians

QUEUE = "benchmark"
GRACE = 60.0
"""Seconds beyond the schedule for the last message to arrive."""
TARGETS_MS = {"p50": 1.0, "p99": 5.0}
POINTS = (*SHARES, "max")


def run(
    rate: float, seconds: float, warm_up: float, size: int, max_in_flight: int, rounds: int, uvloop: bool
) -> Report:
    """Rounds of broker and relay in turn."""
    count, skip = max(1, int(rate * (seconds + warm_up))), int(rate * warm_up)
    schedule = {"rate": rate, "count": count, "size": size}
    timeout = seconds + warm_up + GRACE
    results = []
    for _ in range(rounds):
        results.append(_through_broker(schedule, skip, max_in_flight, uvloop, timeout))
        results.append(_through_relay(schedule, skip, uvloop, timeout))
    own = [one for one in results if one["kind"] == "broker"]
    bare = [one for one in results if one["kind"] == "relay"]
    figures = [
        Figure(f"{point}, sender to receiver", medians(own, point) / 1000, "ms", TARGETS_MS.get(point), "less")
        for point in POINTS
    ]
    figures += [Figure(f"ceiling: {point}, bare relay", medians(bare, point) / 1000, "ms") for point in POINTS]
    figures.append(Figure("lateness of the paced sender itself, p50", medians(own, "late p50") / 1000, "ms"))
    figures.append(Figure("lateness of the paced sender itself, p99", medians(own, "late p99") / 1000, "ms"))
    return Report(
        "latency",
        "the time from the moment at which a message was to be sent (an absolute schedule, so a stall is not omitted; the sender's own "
        "lateness is part of it) to the moment at which the receiver's handler has it as a delivery; three processes, each message "
        "sent and acknowledged by itself.",
        "the same schedule and frames, each written to a bare transport, through the do-nothing relay, decoded and timed by a bare "
        "protocol: what loops, sockets and the paced sender cost. Rounds alternate.",
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
    schedule: dict[str, Any], skip: int, max_in_flight: int, uvloop: bool, timeout: float
) -> dict[str, Any]:
    count = schedule["count"]
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(uvloop=uvloop))
        receiving = {"count": count, "skip": skip, "max_in_flight": max_in_flight, "uvloop": uvloop}
        receiver = stack.enter_context(
            Worker("_paced:receive_timed", address=broker.receive_address, queue=QUEUE, **receiving)
        )
        sender = stack.enter_context(Worker("_paced:send_paced", address=broker.send_address, queue=QUEUE, **schedule))
        receiver.hear()
        sender.hear()
        await_receivers(broker.send_address, QUEUE, 1)
        sender.go()
        sent, received = sender.hear(timeout), receiver.hear(timeout)
        acknowledged = queue_facts(statistics(broker.send_address), QUEUE)["total_acknowledged"]
    if not count == sent["messages"] == received["messages"] == acknowledged:
        raise BenchmarkError(f"of {count} messages {received['messages']} arrived, {acknowledged} were acknowledged")
    return _outcome("broker", sent, received)


def _through_relay(schedule: dict[str, Any], skip: int, uvloop: bool, timeout: float) -> dict[str, Any]:
    with ExitStack() as stack:
        relay = stack.enter_context(RelayProcess("loop", uvloop=uvloop))
        reader = stack.enter_context(
            Worker("_paced:read_timed", address=relay.receive_address, skip=skip, uvloop=uvloop)
        )
        reader.hear()
        relay.hear()
        writer = stack.enter_context(Worker("_paced:write_paced", address=relay.send_address, **schedule))
        writer.hear()
        writer.go()
        sent, received = writer.hear(timeout), reader.hear(timeout)
    if received["messages"] != schedule["count"]:
        raise BenchmarkError(f"of {schedule['count']} messages {received['messages']} came through the relay")
    return _outcome("relay", sent, received)


def _outcome(kind: str, sent: dict[str, Any], received: dict[str, Any]) -> dict[str, Any]:
    late = {f"late {point}": value for point, value in sent["lateness_us"].items()}
    return {"kind": kind, "unit": "us", **received["latency_us"], **late}
