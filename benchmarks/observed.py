"""``observed``: what it costs a broker that a console is open and that Prometheus asks each second, and how long its loop stands still."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks._processes import BenchmarkError, Worker, context_switches, cpu_seconds
from benchmarks._report import Figure, Report, medians
from benchmarks._transfer import Transfer, move

LEAST_SHARE = 0.97
"""Of what goes through a broker that nobody looks at."""
LONGEST_MS = 5.0
MANY = 10_000
"""Queues of the broker whose loop is watched."""
IDLE_QUEUES = 10
SETTLE_SECONDS = 6.0
"""Behind the last look: longer than the sampler runs on."""
KINDS = ("nobody looks", "looked at")


class Observed(Worker):
    """A broker with so many queues.

    Attributes:
        send_address: where senders connect.
        receive_address: where receivers connect.
        http: where HTTP is spoken, if it is.
    """

    def __init__(self, queues: int, *, uvloop: bool, listens: bool = True, profile: Path | None = None) -> None:
        path = None if profile is None else f"{profile.resolve()}.{queues}"
        super().__init__("_observed:serve", uvloop=uvloop, queues=queues, listens=listens, profile=path)
        try:
            facts = self.hear()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        self.send_address: str = facts["send_address"]
        self.receive_address: str = facts["receive_address"]
        self.http: str | None = facts["http"]

    def state(self) -> dict[str, Any]:
        """Who looks, and what timers there are."""
        self.go(watch=False, change=0)
        return self.hear()


def run(
    transfer: Transfer, queues: list[int], many: int, change: int, seconds: float, rounds: int, idle_rounds: int
) -> Report:
    """Throughput with and without who looks, in turn; then the turns of the loop; then the idle processor time."""
    results: list[dict[str, Any]] = []
    for number in queues:
        results += _transfers(transfer, number, rounds)
    results += _turns(many, change, seconds, rounds, transfer)
    results += _idle(seconds, idle_rounds)
    return Report(
        "observed",
        "sender, broker in memory and receiver as in throughput, while a console reads its stream of events about their queue and the two "
        "pages of metrics are asked for each second. Then the processor time of the loop's longest turn, while queues change each second. "
        "Then processor time with a listener of HTTP at which nobody asks.",
        "the same broker at which nobody looks, in turn; and one without a listener of HTTP, at the same time.",
        {
            "messages": transfer.messages,
            "size": transfer.size,
            "batch": transfer.batch,
            "queues": queues,
            "watched_queues": many,
            "change": change,
            "seconds": seconds,
            "rounds": rounds,
            "uvloop": transfer.uvloop,
            "profiled": transfer.profile is not None,
        },
        _figures(results, queues, many),
        results,
    )


def _transfers(transfer: Transfer, queues: int, rounds: int) -> list[dict[str, Any]]:
    results = []
    with ExitStack() as stack:
        broker = stack.enter_context(Observed(queues, uvloop=transfer.uvloop, profile=transfer.profile))
        looking = stack.enter_context(Worker("_observed:look", address=broker.http))
        for number in range(rounds):
            one: dict[str, dict[str, Any]] = {}
            # Neither is always the first of a round.
            for kind in KINDS if number % 2 else reversed(KINDS):
                queue = f"moved-{number}-{kind.split()[0]}"
                seen = {}
                if kind == KINDS[1]:
                    looking.go(queue=queue)
                    looking.hear()
                moved = move(broker, transfer, queue=queue)
                if kind == KINDS[1]:
                    looking.go()
                    seen = looking.hear()
                per_cpu = transfer.messages / moved["broker_cpu_s"]
                one[kind] = {"kind": kind, "queues": queues, "messages_per_cpu_s": per_cpu} | seen | moved
                results.append(one[kind])
            for figure in ("messages_per_s", "messages_per_cpu_s"):
                one[KINDS[1]][f"share of {figure}"] = one[KINDS[1]][figure] / one[KINDS[0]][figure]
    return results


def _turns(queues: int, change: int, seconds: float, rounds: int, transfer: Transfer) -> list[dict[str, Any]]:
    """The longest turns of the loop while queues change, looked at and not."""
    results = []
    with ExitStack() as stack:
        broker = stack.enter_context(Observed(queues, uvloop=transfer.uvloop))
        looking = stack.enter_context(Worker("_observed:look", address=broker.http))
        for number in range(2 * rounds):
            kind, seen = KINDS[number % 2], {}
            broker.go(watch=True, change=change)
            cpu = cpu_seconds(broker.pid)
            if kind == KINDS[1]:
                looking.go(queue="orders.of.shop.00000")
                looking.hear()
            time.sleep(seconds)
            if kind == KINDS[1]:
                looking.go()
                seen = looking.hear()
            broker.go()
            said = broker.hear()
            cpu = cpu_seconds(broker.pid) - cpu
            results.append({"kind": f"turns, {kind}", "longest_ms": said["longest"] * 1000, "cpu_s": cpu} | seen)
    return results


def _idle(seconds: float, rounds: int) -> list[dict[str, Any]]:
    """Processor time with nobody there; asyncio's own loop, whose timers can be listed."""
    results = []
    with ExitStack() as stack:
        brokers = {
            "with HTTP": stack.enter_context(Observed(IDLE_QUEUES, uvloop=False)),
            "without HTTP": stack.enter_context(Observed(IDLE_QUEUES, uvloop=False, listens=False)),
        }
        looking = stack.enter_context(Worker("_observed:look", address=brokers["with HTTP"].http))
        # The metrics would have the loop's delay measured for longer than anybody waits here.
        looking.go(queue="orders.of.shop.00000", pages=[])
        looking.hear()
        looking.go()
        looking.hear()
        time.sleep(SETTLE_SECONDS)
        for _ in range(rounds):
            before = {name: (cpu_seconds(each.pid), context_switches(each.pid)) for name, each in brokers.items()}
            time.sleep(seconds)
            for name, each in brokers.items():
                cpu, switches = before[name]
                used = {
                    "cpu_ms": (cpu_seconds(each.pid) - cpu) * 1000,
                    "switches": context_switches(each.pid) - switches,
                }
                results.append({"kind": f"idle, {name}"} | used)
        for name, each in brokers.items():
            state = each.state()
            if state["looks"]:
                raise BenchmarkError(f"the sampler runs {name}, and nobody looks")
            results[-1 if name == "without HTTP" else -2]["timers"] = len(state["timers"])
    return results


def _figures(results: list[dict[str, Any]], queues: list[int], many: int) -> list[Figure]:
    def own(kind: str, number: int | None = None) -> list[dict[str, Any]]:
        return [one for one in results if one["kind"] == kind and (number is None or one["queues"] == number)]

    figures = []
    for number in queues:
        there, seen = f"{number:,} queues", own(KINDS[1], number)
        figures += [Figure(f"{there}, {kind}", medians(own(kind, number), "messages_per_s"), "msg/s") for kind in KINDS]
        share = medians(seen, "share of messages_per_s")
        figures.append(Figure(f"{there}: share of nobody looking", share, "", LEAST_SHARE))
        share = medians(seen, "share of messages_per_cpu_s")
        figures.append(Figure(f"{there}: share, by the broker's processor time", share, "", LEAST_SHARE))
    for kind in KINDS:
        longest = max(one["longest_ms"] for one in own(f"turns, {kind}"))
        target = LONGEST_MS if kind == KINDS[1] else None
        figures.append(Figure(f"{many:,} queues, {kind}: longest turn of the loop", longest, "ms", target, "less"))
    for name in ("with HTTP", "without HTTP"):
        idle = own(f"idle, {name}")
        figures.append(Figure(f"idle {name}: processor time", medians(idle, "cpu_ms"), "ms"))
        figures.append(Figure(f"idle {name}: context switches", medians(idle, "switches"), ""))
        figures.append(Figure(f"idle {name}: timers", medians(idle, "timers"), ""))
    return figures
