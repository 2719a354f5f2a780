"""``amqp``: durable messages over AMQP beside RabbitMQ's classic and quorum queues, by pika, aio-pika, py-amqp, and prepared frames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks._amqp_raw import declare, delete, left_in
from benchmarks._beside_rabbitmq import beside_rabbitmq, in_turn
from benchmarks._processes import BenchmarkError, Worker, cpu_seconds
from benchmarks._report import Figure, Report, medians

OURS: Final = "Penstock"
KINDS: Final = ("classic", "quorum")
THEIRS: Final = {kind: f"RabbitMQ {kind}" for kind in KINDS}
WINDOW: Final = 1_000
"""Messages unconfirmed, and unacknowledged."""
RAW_WINDOW: Final = 10_000
PUBLISHERS: Final = 64
TIMEOUT: Final = 300.0
GRACE: Final = 60.0
POINTS: Final = ("p50", "p99")
PIKA_TARGET, CPU_TARGET, OTHERS_TARGET = 1.4, 0.4, 1.0
RAW_TARGET, RAW_RATE, AWAITING_TARGET = 3.0, 100_000, 1.5
LATENCY_TARGET = 1.0

Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Load:
    """How much of each part, in a round.

    Attributes:
        pika: messages by pika,
        aio_pika: by aio-pika,
        py_amqp: by py-amqp,
        raw: by prepared frames,
        awaiting: of 64 publishers together.
        rate: messages a second of the paced part.
        seconds: of it that count.
        warm_up: seconds before them.
        size: bytes of a payload.
    """

    pika: int
    aio_pika: int
    py_amqp: int
    raw: int
    awaiting: int
    rate: float
    seconds: float
    warm_up: float
    size: int


@dataclass(frozen=True, slots=True)
class Side:
    """One of those that are compared.

    Attributes:
        name: in the table.
        kind: of its queues.
        port: where it speaks AMQP.
        pid: whose processor time is the broker's.
    """

    name: str
    kind: str
    port: int
    pid: int


def run(load: Load, rounds: int, uvloop: bool, data: Path | None) -> Report:
    """Rounds of every part on every side in turn; each round begins with another side."""
    results: list[Result] = []
    with beside_rabbitmq(uvloop, data) as both:
        sides = [Side(OURS, "classic", both.ours.port, both.ours.pid)]
        if both.theirs is not None:
            sides += [Side(THEIRS[kind], kind, both.theirs.port, both.theirs.pid) for kind in KINDS]
        for number in range(rounds):
            results += _ceilings(load)
            for part in _parts(load):
                results += [part(side, f"{side.kind}-{number}") for side in in_turn(sides, number)]
    return Report(
        "amqp",
        "durable queues, persistent messages, each confirmed and acknowledged; publisher, broker and consumer are processes of their own. "
        "pika: SelectConnection, each message acknowledged by itself; aio-pika: a thousand tasks that each await their confirm; py-amqp "
        "waits for each confirm; prepared frames: blocking sockets, one acknowledgement for what comes together; 64 publishers: "
        "connections of one process, one message at a time each. Latencies count from the moment at which a message was to be sent. "
        "Processor time is the broker's process's, all its threads.",
        "RabbitMQ with its own defaults, its files beside the journal; the better of its two kinds of queues counts, of each figure. Of "
        "pika its own ceiling: publisher alone and consumer alone, against a peer that only counts bytes. Rounds alternate; medians.",
        {
            "pika": load.pika,
            "aio_pika": load.aio_pika,
            "py_amqp": load.py_amqp,
            "raw": load.raw,
            "awaiting": load.awaiting,
            "rate": load.rate,
            "seconds": load.seconds,
            "warm_up": load.warm_up,
            "size": load.size,
            "window": WINDOW,
            "rounds": rounds,
            "uvloop": uvloop,
            "rabbitmq": both.version,
        },
        _figures(results),
        results,
    )


def _parts(load: Load) -> list[Callable[[Side, str], Result]]:
    size = {"size": load.size}
    client = {"window": WINDOW}
    return [
        partial(_transfer, "pika", load.pika, "_amqp_clients:pika_", size | client, client),
        partial(_transfer, "aio-pika", load.aio_pika, "_amqp_clients:aio_pika_", size | client, client),
        partial(_transfer, "py-amqp", load.py_amqp, "_amqp_clients:py_amqp_", size | client, client),
        partial(_transfer, "prepared frames", load.raw, "_amqp_raw:", size | {"window": RAW_WINDOW}, client),
        partial(_awaiting, load),
        partial(_paced, load),
    ]


def _transfer(
    part: str, messages: int, roles: str, publishing: Result, consuming: Result, side: Side, queue: str
) -> Result:
    """One publisher and one consumer; over when all is confirmed and acknowledged."""
    return _measured(part, side, queue, messages, f"{roles}publish", publishing, f"{roles}consume", consuming)


def _awaiting(load: Load, side: Side, queue: str) -> Result:
    publishing = {"size": load.size, "publishers": PUBLISHERS}
    part = f"{PUBLISHERS} publishers"
    roles = "_amqp_raw:publish_awaiting", publishing, "_amqp_raw:consume", {"window": WINDOW}
    return _measured(part, side, queue, load.awaiting, *roles)


def _measured(
    part: str, side: Side, queue: str, messages: int, publish: str, publishing: Result, consume: str, consuming: Result
) -> Result:
    declare(side.port, queue, side.kind)
    common = {"port": side.port, "queue": queue, "messages": messages}
    with Worker(f"{consume}", **common, **consuming) as consumer, Worker(publish, **common, **publishing) as publisher:
        consumer.hear()
        publisher.hear()
        cpu = cpu_seconds(side.pid)
        publisher.go()
        sent = publisher.hear(TIMEOUT)
        received = consumer.hear(TIMEOUT)
        cpu = cpu_seconds(side.pid) - cpu
    _check(side, queue, messages, sent, received)
    seconds = max(sent["ended"], received["ended"]) - sent["started"]
    return {
        "part": part,
        "side": side.name,
        "messages_per_s": messages / seconds,
        "broker_cpu_us": cpu / messages * 1e6,
        "publisher_cpu_us": sent["cpu_s"] / messages * 1e6,
        "consumer_cpu_us": received["cpu_s"] / messages * 1e6,
    }


def _paced(load: Load, side: Side, queue: str) -> Result:
    """A publisher on an absolute schedule, and a consumer."""
    declare(side.port, queue, side.kind)
    count = max(1, int(load.rate * (load.seconds + load.warm_up)))
    common = {
        "port": side.port,
        "queue": queue,
        "count": count,
        "size": load.size,
        "skip": min(int(load.rate * load.warm_up), count - 1),
    }
    timeout = load.seconds + load.warm_up + GRACE
    with (
        Worker("_amqp_raw:consume_timed", window=WINDOW, **common) as consumer,
        Worker("_amqp_raw:publish_paced", rate=load.rate, **common) as publisher,
    ):
        consumer.hear()
        publisher.hear()
        cpu = cpu_seconds(side.pid)
        publisher.go()
        sent = publisher.hear(timeout)
        received = consumer.hear(timeout)
        cpu = cpu_seconds(side.pid) - cpu
    _check(side, queue, count, sent, received)
    result: Result = {"part": "paced", "side": side.name, "broker_cpu_us": cpu / count * 1e6}
    result |= {f"to consumer {point}": value for point, value in received["latency_us"].items()}
    result |= {f"to confirm {point}": value for point, value in sent["latency_us"].items()}
    result |= {f"late {point}": value for point, value in sent["lateness_us"].items()}
    return result


def _check(side: Side, queue: str, messages: int, sent: Result, received: Result) -> None:
    """Whether the books agree; the queue goes.

    RabbitMQ's quorum queues may forget the last acknowledgements of a connection that closes at once: that they have some left is their
    business.
    """
    left = left_in(side.port, queue) if side.name == OURS else 0
    delete(side.port, queue)
    if not messages == sent["messages"] == received["messages"] or left:
        raise BenchmarkError(
            f"{side.name}: of {messages} messages {sent['messages']} were confirmed, {received['messages']} acknowledged, "
            f"and {left} are in the queue"
        )


def _ceilings(load: Load) -> list[Result]:
    """What pika's two ends can do, each by itself."""
    results: list[Result] = []
    ends: list[tuple[str, str, Result]] = [
        ("publisher", "publish", {"size": load.size, "window": WINDOW}),
        ("consumer", "consume", {"window": WINDOW}),
    ]
    for end, role, options in ends:
        with Worker("_amqp_ceiling:serve", messages=load.pika, size=load.size, window=WINDOW) as peer:
            port = peer.hear()["port"]
            with Worker(f"_amqp_clients:pika_{role}", port=port, queue="q", messages=load.pika, **options) as client:
                client.hear()
                if role == "publish":
                    client.go()
                done = client.hear(TIMEOUT)
        rate = load.pika / (done["ended"] - done["started"])
        results.append({"part": "ceiling", "side": end, "messages_per_s": rate})
    return results


def _figures(results: list[Result]) -> list[Figure]:
    def of(part: str, side: str, key: str) -> float | None:
        found = [one for one in results if one["part"] == part and one["side"] == side]
        return medians(found, key) if found else None

    figures: list[Figure] = []

    def beside(part: str, key: str, said: tuple[str, str, float], target: float, *, less: bool = False) -> None:
        """Ours, theirs, and the ratio to the better of theirs; ``said`` is what it is called, its unit, and how many of these one is."""
        name, unit, scale = said
        ours = of(part, OURS, key)
        assert ours is not None, "ours was measured"
        figures.append(Figure(f"{part}: {name}, {OURS}", ours * scale, unit))
        theirs = [(side, value) for side in THEIRS.values() if (value := of(part, side, key)) is not None]
        figures.extend(Figure(f"{part}: {name}, {side}", value * scale, unit) for side, value in theirs)
        if theirs:
            best = (min if less else max)(value for _, value in theirs)
            of_theirs = f"{part}: {name}, times the better of RabbitMQ's"
            figures.append(Figure(of_theirs, ours / best, "", target, "less" if less else "more"))

    for part, target in (
        ("pika", PIKA_TARGET),
        ("aio-pika", OTHERS_TARGET),
        ("py-amqp", OTHERS_TARGET),
        ("prepared frames", RAW_TARGET),
        (f"{PUBLISHERS} publishers", AWAITING_TARGET),
    ):
        beside(part, "messages_per_s", ("messages a second", "msg/s", 1), target)
        if part == "pika":
            beside(part, "broker_cpu_us", ("broker's CPU a message", "us", 1), CPU_TARGET, less=True)
            for end in ("publisher", "consumer"):
                alone = of("ceiling", end, "messages_per_s")
                assert alone is not None, "it was measured"
                figures.append(Figure(f"pika: its own ceiling, {end} alone", alone, "msg/s"))
        if part == "prepared frames":
            rate = of(part, OURS, "messages_per_s")
            assert rate is not None, "ours was measured"
            figures.append(Figure(f"{part}: rate wanted, {OURS}", rate, "msg/s", RAW_RATE))
    for where in ("to consumer", "to confirm"):
        for point in POINTS:
            beside("paced", f"{where} {point}", (f"{point} {where}", "ms", 1e-3), LATENCY_TARGET, less=True)
    return figures
