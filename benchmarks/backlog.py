"""``backlog``: what a broker with millions of messages on its disk needs, and what it still does."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._broker import BrokerProcess
from benchmarks._clients import LEVELS
from benchmarks._disk import data_folder, disk_bytes
from benchmarks._processes import (
    BenchmarkError,
    Worker,
    await_broker,
    peak_resident_bytes,
    queue_facts,
    resident_bytes,
    statistics,
    storage_facts,
)
from benchmarks._report import Figure, Report, medians
from benchmarks._transfer import PLAIN, QUEUE, Roles, Transfer, move, through_broker

MB = 1_000_000
MEMORY_TARGET_MB = 250.0
RESTART_TARGET = 2.0
"""Seconds from the start of the process, Python's own included, to the first delivery."""
SHARE_TARGET = 0.8
DISK_TARGET = 1.25
"""Bytes on disk for a byte of payload."""
RETURNED_TARGET_MB = 5 * 64 * 2**20 / MB
"""What may stay on disk when the queue is empty: the segment that is written, two that wait to be used again, two not yet given up."""
FILL_TIMEOUT = 1800.0
DRAIN_TIMEOUT = 1800.0
FIRST_TIMEOUT = 120.0
RETURN_TIMEOUT = 30.0
"""Seconds in which a drained broker must have given its disk back."""
RETURN_CHECK = 0.1
DRAIN_IN_FLIGHT = 64_000


@dataclass(frozen=True, slots=True)
class Case:
    """One way to make a backlog.

    Attributes:
        name: in the figures.
        messages: how many.
        size: bytes of a payload.
        batch: messages of a batch.
        moved: messages sent and received while the backlog stands.
        leveled: whether the queue has levels, and messages of each.
    """

    name: str
    messages: int
    size: int
    batch: int
    moved: int
    leveled: bool = False

    @property
    def roles(self) -> Roles:
        """Who sends and who receives."""
        return Roles(sender="_clients:send_levels") if self.leveled else PLAIN

    @property
    def options(self) -> dict[str, Any]:
        """The broker's, beside its directory."""
        return {"max_priority": LEVELS - 1} if self.leveled else {}

    @property
    def payload(self) -> int:
        """Bytes of all payloads."""
        return self.messages * self.size

    def transfer(self, messages: int, uvloop: bool) -> Transfer:
        """``messages`` of its kind; batches as an application deals in them, or single messages."""
        return Transfer(messages, self.size, self.batch, self.batch > 1, DRAIN_IN_FLIGHT, uvloop)


def run(cases: list[Case], rounds: int, uvloop: bool, data: Path | None) -> Report:
    """Each case by itself: fill, kill, restart, send and receive beside the backlog, drain."""
    results = []
    figures: list[Figure] = []
    for case in cases:
        with data_folder(data) as folder:
            found = _measure(case, folder, rounds, uvloop)
        results += found
        figures += _figures(case, found)
    return Report(
        "backlog",
        "a durable broker with a backlog: its memory (the kernel's peak of both lives, and at the end), kill -9 and the time from the "
        "restart of the process to a receiver's first message, the rate of a sender and a receiver that work at one time while the "
        "backlog stands, what its files take on disk, and what is left of them when everything is acknowledged.",
        "the rate of the same transfer through a durable broker without a backlog, in turn with it; the bytes of the payloads.",
        {
            "cases": [f"{case.messages:,} in batches of {case.batch:,}" for case in cases],
            "rounds": rounds,
            "uvloop": uvloop,
        },
        figures,
        results,
    )


def _measure(case: Case, folder: Path, rounds: int, uvloop: bool) -> list[dict[str, Any]]:
    options = {"directory": str(folder / "backlog"), **case.options}
    facts = _fill_and_kill(case, folder / "backlog", options, uvloop)
    results: list[dict[str, Any]] = [facts]
    with ExitStack() as stack:
        receiver = stack.enter_context(Worker("_clients:receive_first", queue=QUEUE, uvloop=uvloop))
        receiver.hear()
        started = time.monotonic()
        broker = stack.enter_context(BrokerProcess(uvloop=uvloop, options=options))
        listening = time.monotonic()
        receiver.go(address=broker.receive_address)
        first = receiver.hear(FIRST_TIMEOUT)
        facts |= {"restart_s": first["came"] - started, "listening_s": listening - started}
        await_broker(
            broker.send_address,
            f"{case.messages} messages ready after a restart",
            lambda figures: queue_facts(figures, QUEUE)["ready"] == case.messages,
        )
        if first["first"]:
            raise BenchmarkError(f"the first message after a restart is {first['first']}, not the oldest")
        transfer = case.transfer(case.moved, uvloop)
        for number in range(rounds):
            without = folder / f"without-{number}"
            empty = {"directory": str(without), **case.options}
            results.append(through_broker(transfer, empty, "without", case.roles) | {"case": case.name})
            results.append({"kind": "with", "case": case.name} | move(broker, transfer, backlog=True, roles=case.roles))
        facts["drained_per_s"] = _drain(case, broker, uvloop)
        facts["returned_bytes"] = _returned(folder / "backlog")
        facts["end_rss"] = resident_bytes(broker.pid)
        facts["peak_rss"] = max(facts["peak_rss"], peak_resident_bytes(broker.pid))
    return results


def _fill_and_kill(case: Case, directory: Path, options: dict[str, Any], uvloop: bool) -> dict[str, Any]:
    """Send the whole backlog to a new broker, look at what it takes, and kill it."""
    load = {"messages": case.messages, "size": case.size, "batch": case.batch, "batched": case.batch > 1}
    with BrokerProcess(uvloop=uvloop, options=options) as broker:
        empty = resident_bytes(broker.pid)
        with Worker(case.roles.sender, address=broker.send_address, queue=QUEUE, **load, uvloop=uvloop) as sender:
            sender.hear()
            sender.go()
            sent = sender.hear(FILL_TIMEOUT)
        figures = statistics(broker.send_address)
        ready = queue_facts(figures, QUEUE)["ready"]
        if not ready == sent["messages"] == case.messages:
            raise BenchmarkError(f"{case.messages} were sent, {sent['messages']} confirmed, {ready} are in the queue")
        facts = {
            "kind": "backlog",
            "case": case.name,
            "messages": case.messages,
            "filled_per_s": case.messages / (sent["ended"] - sent["started"]),
            "empty_rss": empty,
            "filled_rss": resident_bytes(broker.pid),
            "peak_rss": peak_resident_bytes(broker.pid),
            "disk_bytes": disk_bytes(directory),
            "storage": storage_facts(figures),
        }
        broker.kill()
    return facts


def _drain(case: Case, broker: BrokerProcess, uvloop: bool) -> float:
    """Receive and acknowledge everything; messages a second."""
    arguments = {"messages": case.messages, "max_in_flight": DRAIN_IN_FLIGHT, "batched": True, "uvloop": uvloop}
    with Worker("_clients:receive", address=broker.receive_address, queue=QUEUE, **arguments) as receiver:
        receiver.hear()
        started = time.monotonic()
        receiver.go()
        ended: float = receiver.hear(DRAIN_TIMEOUT)["ended"]
    facts = queue_facts(statistics(broker.send_address), QUEUE)
    if facts["ready"] or facts["in_flight"]:
        raise BenchmarkError(
            f"{facts['ready']} messages are ready, {facts['in_flight']} in flight, after all were taken"
        )
    return case.messages / (ended - started)


def _returned(directory: Path) -> int:
    """What the files take once they take no more than is wanted, or ``RETURN_TIMEOUT`` has passed."""
    deadline = time.monotonic() + RETURN_TIMEOUT
    while (left := disk_bytes(directory)) > RETURNED_TARGET_MB * MB and time.monotonic() < deadline:
        time.sleep(RETURN_CHECK)
    return left


def _figures(case: Case, results: list[dict[str, Any]]) -> list[Figure]:
    facts = results[0]
    standing = medians([one for one in results if one["kind"] == "with"], "messages_per_s")
    without = medians([one for one in results if one["kind"] == "without"], "messages_per_s")
    name = case.name
    return [
        Figure(f"{name}: filled", facts["filled_per_s"], "msg/s"),
        Figure(f"{name}: broker's memory, peak", facts["peak_rss"] / MB, "MB", MEMORY_TARGET_MB, "less"),
        Figure(f"{name}: with the backlog, before the kill", facts["filled_rss"] / MB, "MB", MEMORY_TARGET_MB, "less"),
        Figure(f"{name}: at the end", facts["end_rss"] / MB, "MB", MEMORY_TARGET_MB, "less"),
        Figure(f"{name}: of an empty broker", facts["empty_rss"] / MB, "MB"),
        Figure(f"{name}: from restart to the first delivery", facts["restart_s"], "s", RESTART_TARGET, "less"),
        Figure(f"{name}: of it until it listens", facts["listening_s"], "s"),
        Figure(f"{name}: sent and received, with the backlog", standing, "msg/s"),
        Figure(f"{name}: ceiling, without a backlog", without, "msg/s"),
        Figure(f"{name}: share", standing / without, "", SHARE_TARGET),
        Figure(f"{name}: disk / payload", facts["disk_bytes"] / case.payload, "", DISK_TARGET, "less"),
        Figure(f"{name}: drained", facts["drained_per_s"], "msg/s"),
        Figure(f"{name}: disk when drained", facts["returned_bytes"] / MB, "MB", RETURNED_TARGET_MB, "less"),
    ]
