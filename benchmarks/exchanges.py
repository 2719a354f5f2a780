"""``exchanges``: what a copy for each queue costs, many bindings, and the way through the default exchange."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks._broker import BrokerProcess
from benchmarks._disk import data_folder, disk_bytes
from benchmarks._processes import MIB, BenchmarkError, Worker, await_receivers, cpu_seconds, resident_bytes
from benchmarks._report import Figure, Report, medians
from transport import Administration

QUEUES = 10
DISK_TARGET = 1.15
"""Of the disk that the same messages take in one queue."""
DELIVERIES_TARGET = 3.0
"""Of the deliveries a second to one queue."""
SEEN_TARGET, NEW_TARGET = 1.2, 5.0
"""Of the processor time of a publish with ten bindings."""
DEFAULT_TARGET = 1.03
"""Of the processor time of a plain sender's."""
FEW, MANY = 10, 10_000
MEMORY_TARGET = 1.1
"""Of the memory that a tenth of the backlog takes."""
SEGMENT_BYTES = 2**20
"""Small, so that what is set aside for the next messages is little beside what is stored."""
TIMEOUT = 300.0


def run(
    messages: int, size: int, batch: int, max_in_flight: int, rounds: int, uvloop: bool, data: Path | None
) -> Report:
    """Rounds of everything in turn, so that what else the machine does meets them alike."""
    results: list[dict[str, Any]] = []
    carried = {"messages": messages, "size": size, "batch": batch, "uvloop": uvloop}
    with data_folder(data) as folder:
        for number in range(rounds):
            for queues in (1, QUEUES):
                place = str(folder / f"{number}-{queues}")
                results.append(_fanout(queues, place + "d", carried, max_in_flight) | {"kind": f"deliver {queues}"})
                results.append(_fanout(queues, place + "s", carried, None) | {"kind": f"store {queues}"})
            for bindings in (FEW, MANY):
                results += _bound(bindings, carried)
            for kind in ("plain", "default", "default", "plain"):
                results.append(_sent(kind, str(folder / f"{number}-{kind}{len(results)}"), carried, max_in_flight))
    return Report(
        "exchanges",
        "a publisher, a broker with a journal, and one process that receives from all queues, over loopback TCP. The disk is what the "
        "journal's folder has when everything is confirmed and nothing received. Bindings: a broker in memory, processor time of a "
        "publish of the broker's process, to one queue that matches; the other bindings match nothing.",
        "the same to one queue; the same with ten bindings; a plain sender to the same queue.",
        carried | {"max_in_flight": max_in_flight, "rounds": rounds, "queues": QUEUES},
        _figures(results),
        results,
    )


def _figures(results: list[dict[str, Any]]) -> list[Figure]:
    def median(kind: str, figure: str) -> float:
        return medians([one for one in results if one["kind"] == kind], figure)

    one, ten = median("deliver 1", "deliveries_per_s"), median(f"deliver {QUEUES}", "deliveries_per_s")
    few, many = f"bound {FEW}", f"bound {MANY}"
    return [
        Figure("deliveries a second to one queue", one, "msg/s"),
        Figure(f"to {QUEUES} queues", ten, "msg/s"),
        Figure("ratio", ten / one, "", DELIVERIES_TARGET),
        Figure(
            f"disk of {QUEUES} queues, of one",
            median(f"store {QUEUES}", "disk_bytes") / median("store 1", "disk_bytes"),
            "",
            DISK_TARGET,
            better="less",
        ),
        Figure(
            f"{MANY:,} bindings, keys seen before, of {FEW}",
            median(f"{many} seen", "broker_cpu_s") / median(f"{few} seen", "broker_cpu_s"),
            "",
            SEEN_TARGET,
            better="less",
        ),
        Figure(
            f"{MANY:,} bindings, every key new, of {FEW}",
            median(f"{many} new", "broker_cpu_s") / median(f"{few} new", "broker_cpu_s"),
            "",
            NEW_TARGET,
            better="less",
        ),
        Figure(
            "every key new, of keys seen before, few bindings",
            median(f"{few} new", "broker_cpu_s") / median(f"{few} seen", "broker_cpu_s"),
            "",
        ),
        Figure(
            "default exchange, processor time, of a plain sender",
            median("default", "broker_cpu_s") / median("plain", "broker_cpu_s"),
            "",
            DEFAULT_TARGET,
            better="less",
        ),
        Figure(
            "default exchange, rate, of a plain sender",
            median("default", "messages_per_s") / median("plain", "messages_per_s"),
            "",
        ),
    ]


def _fanout(queues: int, directory: str, carried: dict[str, Any], max_in_flight: int | None) -> dict[str, Any]:
    """A fanout to so many queues; they are drained meanwhile, unless there is no window for that."""
    names = [f"copy-{number}" for number in range(queues)]

    async def declare(administration: Administration) -> None:
        for name in names:
            await administration.create_queue(name)
            await administration.bind("amq.fanout", name)

    stored = {} if max_in_flight else {"segment_bytes": SEGMENT_BYTES}
    with BrokerProcess(uvloop=carried["uvloop"], options={"directory": directory, **stored}) as broker:
        _told(broker, declare)
        result = _published(broker, {"exchange": "amq.fanout"}, names, carried, max_in_flight)
        if stored:
            result["disk_bytes"] = disk_bytes(Path(directory))
    return result


def backlog(messages: int, size: int, batch: int, uvloop: bool, data: Path | None) -> Report:
    """The broker's memory while more and more waits in all of ten queues: at a tenth of it, and at all of it."""
    names = [f"copy-{number}" for number in range(QUEUES)]
    carried = {"messages": messages // 10, "size": size, "batch": batch, "uvloop": uvloop}

    async def declare(administration: Administration) -> None:
        for name in names:
            await administration.create_queue(name, max_messages=2 * messages, max_bytes=2**40)
            await administration.bind("amq.fanout", name)

    with data_folder(data) as folder, BrokerProcess(uvloop=uvloop, options={"directory": str(folder / "b")}) as broker:
        _told(broker, declare)
        memory = []
        with Worker(
            "_exchange_clients:publish", address=broker.send_address, to={"exchange": "amq.fanout"}, keys=-1, **carried
        ) as worker:
            worker.hear(TIMEOUT)
            for _ in range(10):
                worker.go()
                worker.hear(TIMEOUT)
                memory.append(resident_bytes(broker.pid))
        disk = disk_bytes(folder / "b")
    results = [{"kind": f"{number + 1}0 %", "resident_bytes": each} for number, each in enumerate(memory)]
    return Report(
        "exchange_backlog",
        f"a fanout to {QUEUES} queues with a journal and no receiver: the broker's memory after each tenth of the messages.",
        "the memory after the first tenth.",
        carried | {"messages": messages, "queues": QUEUES},
        [
            Figure(f"{messages // 10:,} messages wait in each queue", memory[0] / MIB, "MiB"),
            Figure(f"{messages:,} messages wait in each queue", memory[-1] / MIB, "MiB"),
            Figure("ratio", memory[-1] / memory[0], "", MEMORY_TARGET, better="less"),
            Figure("disk", disk / (messages * size), "bytes for each byte published"),
        ],
        results,
    )


def _bound(bindings: int, carried: dict[str, Any]) -> list[dict[str, Any]]:
    """A topic exchange with so many bindings: keys that come again and again, and keys that are new each time."""

    async def declare(administration: Administration) -> None:
        await administration.create_queue("taken", max_messages=10 * carried["messages"], max_bytes=2**31)
        for number in range(QUEUES):
            await administration.create_queue(f"other-{number}")
        await administration.bind("amq.topic", "taken", "k.*")
        for number in range(bindings - 1):
            await administration.bind("amq.topic", f"other-{number % QUEUES}", f"b{number}.#")

    results = []
    with BrokerProcess(uvloop=carried["uvloop"]) as broker:
        _told(broker, declare)
        for kind, keys in (("seen", 1_000), ("new", 0)):
            result = _published(broker, {"exchange": "amq.topic"}, ["taken"], carried, None, keys=keys)
            results.append(result | {"kind": f"bound {bindings} {kind}"})
            _told(broker, lambda administration: administration.purge_queue("taken"))
    return results


def _sent(kind: str, directory: str, carried: dict[str, Any], max_in_flight: int) -> dict[str, Any]:
    """The same messages to one queue, by a plain sender or through the default exchange."""
    to = {"queue": "taken"} if kind == "plain" else {"exchange": "", "routing_key": "taken"}
    with BrokerProcess(uvloop=carried["uvloop"], options={"directory": directory}) as broker:
        _told(broker, lambda administration: administration.create_queue("taken"))
        return _published(broker, to, ["taken"], carried, max_in_flight) | {"kind": kind}


def _published(
    broker: BrokerProcess,
    to: dict[str, Any],
    queues: list[str],
    carried: dict[str, Any],
    max_in_flight: int | None,
    *,
    keys: int = -1,
) -> dict[str, Any]:
    messages = carried["messages"]
    with ExitStack() as stack:
        publisher = stack.enter_context(
            Worker("_exchange_clients:publish", address=broker.send_address, to=to, keys=keys, **carried)
        )
        publisher.hear(TIMEOUT)
        drain = None
        if max_in_flight is not None:
            drain = stack.enter_context(
                Worker(
                    "_exchange_clients:drain",
                    address=broker.receive_address,
                    queues=queues,
                    messages=messages,
                    max_in_flight=max_in_flight,
                    uvloop=carried["uvloop"],
                )
            )
            drain.hear()
            drain.go()
            for queue in queues:
                await_receivers(broker.send_address, queue, 1)
        cpu = cpu_seconds(broker.pid)
        publisher.go()
        sent = publisher.hear(TIMEOUT)
        ended = sent["ended"]
        if drain is not None:
            received = drain.hear(TIMEOUT)
            ended = max(ended, received["ended"])
            if received["counts"] != dict.fromkeys(queues, messages):
                raise BenchmarkError(f"{messages} were published to each of {queues}, and came as {received['counts']}")
        cpu = cpu_seconds(broker.pid) - cpu
    if sent["messages"] != messages:
        raise BenchmarkError(f"{messages} were published, and {sent['messages']} confirmed")
    seconds = ended - sent["started"]
    return {
        "seconds": seconds,
        "messages_per_s": messages / seconds,
        "deliveries_per_s": messages * len(queues) / seconds,
        "broker_cpu_s": cpu,
    }


def _told(broker: BrokerProcess, work: Callable[[Administration], Any]) -> None:
    async def tell() -> None:
        async with Administration(broker.send_address) as administration:
            await work(administration)

    asyncio.run(tell())
