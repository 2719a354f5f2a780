"""``idle``: what a broker costs while nothing happens."""

from __future__ import annotations

import time
from contextlib import ExitStack

from benchmarks._broker import BrokerProcess
from benchmarks._processes import MIB, Worker, await_broker, cpu_seconds, resident_bytes
from benchmarks._report import Figure, Report, medians

QUEUE = "benchmark"
TARGET_PERCENT = 1.0
SETTLE_SECONDS = 1.0
"""Between the last connection and the clock's start: the first demand and the administration's own connection are over by then."""


def run(seconds: float, senders: int, receivers: int, rounds: int, uvloop: bool) -> Report:
    """A broker with idle connections and one without any, over the same seconds."""
    results = [_measure(seconds, senders, receivers, uvloop) for _ in range(rounds)]
    figures = [
        Figure("broker's share of a core, idle connections", medians(results, "percent"), "%", TARGET_PERCENT, "less"),
        Figure("floor: a broker without connections", medians(results, "floor_percent"), "%"),
        Figure("broker's memory, idle connections", medians(results, "rss_mib"), "MiB"),
        Figure("memory of a broker without connections", medians(results, "floor_rss_mib"), "MiB"),
        Figure("share of a core of all the clients", medians(results, "client_percent"), "%"),
    ]
    return Report(
        "idle",
        "processor time of a broker whose senders have nothing to send and whose receivers wait; heartbeats go on. Read from the kernel, "
        "whose tick of 10 ms is the resolution.",
        "a second broker without any connection, at the same time.",
        {"seconds": seconds, "senders": senders, "receivers": receivers, "rounds": rounds, "uvloop": uvloop},
        figures,
        results,
    )


def _measure(seconds: float, senders: int, receivers: int, uvloop: bool) -> dict[str, float]:
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(uvloop=uvloop))
        alone = stack.enter_context(BrokerProcess(uvloop=uvloop))
        clients = stack.enter_context(
            Worker(
                "_links:stay_idle",
                send_address=broker.send_address,
                receive_address=broker.receive_address,
                queue=QUEUE,
                senders=senders,
                receivers=receivers,
                uvloop=uvloop,
            )
        )
        clients.hear()
        await_broker(
            broker.send_address,
            f"{senders + receivers} connections",
            # The one that asks is a connection, too.
            lambda figures: figures["broker"]["connections"] > senders + receivers,
        )
        time.sleep(SETTLE_SECONDS)
        pids = {"percent": broker.pid, "floor_percent": alone.pid, "client_percent": clients.pid}
        before = {name: cpu_seconds(pid) for name, pid in pids.items()}
        started = time.monotonic()
        time.sleep(seconds)
        elapsed = time.monotonic() - started
        result = {name: (cpu_seconds(pid) - before[name]) / elapsed * 100 for name, pid in pids.items()}
        result |= {
            "rss_mib": resident_bytes(broker.pid) / MIB,
            "floor_rss_mib": resident_bytes(alone.pid) / MIB,
        }
        clients.go()
    return result
