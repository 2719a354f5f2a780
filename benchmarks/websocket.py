"""``websocket``: what the native protocol costs a broker over WebSocket, beside TCP."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks._broker import ANY_PORT, BrokerProcess
from benchmarks._processes import BenchmarkError, Worker, await_receivers, cpu_seconds, queue_facts, statistics
from benchmarks._report import Figure, Report, medians

LEAST_SHARE = 0.3
"""Of what a broker moves over TCP in the same processor time."""
TRANSFER_TIMEOUT = 300.0
KINDS = ("TCP", "WebSocket")


def run(
    messages: int, size: int, batch: int, max_in_flight: int, rounds: int, uvloop: bool, profile: Path | None
) -> Report:
    """Rounds of both in turn, on one broker, so that what else the machine does meets them alike."""
    results = []
    with BrokerProcess(uvloop=uvloop, profile=profile, options={"http": ANY_PORT}) as broker:
        for number in range(rounds):
            # Neither is always the first of a round.
            order = KINDS if number % 2 else tuple(reversed(KINDS))
            results += [_move(broker, kind, f"{kind}-{number}", messages, size, batch, max_in_flight) for kind in order]
    own = {kind: [one for one in results if one["kind"] == kind] for kind in KINDS}
    shares = [
        {"share": webs["messages_per_cpu_s"] / plain["messages_per_cpu_s"]}
        for plain, webs in zip(own["TCP"], own["WebSocket"], strict=True)
    ]
    figures = [
        Figure(f"messages a CPU second of the broker, {kind}", medians(own[kind], "messages_per_cpu_s"), "msg/s")
        for kind in KINDS
    ]
    figures.append(Figure("share of TCP's", medians(shares, "share"), "", LEAST_SHARE))
    figures += [Figure(f"messages a second, {kind}", medians(own[kind], "messages_per_s"), "msg/s") for kind in KINDS]
    return Report(
        "websocket",
        "a sender, a broker in memory and a receiver as three processes, over WebSocket: batches made beforehand, a message of WebSocket "
        "for each frame. The broker's processor time counts, from the first batch to the last confirmation and acknowledgement.",
        "the same clients over TCP, the two in turn on one broker.",
        {
            "messages": messages,
            "size": size,
            "batch": batch,
            "max_in_flight": max_in_flight,
            "rounds": rounds,
            "uvloop": uvloop,
        },
        figures,
        results,
    )


def _move(
    broker: BrokerProcess, kind: str, queue: str, messages: int, size: int, batch: int, max_in_flight: int
) -> dict[str, Any]:
    """One transfer, through a queue of its own."""
    assert broker.http is not None
    websocket = kind == "WebSocket"
    common = {"websocket": websocket, "queue": queue, "messages": messages}
    sending, receiving = (broker.http, broker.http) if websocket else (broker.send_address, broker.receive_address)
    with ExitStack() as stack:
        receiver = stack.enter_context(
            Worker("_websocket_clients:receive", address=receiving, max_in_flight=max_in_flight, **common)
        )
        sender = stack.enter_context(
            Worker("_websocket_clients:send", address=sending, size=size, batch=batch, **common)
        )
        receiver.hear()
        sender.hear()
        receiver.go()
        await_receivers(broker.send_address, queue, 1)
        cpu = cpu_seconds(broker.pid)
        sender.go()
        sent = sender.hear(TRANSFER_TIMEOUT)
        received = receiver.hear(TRANSFER_TIMEOUT)
        cpu = cpu_seconds(broker.pid) - cpu
        facts = queue_facts(statistics(broker.send_address), queue)
    counts = {sent["messages"], received["messages"], facts["total_acknowledged"], messages}
    if counts != {messages} or facts["total_redelivered"]:
        raise BenchmarkError(f"{messages} were sent, but {sent}, {received}, {facts}")
    seconds = max(sent["ended"], received["ended"]) - sent["started"]
    return {
        "kind": kind,
        "seconds": seconds,
        "messages_per_s": messages / seconds,
        "messages_per_cpu_s": messages / cpu,
        "broker_cpu_s": cpu,
        "sender_cpu_s": sent["cpu_s"],
        "receiver_cpu_s": received["cpu_s"],
        "delivered_batches": received["elements"],
    }
