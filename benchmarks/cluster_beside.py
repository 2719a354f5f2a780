"""``cluster_beside``: three of our brokers, RabbitMQ's quorum queues on three nodes, and JetStream on three servers, beside each other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import _nats_cluster, _rabbitmq_server
from benchmarks._amqp_raw import declare, delete
from benchmarks._beside_rabbitmq import in_turn
from benchmarks._cluster import ClusterProcesses, ship_bare
from benchmarks._disk import data_folder
from benchmarks._nats_cluster import NatsCluster
from benchmarks._processes import BenchmarkError, Worker
from benchmarks._rabbitmq_server import RabbitServer
from benchmarks._report import Figure, Report, medians
from benchmarks._transfer import Transfer, move

OURS: Final = "Penstock"
QUORUM: Final = "RabbitMQ quorum"
JETSTREAM: Final = "JetStream R3"
THEIRS: Final = (QUORUM, JETSTREAM)
BARE: Final = "bare loop"
MEMBERS: Final = 3
TIMEOUT: Final = 600.0
UNCONFIRMED_BYTES: Final = 16 << 20
"""Of a publisher of theirs, and of what a consumer holds, at most; and no more messages than `UNCONFIRMED`."""
UNCONFIRMED: Final = 10_000

Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """Messages of one size.

    Attributes:
        name: in the table.
        size: bytes of a payload.
        messages: of ours in a round.
        theirs: of each of the others.
        batch: messages of a batch of ours.
        target: times the better of the others.
    """

    name: str
    size: int
    messages: int
    theirs: int
    batch: int
    target: float

    @property
    def window(self) -> int:
        """Messages that theirs have unconfirmed, or unacknowledged."""
        return max(1, min(UNCONFIRMED, UNCONFIRMED_BYTES // self.size))


@dataclass(frozen=True, slots=True)
class Side:
    """One of those that are compared, and how it does a part: with a name for its queue."""

    name: str
    run: Callable[[Part, str], float]


def run(parts: list[Part], max_in_flight: int, rounds: int, data: Path | None) -> Report:
    """Rounds of every part on every side in turn; each round begins with another side."""
    results: list[Result] = []
    with data_folder(data) as folder, ExitStack() as stack:
        sides, versions = _sides(folder, stack, max_in_flight)
        for number in range(rounds):
            for part in parts:
                for side in in_turn(sides, number):
                    rate = side.run(part, f"{part.name.replace(' ', '-')}-{number}")
                    results.append({"part": part.name, "side": side.name, "messages_per_s": rate})
    return Report(
        "cluster_beside",
        "three nodes of each, all on one machine and loopback; a publisher and a consumer, each a process; over when everything is "
        "confirmed and acknowledged. Ours is synced by two of three before it is confirmed (mode majority), as a quorum queue is; "
        "JetStream syncs every two minutes, and confirms what two of three have in memory. Each goes through the node that leads.",
        "RabbitMQ and NATS with their own defaults, prepared frames on blocking sockets, one acknowledgement for what comes together; ours "
        "with its own clients, in batches. The better of the two counts. The bare loop, three processes that ship and sync blocks of the "
        "same messages and deliver none, says what the disk has to give. Rounds alternate; medians.",
        {
            **{part.name: {"messages": part.messages, "theirs": part.theirs, "batch": part.batch} for part in parts},
            "max_in_flight": max_in_flight,
            "rounds": rounds,
            **versions,
        },
        _figures(parts, results),
        results,
    )


def _sides(folder: Path, stack: ExitStack, max_in_flight: int) -> tuple[list[Side], dict[str, str]]:
    """Those that there are on this machine, started, and the versions of theirs; what is not there is said."""
    nodes = stack.enter_context(ClusterProcesses(folder / "ours"))

    def ours(part: Part, queue: str) -> float:
        transfer = Transfer(part.messages, part.size, part.batch, True, max_in_flight, True)
        return float(move(nodes, transfer, queue=queue)["messages_per_s"])

    def bare(part: Part, queue: str) -> float:
        return float(ship_bare(folder / f"bare-{queue}", part.messages, part.size, part.batch)["messages_per_s"])

    sides, versions = [Side(OURS, ours), Side(BARE, bare)], {"rabbitmq": "none", "nats": "none"}
    if (lacking := _rabbitmq_server.missing()) is None:
        first = stack.enter_context(RabbitServer(folder / "rabbitmq-0"))
        for number in range(1, MEMBERS):
            stack.enter_context(RabbitServer(folder / f"rabbitmq-{number}", joins=first))
        versions["rabbitmq"] = ".".join(map(str, first.version))
        sides.append(Side(QUORUM, lambda part, queue: _quorum(first.port, part, queue)))
    else:
        print(f"{lacking}; going on without it")
    if (lacking := _nats_cluster.missing()) is None:
        servers = stack.enter_context(NatsCluster(folder / "nats"))
        servers.delete_stream(_made(servers, "warm-up"))
        versions["nats"] = servers.version
        sides.append(Side(JETSTREAM, lambda part, stream: _jetstream(servers, part, stream)))
    else:
        print(f"{lacking}; going on without it")
    return sides, versions


def _made(servers: NatsCluster, stream: str) -> str:
    servers.make_stream(stream)
    return stream


def _quorum(port: int, part: Part, queue: str) -> float:
    """Through a quorum queue on three nodes, which the node leads where it was declared."""
    declare(port, queue, "quorum", MEMBERS)
    common = {"port": port, "queue": queue, "messages": part.theirs, "window": part.window}
    with Worker("_amqp_raw:consume", **common) as consumer, Worker("_amqp_raw:publish", size=part.size, **common) as it:
        rate = _rate(QUORUM, part, consumer, it)
    delete(port, queue)
    return rate


def _jetstream(servers: NatsCluster, part: Part, stream: str) -> float:
    """Through a stream on three servers, at the one that leads it."""
    port = servers.make_stream(stream, part.window)
    common = {"port": port, "stream": stream, "messages": part.theirs, "size": part.size}
    with (
        Worker("_nats_raw:consume", **common) as consumer,
        Worker("_nats_raw:publish", window=part.window, **common) as it,
    ):
        rate = _rate(JETSTREAM, part, consumer, it)
    servers.delete_stream(stream)
    return rate


def _rate(side: str, part: Part, consumer: Worker, publisher: Worker) -> float:
    consumer.hear()
    publisher.hear()
    publisher.go()
    sent = publisher.hear(TIMEOUT)
    received = consumer.hear(TIMEOUT)
    if not part.theirs == sent["messages"] == received["messages"]:
        raise BenchmarkError(
            f"{side}: of {part.theirs} messages {sent['messages']} were confirmed, {received['messages']} came"
        )
    return part.theirs / float(max(sent["ended"], received["ended"]) - sent["started"])


def _figures(parts: list[Part], results: list[Result]) -> list[Figure]:
    figures: list[Figure] = []
    for part in parts:
        rates = {
            side: medians(
                [one for one in results if one["part"] == part.name and one["side"] == side], "messages_per_s"
            )
            for side in dict.fromkeys(one["side"] for one in results)
        }
        figures += [Figure(f"{part.name}: {side}", rate, "msg/s") for side, rate in rates.items()]
        figures.append(Figure(f"{part.name}: share of the bare loop", rates[OURS] / rates[BARE], ""))
        theirs = [rate for side, rate in rates.items() if side in THEIRS]
        if theirs:
            figures.append(
                Figure(f"{part.name}: times the better of theirs", rates[OURS] / max(theirs), "", part.target)
            )
    return figures
