"""``python -m tests.fault.machines.spark_kills --kills 20``: Spark reads a cluster and writes to it, and its leaders are killed.

One query copies the queue ``in`` to files. Producers send it numbered messages: two to the cluster, one to a broker that stands beside it
and has a part of the queue, so that offsets name both. The other query writes Spark's own numbers to the cluster's queue ``out``, whose
receiver logs them. Each time the leader's machine is killed, broker and etcd, at a moment by chance; then all have to go on.

In the end the files are what was sent, each row once, and each producer's in its order; and ``out`` had the rows of the batches that Spark
has in its commit log, each under one number. Neither query may end with an error: a task and a driver wait for the next leader
(docs/clients-of-a-cluster.md, "Spark"). The exit code is 1 where any of this does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import shutil
import statistics
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.fault.machines.brokers import ASK_SECONDS, PlainBroker
from tests.fault.machines.cluster import NODES, Cluster
from tests.fault.machines.judge import SECOND, Judgement, judge, numbers_of
from tests.fault.machines.load import Load
from tests.fault.machines.machines import Machines
from tests.fault.machines.options import Options
from tests.fault.machines.processes import Process, ProcessError
from tests.fault.machines.querying import NAMES, READS, WRITES, Batch, Ended, NumbersQuery, told_in
from tests.fault.machines.records import SENT, Confirmed, Handed, Log, identify, now, payload_of, read_log
from tests.fault.machines.rounds import CLIENTS, GO_ON_SECONDS
from tests.fault.spark_query import QUERY_SECONDS, CopyQuery, difference
from transport import Administration

IN, OUT = "in", "out"
CLUSTER, BESIDE = "orders", "beside"
"""What the cluster is called in the option ``brokers``, and the broker beside it."""
SIZE: Final = 1
"""Bytes of a message, at most; its numbers are there all the same, as text that a file of lines takes."""
SENT_ROWS: Final = 10
READ_ROWS: Final = 10_000
"""Of a batch at most: far more than comes while one is worked on, however busy the machine is, so that nothing piles up."""
WRITTEN_ROWS: Final = 100
"""Of a batch, as many each time: so few that one follows another, and each kill finds one under way."""
HELD: Final = WRITTEN_ROWS + 50
"""What the receiver of ``out`` keeps unanswered, a batch and more: a kill finds some that are to come again."""
MOST_SECONDS: Final = 2.0
"""Between a cluster that is whole and the next kill, at most: some batches of either query."""
START_SECONDS: Final = 120.0
"""In which a JVM starts, and either query has its first batches, on a machine that may be busy with others."""
SHOWN: Final = 5


class Queries:
    """Both queries, in a driver on the clients' machine, heard as they go on.

    How *far* a query is tells its batches: the one that reads by its position at the cluster, for it may have batches of the broker beside
    it alone; the one that writes by their number.

    Args:
        machines: with that machine.
        reads: the one that reads.
        writes: the one that writes.

    Attributes:
        ended: the runs that have ended with an error.
        offsets: up to which the one that reads has read, batch by batch.
    """

    def __init__(self, machines: Machines, reads: CopyQuery, writes: NumbersQuery) -> None:
        self.reads = reads
        self.writes = writes
        self.ended: list[Ended] = []
        self.offsets: list[dict[str, Any]] = []
        self._machine = machines[CLIENTS]
        self._changed = threading.Condition()
        self._batches: dict[str, list[tuple[int, int]]] = {name: [] for name in NAMES}
        self._process: Process | None = None

    def start(self) -> None:
        """Start the driver, and wait until either query has committed a batch."""
        order = json.dumps({READS: self.reads.as_json(), WRITES: self.writes.as_json()})
        with self._changed:
            self._process = self._machine.python(
                "tests.fault.machines.querying", order, name="spark", heard=self._hear, ended=self._over,
                environment={"SPARK_LOCAL_IP": "127.0.0.1"},
            )  # fmt: skip
        for name in NAMES:
            self._first_beyond(name, 0, START_SECONDS)

    @property
    def process(self) -> Process:
        """The driver."""
        assert self._process is not None
        return self._process

    def planned(self) -> dict[str, int]:
        """How far each is in Spark's offset log."""
        return {READS: self.logged()["pos"][CLUSTER], WRITES: max(self.writes.planned())}

    def logged(self) -> dict[str, Any]:
        """The last offset that Spark has logged of the query that reads."""
        log = Path(self.reads.folder, "checkpoint", "offsets")
        offset: dict[str, Any] = json.loads((log / str(max(self.reads.planned()))).read_text().splitlines()[-1])
        return offset

    def go_on(self, planned: Mapping[str, int], since: int) -> dict[str, float]:
        """Wait until either has committed a batch that goes farther than these; seconds from a time to each of the two."""
        return {name: (self._first_beyond(name, far, GO_ON_SECONDS) - since) / SECOND for name, far in planned.items()}

    def stop(self) -> None:
        """Have both end when nothing is left to read, and what was planned is committed."""
        self.process.stop(QUERY_SECONDS)

    def _first_beyond(self, name: str, far: int, seconds: float) -> int:
        """When the first batch that goes farther was heard to be committed."""

        def found() -> int | None:
            return next((time for time, each in self._batches[name] if each > far), None)

        with self._changed:
            self._changed.wait_for(lambda: found() is not None or not self.process.running, seconds)
            if (time := found()) is not None:
                return time
        raise self.process.failed(
            f"has ended, with {self.process.code}"
            if not self.process.running
            else f"has not committed that the query that {name} is farther than {far} within {seconds:.0f} s"
        )

    def _hear(self, line: str) -> None:
        told = told_in(line)
        with self._changed:
            if isinstance(told, Batch):
                far = told.end["pos"][CLUSTER] if told.query == READS else told.number
                self._batches[told.query].append((now(), far))
                if told.query == READS:
                    self.offsets.append(told.end)
            elif isinstance(told, Ended):
                self.ended.append(told)
                print(f"the query that {told.query} has ended, and is started again: {told.why}", flush=True)
            self._changed.notify_all()

    def _over(self) -> None:
        with self._changed:
            self._changed.notify_all()


@dataclass(slots=True)
class Found:
    """What a run has shown.

    Attributes:
        facts: counts.
        wrong: what must not be, in words.
        seconds: from when the machine was dead until it went on, by who did.
    """

    facts: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def summary(self) -> str:
        """All of it, for people."""
        lines = [f"{name}: {count:,}" for name, count in self.facts.items()]
        lines += [
            f"{name}: on again after {statistics.median(times):.2f} s, {max(times):.2f} s at most"
            for name, times in self.seconds.items()
        ]
        return "\n".join([*lines, *(f"WRONG: {text}" for text in self.wrong)])


class SparkKills:
    """A cluster, a broker beside it, the loads, and both queries.

    Args:
        machines: of the nodes and the clients.
        random: says when to kill.
        rate: messages a second of each producer.
    """

    def __init__(self, machines: Machines, random: Random, rate: float) -> None:
        clients, folder = machines[CLIENTS], machines.folder
        self._machines = machines
        self._random = random
        self._moment = threading.Event()
        self._kills = 0
        self.found = Found()
        self.cluster = Cluster(machines)
        self.cluster.start()
        self.cluster.wait_whole()
        beside = PlainBroker(clients)
        beside.start()

        def load(name: str, send: Sequence[str], receive: Sequence[str], **options: Any) -> Load:
            chosen = Options(size=SIZE, batch=SENT_ROWS, rate=rate, longest_wait=0.2, **options)
            return Load(clients, folder / name, send, receive, chosen)

        self.sent = load("sent", self.cluster.send, [], queue=IN)
        self._beside = load("beside", [beside.send], [], queue=IN, senders=1, first_sender=2)
        self.received = load(
            "received", self.cluster.send, self.cluster.receive, queue=OUT, senders=0, receivers=1, hold=HELD
        )
        sending = f"{CLUSTER}={'|'.join(self.cluster.send)}"
        receiving = f"{CLUSTER}={'|'.join(self.cluster.receive)},{BESIDE}={beside.receive}"
        self.queries = Queries(
            machines,
            CopyQuery(IN, sending, receiving, str(folder / READS), rows=READ_ROWS),
            NumbersQuery(OUT, sending, receiving, str(folder / WRITES), into=OUT, rows=WRITTEN_ROWS),
        )
        self.sent.start_senders()
        self._beside.start_senders()
        self.received.start_receivers()
        self.queries.start()
        self._all_go_on()

    def kill(self) -> None:
        """Kill the leader's machine at a moment by chance, have all go on without it, and with it."""
        self._moment.wait(self._random.uniform(0, MOST_SECONDS))
        self._kills += 1
        node = self.cluster.leader()
        self.cluster.kill(node)
        mark = self.sent.mark(f"kill {self._kills}")  # what is confirmed behind it, another has confirmed
        planned = self.queries.planned()
        seconds = self.queries.go_on(planned, mark.time)
        self.sent.wait_after(mark, GO_ON_SECONDS)
        self.received.wait_delivered(1, GO_ON_SECONDS)
        for name, each in seconds.items():
            self.found.seconds[f"the query that {name}"].append(each)
        self.cluster.start(node.name)
        self.cluster.wait_whole(GO_ON_SECONDS)
        self._all_go_on()
        told = ", ".join(f"{name} {each:.2f} s" for name, each in seconds.items())
        print(f"kill {self._kills}: {node.name}; {told}", flush=True)

    def end(self) -> Found:
        """Have everything end that was begun, and judge it."""
        found, queries = self.found, self.queries
        for load in (self.sent, self._beside):
            load.stop_senders()
        queries.stop()
        rows, written = queries.reads.written(), WRITTEN_ROWS * (max(queries.writes.completed()) + 1)
        # What the query that writes has committed is what a sender would have had confirmed.
        log = Log(self.received.folder / SENT.format(0), 0, aloud=False)
        log.write(Handed(now(), 0, written), Confirmed(now(), 0, written, -1))
        log.close()
        self.received.drain(self._left)
        sent = sent_in(self.sent.folder) | sent_in(self._beside.folder)
        part = {CLUSTER: sent[0] + sent[1], BESIDE: sent[2]}
        judgement = self.received.judge()
        found.wrong += [f"the files: {text}" for text in wrong_rows(rows, sent)]
        found.wrong += wrong_offsets([*queries.offsets, queries.logged()], part, self._addresses())
        found.wrong += [f"queue {OUT}: {text}" for text in wrong_in(judgement)]
        found.wrong += [f"the query that {each.query} ended with an error: {each.why}" for each in queries.ended]
        found.wrong += self._wrong_at_the_broker(part[CLUSTER])
        found.facts |= {
            "kills": self._kills,
            "sent": sum(sent.values()),
            "rows read": len(rows),
            "batches read": max(queries.reads.completed()) + 1,
            "rows written": written,
            "batches written": max(queries.writes.completed()) + 1,
            "deliveries": judgement.facts["deliveries"],
            "of them marked": judgement.facts["of them marked"],
            "restarts of a query": len(queries.ended),
        }
        for one in judge(self.sent.folder, drained=False).recoveries:
            if one.seconds is not None:
                found.seconds["a producer"].append(one.seconds)
        return found

    def _all_go_on(self) -> None:
        """Wait until all do more of what they do, all of it begun by now."""
        planned = self.queries.planned()
        for load in (self.sent, self._beside):
            load.wait_confirmed(SENT_ROWS, GO_ON_SECONDS)
        self.queries.go_on(planned, now())
        self.received.wait_delivered(1, GO_ON_SECONDS)

    def _addresses(self) -> list[str]:
        return [machine.address for machine in self._machines.values()]

    def _left(self) -> int:
        leader = self.cluster.wait_whole(GO_ON_SECONDS)
        return PlainBroker(leader.machine).left(self._machines[CLIENTS], OUT)

    def _wrong_at_the_broker(self, sent: int) -> list[str]:
        """What the leader has that it must not: a ledger that is another than what was sent, or rows that nobody has committed."""

        async def ask() -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
            async with asyncio.timeout(ASK_SECONDS), Administration(self.cluster.send) as administration:
                return await administration.subscriptions(), await administration.transactions()

        with self._machines[CLIENTS].inside():
            subscriptions, transactions = asyncio.run(ask())
        highs = [row["high"] for row in subscriptions if row["queue"] == row["name"] == IN]
        wrong = [] if highs == [sent] else [f"the ledgers of {IN} end at {highs}, and {sent} messages were sent there"]
        return wrong + [f"a transaction is open: {dict(row)}" for row in transactions]


def sent_in(folder: Path) -> dict[int, int]:
    """How many messages each producer of a load has sent, all of them confirmed."""
    return {
        number: sum(event.messages for event in read_log(folder / SENT.format(number)) if isinstance(event, Confirmed))
        for number in numbers_of(folder, SENT)
    }


def wrong_rows(rows: Iterable[bytes], sent: Mapping[int, int]) -> list[str]:
    """How rows that were read differ from what each producer has sent: which, how often, and in what order."""
    by: dict[int | None, list[bytes]] = defaultdict(list)
    for row in rows:
        which = identify(row)
        by[which[0] if which is not None and which[0] in sent else None].append(row)
    found = [f"{len(by[None])} rows that nobody sent ({by[None][:SHOWN]})"] if by[None] else []
    for producer, count in sent.items():
        wanted = [payload_of(producer, number, SIZE) for number in range(count)]
        if (text := difference(wanted, by[producer])) is not None:
            found.append(f"producer {producer}: {text}")
    return found


def wrong_offsets(offsets: Sequence[Mapping[str, Any]], sent: Mapping[str, int], addresses: Iterable[str]) -> list[str]:
    """What offsets say that they must not: they name each broker, and the cluster by its name, as one with one queue.

    Args:
        offsets: in their order.
        sent: what each broker's part of the queue has got, by the broker's name.
        addresses: of all machines.
    """
    if not offsets:
        return ["no offset was told"]
    found = []
    for offset in offsets:
        if set(offset["pos"]) != set(sent) or offset["id"] != offsets[0]["id"] or set(offset["id"]) != set(sent):
            found.append(f"an offset is not of {' and '.join(sent)} as the first one is: {offset}")
        found += [f"an offset has the address {each}: {offset}" for each in addresses if each in json.dumps(offset)]
    if offsets[-1]["pos"] != sent:
        found.append(f"the last offset is {offsets[-1]['pos']}, and {dict(sent)} were sent")
    return found[:SHOWN]


def wrong_in(judgement: Judgement) -> list[str]:
    """What a judgement has found, in words."""
    return [f"{kind}: {count}" for kind, count in judgement.counts.items() if count] + judgement.examples


def run(kills: int, seed: int, rate: float, keep: Path | None = None) -> Found:
    """Kill so often; what was found.

    Args:
        kills: how often.
        seed: of the moments.
        rate: messages a second of each producer.
        keep: a folder for all that was logged and written, for who is to find out why.
    """
    with Machines([*NODES, CLIENTS]) as machines:
        try:
            started = SparkKills(machines, Random(seed), rate)
            for _ in range(kills):
                started.kill()
            return started.end()
        except ProcessError:
            for machine in machines.values():
                for process in machine.processes:
                    print(f"--- {process.name}", *process.said, sep="\n")
            raise
        finally:
            if keep is not None:
                shutil.copytree(machines.folder, keep, dirs_exist_ok=True, ignore=shutil.ignore_patterns("disk*"))


def main() -> int:
    """What is said on the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.machines.spark_kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, help="of the moments; new by default")
    parser.add_argument("--rate", type=float, default=150.0, help="messages a second of each producer")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where all that was logged is to stay")
    given = parser.parse_args()
    seed = secrets.randbits(32) if given.seed is None else given.seed
    print(f"--kills {given.kills} --seed {seed}", flush=True)
    found = run(given.kills, seed, given.rate, given.keep)
    print(found.summary())
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
