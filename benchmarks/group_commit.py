"""``group_commit``: many senders that each wait for one confirmation share the syncs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks._broker import BrokerProcess
from benchmarks._disk import append, data_folder
from benchmarks._processes import BenchmarkError, Worker, cpu_seconds, queue_facts, statistics, storage_facts
from benchmarks._report import Figure, Report, medians

QUEUE = "benchmark"
ROUND_TIMEOUT = 300.0
RATE_TARGET = 20_000
SYNCS_TARGET = 0.1
"""Syncs a message: a tenth."""
STORED_OVERHEAD = 1024
"""Bytes of a message beside its payload that the in-memory queue's limit leaves room for."""


def run(
    senders: int,
    messages: int,
    size: int,
    rounds: int,
    uvloop: bool,
    data: Path | None,
    profile: Path | None = None,
) -> Report:
    """Rounds of the durable broker (profiled, if ``profile`` names a file), the one in memory and the bare loops in turn."""
    load = {"senders": senders, "messages": messages, "size": size}
    results = []
    room = {"max_queue_messages": messages + 1_000_000, "max_queue_bytes": 2 * messages * (size + STORED_OVERHEAD)}
    with data_folder(data) as folder:
        for number in range(rounds):
            directory = {"directory": str(folder / str(number))}
            results.append(_through_broker("durable", directory, load, uvloop, profile))
            results.append(_through_broker("in memory", room, load, uvloop))
            results.append(_through_responder(load, uvloop))
            results.append(append(folder, messages, size, 1, senders) | {"kind": "append grouped"})
            results.append(append(folder, max(1, messages // senders), size, 1) | {"kind": "append each"})
    durable, memory, answered, grouped, each = (
        [one for one in results if one["kind"] == kind]
        for kind in ("durable", "in memory", "responder", "append grouped", "append each")
    )
    rate = medians(durable, "messages_per_s")
    return Report(
        "group_commit",
        f"{senders} senders, each a connection that sends one message and waits for its confirmation before it sends the next, in one "
        "process of bare sockets; a durable broker in another. Syncs are the broker's own count.",
        "the same senders and the broker in memory, and a process that answers each message and keeps nothing; a plain loop that "
        f"appends one message of each of {senders} senders and syncs; and one that syncs each message alone, which is what a broker "
        "without group commit could reach.",
        {
            "senders": senders,
            "messages": messages,
            "size": size,
            "rounds": rounds,
            "uvloop": uvloop,
            "profiled": profile is not None,
        },
        [
            Figure("confirmed, durable", rate, "msg/s", RATE_TARGET),
            Figure("syncs a message", medians(durable, "syncs_per_message"), "", SYNCS_TARGET, "less"),
            Figure("messages a sync", 1 / medians(durable, "syncs_per_message"), ""),
            Figure("from send to confirmation, p50", medians(durable, "p50") / 1000, "ms"),
            Figure("from send to confirmation, p99", medians(durable, "p99") / 1000, "ms"),
            Figure("broker's CPU per million messages", medians(durable, "broker_cpu_s") * 1e6 / messages, "s"),
            Figure("senders' CPU per million messages", medians(durable, "senders_cpu_s") * 1e6 / messages, "s"),
            Figure("confirmed, in memory", medians(memory, "messages_per_s"), "msg/s"),
            Figure("share of in memory", rate / medians(memory, "messages_per_s"), ""),
            Figure("ceiling: sockets alone, answered and not kept", medians(answered, "messages_per_s"), "msg/s"),
            Figure("share of sockets alone", rate / medians(answered, "messages_per_s"), ""),
            Figure("ceiling: append + fdatasync, one message of each", medians(grouped, "messages_per_s"), "msg/s"),
            Figure("share of appends", rate / medians(grouped, "messages_per_s"), ""),
            Figure("floor: append + fdatasync of each message", medians(each, "messages_per_s"), "msg/s"),
            Figure("times the floor", rate / medians(each, "messages_per_s"), ""),
        ],
        results,
    )


def _through_responder(load: dict[str, int], uvloop: bool) -> dict[str, Any]:
    with Worker("_waiting:respond", uvloop=uvloop) as responder:
        address = responder.hear()["address"]
        with Worker("_waiting:send_waiting", address=address, queue=QUEUE, **load) as worker:
            worker.hear()
            worker.go()
            sent = worker.hear(ROUND_TIMEOUT)
    return {
        "kind": "responder",
        "messages_per_s": load["messages"] / (sent["ended"] - sent["started"]),
        **sent["latency_us"],
    }


def _through_broker(
    kind: str, options: dict[str, Any], load: dict[str, int], uvloop: bool, profile: Path | None = None
) -> dict[str, Any]:
    messages = load["messages"]
    with (
        BrokerProcess(uvloop=uvloop, options=options, profile=profile) as broker,
        Worker("_waiting:send_waiting", address=broker.send_address, queue=QUEUE, **load) as worker,
    ):
        worker.hear()
        durable = kind == "durable"
        before = storage_facts(statistics(broker.send_address))["syncs"] if durable else 0
        cpu = cpu_seconds(broker.pid)
        worker.go()
        sent = worker.hear(ROUND_TIMEOUT)
        cpu = cpu_seconds(broker.pid) - cpu
        figures = statistics(broker.send_address)
        stored = queue_facts(figures, QUEUE)["ready"]
    if not sent["messages"] == stored == messages:
        raise BenchmarkError(f"of {messages} messages {sent['messages']} were confirmed, {stored} are in the queue")
    seconds = sent["ended"] - sent["started"]
    result = {
        "kind": kind,
        "seconds": seconds,
        "messages_per_s": messages / seconds,
        "broker_cpu_s": cpu,
        "senders_cpu_s": sent["cpu_s"],
        **sent["latency_us"],
    }
    if durable:
        syncs = storage_facts(figures)["syncs"] - before
        if not syncs:
            raise BenchmarkError(f"{messages} messages were confirmed without a sync")
        result["syncs_per_message"] = syncs / messages
    return result
