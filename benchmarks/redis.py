"""``redis``: what a durable message costs the broker, and how long it takes, beside Redis on the same schedule."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

from benchmarks._broker import BrokerProcess
from benchmarks._disk import data_folder
from benchmarks._processes import (
    BenchmarkError,
    Facts,
    Worker,
    await_receivers,
    context_switches,
    cpu_seconds,
    queue_facts,
    statistics,
    storage_facts,
)
from benchmarks._redis_clients import books, make_group
from benchmarks._redis_server import RedisServer
from benchmarks._report import Figure, Report, medians

QUEUE = "benchmark"
GRACE = 60.0
"""Seconds beyond the schedule for the last message to arrive."""
CPU_TARGET = 1.2
"""Times Redis's processor time."""
LATENCY_TARGET = 1.0
"""Times Redis's latency."""
POINTS = ("p50", "p99")

Side = Literal["penstock", "redis"]
Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Load:
    """What both brokers are given.

    Attributes:
        rate: messages a second.
        count: messages in all.
        skip: how many of the first ones do not count among the latencies.
        size: bytes of a payload.
        max_in_flight: the receiver's.
        timeout: seconds for the last of them to be through.
    """

    rate: float
    count: int
    skip: int
    size: int
    max_in_flight: int
    timeout: float

    @property
    def schedule(self) -> Facts:
        """The sender's part."""
        return {"rate": self.rate, "count": self.count, "size": self.size, "skip": self.skip}

    @property
    def receiving(self) -> Facts:
        """The receiver's part."""
        return {"count": self.count, "skip": self.skip, "max_in_flight": self.max_in_flight}


def run(
    rate: float,
    seconds: float,
    warm_up: float,
    size: int,
    max_in_flight: int,
    rounds: int,
    one_at_a_time: bool,
    uvloop: bool,
    data: Path | None,
) -> Report:
    """Rounds of both brokers in turn, with a receiver and without one; every second round begins with Redis."""
    count = max(1, int(rate * (seconds + warm_up)))
    load = Load(rate, count, min(int(rate * warm_up), count - 1), size, max_in_flight, seconds + warm_up + GRACE)
    results: list[Result] = []
    with data_folder(data) as folder:
        for number in range(rounds):
            sides: list[Side] = ["penstock", "redis"] if number % 2 == 0 else ["redis", "penstock"]
            for receives in (True, False):
                for side in sides:
                    place = folder / f"{side}-{number}-{receives}"
                    if side == "penstock":
                        results.append(_through_penstock(place, load, receives, uvloop))
                    else:
                        results.append(_through_redis(place, load, receives, one_at_a_time))
    return Report(
        "redis",
        "a sender on an absolute schedule and a receiver, each a process of its own, each message sent and acknowledged by itself; then "
        "the sender alone. Processor time and context switches are those of the broker's process, all its threads, from the first "
        "message to the end of the last. Latencies count from the moment at which a message was to be sent.",
        "redis-server with `appendonly yes`, `appendfsync always` and without snapshots, its files beside the journal: a stream with "
        "one consumer group, redis-py's blocking connection. The receiver sends XACK, XDEL and the next XREADGROUP in one write. Rounds "
        "alternate; ratios are medians of the rounds' own.",
        {
            "rate": rate,
            "seconds": seconds,
            "warm_up": warm_up,
            "size": size,
            "max_in_flight": max_in_flight,
            "rounds": rounds,
            "one_at_a_time": one_at_a_time,
            "uvloop": uvloop,
            "redis": next(one["version"] for one in results if "version" in one),
        },
        [*_figures(results, receives=True), *_figures(results, receives=False)],
        results,
    )


def _figures(results: list[Result], receives: bool) -> list[Figure]:
    """Of one pair: each figure of both brokers, and how many times Redis's ours is where something is wanted of it."""
    ours, theirs = ([one for one in results if one["kind"] == _kind(side, receives)] for side in ("penstock", "redis"))
    end = "" if receives else ", no receiver"

    def beside(key: str, name: str, unit: str, scale: float, target: float | None) -> list[Figure]:
        figures = [
            Figure(f"{name}{end}, {broker}", medians(rounds, key) * scale, unit)
            for broker, rounds in (("Penstock", ours), ("Redis", theirs))
        ]
        if target is not None:
            share = median(mine[key] / other[key] for mine, other in zip(ours, theirs, strict=True))
            figures.append(Figure(f"{name}{end}, times Redis's", share, "", target, "less"))
        return figures

    figures = [
        *beside("broker_cpu_us", "broker's CPU a message", "us", 1, CPU_TARGET),
        *beside("switches", "context switches a message", "", 1, None),
        # Redis does not count its own.
        Figure(f"syncs a message{end}, Penstock", medians(ours, "syncs"), ""),
    ]
    for part in ("send to confirmation", "sender to receiver") if receives else ("send to confirmation",):
        for point in POINTS:
            figures += beside(f"{part} {point}", f"{point}, {part}", "ms", 1e-3, LATENCY_TARGET)
    for point in POINTS:
        figures += beside(f"late {point}", f"lateness of the paced sender itself, {point}", "ms", 1e-3, None)
    return figures


def _kind(side: str, receives: bool) -> str:
    return side if receives else f"{side}, no receiver"


def _through_penstock(directory: Path, load: Load, receives: bool, uvloop: bool) -> Result:
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(uvloop=uvloop, options={"directory": str(directory)}))
        receiver = None
        if receives:
            receiver = stack.enter_context(
                Worker(
                    "_paced:receive_timed", address=broker.receive_address, queue=QUEUE, uvloop=uvloop, **load.receiving
                )
            )
        sender = stack.enter_context(
            Worker("_paced:send_paced_confirmed", address=broker.send_address, queue=QUEUE, **load.schedule)
        )
        if receiver is not None:
            receiver.hear()
            await_receivers(broker.send_address, QUEUE, 1)
        result = _measure("penstock", broker.pid, load, sender, receiver)
        figures = statistics(broker.send_address)
    queue = queue_facts(figures, QUEUE)
    left, acknowledged = queue["ready"] + queue["in_flight"], queue["total_acknowledged"]
    if (left, acknowledged) != ((0, load.count) if receives else (load.count, 0)):
        raise BenchmarkError(f"of {load.count} messages {acknowledged} were acknowledged, {left} are in the queue")
    syncs = storage_facts(figures)["syncs"]
    if not syncs:
        raise BenchmarkError(f"{load.count} messages were confirmed without a sync")
    return result | {"syncs": syncs / load.count}


def _through_redis(directory: Path, load: Load, receives: bool, one_at_a_time: bool) -> Result:
    with ExitStack() as stack:
        server = stack.enter_context(RedisServer(directory))
        version = make_group(server.port)
        receiver = None
        if receives:
            receiver = stack.enter_context(Worker("_redis_clients:take_timed", port=server.port, **load.receiving))
        sender = stack.enter_context(
            Worker("_redis_clients:add_paced", port=server.port, one_at_a_time=one_at_a_time, **load.schedule)
        )
        if receiver is not None:
            receiver.hear()
        result = _measure("redis", server.pid, load, sender, receiver)
        left = books(server.port)
    wanted = {"entries": 0 if receives else load.count, "pending": 0, "syncs": "always", "appends": 1}
    if left != wanted:
        raise BenchmarkError(f"Redis's books are {left} after {load.count} messages, not {wanted}")
    return result | {"version": version}


def _measure(side: Side, pid: int, load: Load, sender: Worker, receiver: Worker | None) -> Result:
    """Let the sender go, and look at the broker ``pid`` before its first message and after the end of the last."""
    sender.hear()
    switches, cpu = context_switches(pid), cpu_seconds(pid)
    sender.go()
    sent = sender.hear(load.timeout)
    received = None if receiver is None else receiver.hear(load.timeout)
    cpu, switches = cpu_seconds(pid) - cpu, context_switches(pid) - switches
    arrived = sent if received is None else received
    if not load.count == sent["messages"] == arrived["messages"]:
        raise BenchmarkError(
            f"of {load.count} messages {sent['messages']} were confirmed, {arrived['messages']} arrived"
        )
    result: Result = {
        "kind": _kind(side, receiver is not None),
        "unit": "us",
        "broker_cpu_us": cpu / load.count * 1e6,
        "switches": switches / load.count,
    }
    result |= {f"send to confirmation {point}": value for point, value in sent["latency_us"].items()}
    result |= {f"late {point}": value for point, value in sent["lateness_us"].items()}
    if received is not None:
        result |= {f"sender to receiver {point}": value for point, value in received["latency_us"].items()}
    return result
