"""``python -m tests.fault.machines.rounds --fault kill-leader --rounds 100``: a cluster and its load, and one fault again and again.

After each fault the load has to go on; at the end everything that was confirmed has to have been delivered, in order, once or marked, and
no node's journal may be damaged. The exit code is 1 where it is not so. The times that are printed do not change it: the machine may have
much else to do. SIGINT and SIGTERM have it end so behind the round that is under way.
"""

from __future__ import annotations

import argparse
import sys
from random import Random
from typing import Final

from tests.fault.machines.backlog import Backlog
from tests.fault.machines.brokers import PlainBroker
from tests.fault.machines.cluster import NODES, Cluster, Node
from tests.fault.machines.disks import ImageDisk
from tests.fault.machines.etcd import Etcd, Members
from tests.fault.machines.faults import CLIENTS, FAULTS, FULL_FLOOR_BYTES, GO_ON_SECONDS, IMAGES, why_not
from tests.fault.machines.flips import Flips, left_damaged
from tests.fault.machines.judge import TOLD, Judgement
from tests.fault.machines.load import Load
from tests.fault.machines.lost import lie_aside, told_of
from tests.fault.machines.machines import Machines
from tests.fault.machines.options import Options
from tests.fault.machines.processes import ProcessError
from tests.fault.machines.records import now
from tests.fault.machines.report import (
    ETCDS_LEADER_TOO,
    P99_TIMES,
    WANTED,
    Pair,
    Stretch,
    p99_lines,
    time_lines,
    times,
)
from tests.fault.machines.tails import Tail
from tests.fault.machines.told_to_end import told_to_end

__all__ = ("CLIENTS", "GO_ON_SECONDS", "PROMISED", "Rounds", "run")

ASYNC: Final = "async"
PROMISED: Final = {"majority": (), "all": (), "one": (), ASYNC: (TOLD,)}
"""By mode, what a judgement may find where no disk is lost. ``one`` of three has two disks too, as ``majority``: who has sealed a greater
epoch stores nothing for a leader that was replaced, so of that nothing is on a second disk."""
STRETCH_BATCHES: Final = 500
"""Of each producer, in a stretch whose p99 is taken: of two of them ten take longer."""
STRETCH_SECONDS: Final = 120.0
IMAGE_BYTES: Final = 640 * 2**20
"""Of a disk that is a file system of its own, beside what a backlog takes."""
IMAGE_BYTES_OF_BACKLOG: Final = 1_000
"""For each message that waits: it is in the log, and may be in a transfer and in what was put aside besides."""
IMAGE_OPTIONS: Final = (
    "--disk-floor",
    str(FULL_FLOOR_BYTES),
    "--segment-bytes",
    "4MiB",
    "--cluster-log-bytes",
    "32MiB",
)
"""Of brokers on such disks."""


class Rounds:
    """A cluster, its load, and what is done to them.

    Args:
        machines: the machines.
        mode: the cluster's.
        options: of the load.
        random: decides what is by chance.
        backlog: messages that wait in a queue of their own from before the first fault to the end.
        apart: whether each machine's etcd is a process of its own; else each broker runs it.

    Attributes:
        machines: the machines.
        random: decides what is by chance.
        cluster: on them.
        etcd: asks the etcds.
        load: goes on all the time.
        flips: the bits that are flipped, one at a time.
        pairs: stretches that are to be held against each other.
        begun: by a mark's time, when the fault began that it stands behind.
        kept: of each tail that was cut off, how many messages were found in what its node has kept.
    """

    def __init__(
        self,
        machines: Machines,
        mode: str,
        options: Options,
        random: Random,
        *,
        backlog: int = 0,
        apart: bool = False,
    ) -> None:
        self.machines = machines
        self.random = random
        self.pairs: list[Pair] = []
        self.begun: dict[int, int] = {}
        self.kept: list[int] = []
        self._struck: int | None = None
        self._note = ""
        self._mode = mode
        self._tails = 0
        nodes, clients = [machines[name] for name in NODES], machines[CLIENTS]
        own = Etcd(nodes, clients) if apart else None
        self.etcd = own or Members(nodes, clients)
        disk = IMAGE_OPTIONS if isinstance(nodes[0].disk, ImageDisk) else ("--disk-floor", "0")
        self.cluster = Cluster(machines, mode, (*disk, "--auto-heal"), etcd=own)
        self.cluster.start()
        self.cluster.wait_whole()
        self.flips = Flips(self.cluster, self.wait_in_step)
        self.backlog: Backlog | None = None
        if backlog:
            self.backlog = Backlog(clients, machines.folder / "backlog", self.cluster, backlog)
            self.wait_in_step()
        self.load = Load(clients, machines.folder / "load", self.cluster.send, self.cluster.receive, options)
        self.load.start()
        self.load.wait_confirmed(200)

    def round(self, name: str) -> str:
        """One fault, and what mends it; what there is to say of it beside its name."""
        if self.backlog is not None:
            self.wait_in_step()  # so that the times are those of a cluster that is well
        self._note = ""
        with FAULTS[name](self) as mends:
            if mends:
                self.go_on(name + self._note)
            self._struck = None
        self.go_on(f"{name}, mended")
        self.cluster.wait_whole(GO_ON_SECONDS)
        self.load.wait_confirmed(50, GO_ON_SECONDS)
        return self.flips.end()

    def strikes(self) -> None:
        """A fault begins now: the next `go_on` counts from here on, though it is told when the fault is whole."""
        self._struck = now()

    def note_etcds_leader(self, node: Node) -> None:
        """Have the mark of this round say so where a node's machine has etcd's leader."""
        if self.etcd.leader() == node.name:
            self._note = ETCDS_LEADER_TOO

    def go_on(self, what: str) -> None:
        """Wait until something is confirmed that was sent from now on."""
        mark = self.load.mark(what)
        if self._struck is not None:
            self.begun[mark.time], self._struck = self._struck, None
        self.load.wait_after(mark, GO_ON_SECONDS)

    def stretch(self) -> Stretch:
        """As long as each producer has enough confirmed for a p99 that means something."""
        start = now()
        self.load.wait_confirmed(STRETCH_BATCHES * self.load.options.batch, STRETCH_SECONDS)
        return Stretch(start, now())

    def tail(self, leader: Node) -> Tail | None:
        """A client of the leader alone, at work, that is to die with what it has sent; None where that may be confirmed and lost."""
        if self._mode == ASYNC:
            return None
        self._tails += 1
        return Tail(
            self.machines[CLIENTS], self.machines.folder / f"tail-{self._tails}", self.cluster, leader, self._tails
        )

    def wait_in_step(self) -> None:
        """Wait until every member counts, and has what was committed a moment ago: one that is filled anew has to be whole by then."""
        self.cluster.wait_in_step(self.machines[CLIENTS], GO_ON_SECONDS)

    def end(self) -> Judgement:
        """Drain the load, and judge it.

        Raises:
            ProcessError: the backlog is not whole; or nothing is kept of any tail that was cut off; or what senders were told of as lost
                was neither counted where it was cut off, nor put aside with a whole journal.
        """
        if self.kept and not any(self.kept):
            raise ProcessError(f"of {len(self.kept)} tails that were cut off nothing was kept")
        self.load.drain(lambda: self._left(self.load.options.queue))
        found = self.load.judge()
        if self.backlog is not None:
            print(self.backlog.end(self._left), flush=True)
        if found.counts[TOLD]:
            self.wait_in_step()  # who has come back last has cut what the others do not have
            nodes = self.cluster.nodes.values()
            cut, told = sum(node.cut for node in nodes), found.counts[TOLD]
            print(f"messages that nodes have cut off their logs: {cut:,}", flush=True)
            if cut < told:
                folder, size = self.load.folder, self.load.options.size
                aside = lie_aside(told_of(folder), size, [node.data for node in nodes])
                print(f"messages told of as lost in journals that were put aside: {aside:,}", flush=True)
                if cut + aside < told:
                    raise ProcessError(f"{told} messages were told of as lost, {cut} were counted, {aside} lie aside")
        return found

    def damaged(self) -> list[str]:
        """What is damaged on the nodes' disks when all is done, which is when this was asked: then no node runs any more."""
        self.wait_in_step()  # one that is being filled is no whole journal
        return left_damaged(self.cluster)

    def _left(self, queue: str) -> int:
        leader = self.cluster.wait_whole(GO_ON_SECONDS)
        return PlainBroker(leader.machine).left(self.machines[CLIENTS], queue)


def run(
    faults: list[str],
    count: int,
    mode: str,
    seed: int,
    options: Options,
    *,
    backlog: int = 0,
    apart: bool = False,
) -> int:
    """The program; its exit code."""
    image = IMAGE_BYTES + backlog * IMAGE_BYTES_OF_BACKLOG if IMAGES.intersection(faults) else None
    with Machines([*NODES, CLIENTS], image_bytes=image) as machines:
        rounds = Rounds(machines, mode, options, Random(seed), backlog=backlog, apart=apart)
        try:
            with told_to_end() as told:
                for number in range(count):
                    if told():
                        break
                    name = faults[number % len(faults)]
                    said = rounds.round(name)
                    print(f"round {number + 1}: {name}{said}", flush=True)
            found = rounds.end()
            print(found.summary(), flush=True)
            damaged = rounds.damaged()
        except ProcessError:
            for node in rounds.cluster.nodes.values():
                if node.process is not None:
                    print(f"--- {node.name}", *node.process.said, sep="\n")
            raise
        for line in (*rounds.flips.summary(), *(f"damaged at the end: {place}" for place in damaged)):
            print(line)
        if found.counts[TOLD] and TOLD in PROMISED[mode]:
            print(f"{TOLD}: the mode {mode} promises no more, and it was counted where it was cut off, or put aside")
        found_times, all_wait = times(found.recoveries, rounds.begun), mode == "all"
        for line in time_lines(found_times, options.senders, {} if all_wait else WANTED):
            print(line)
        for line in p99_lines(rounds.load.folder, rounds.pairs, None if all_wait else P99_TIMES):
            print(line)
    return 0 if found.only(*PROMISED[mode]) and not damaged else 1


def main() -> int:
    """What is said on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fault", action="append", choices=[*FAULTS, "each"], required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mode", choices=list(PROMISED), default="majority")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=500.0, help="messages a second of each producer")
    parser.add_argument(
        "--backlog", type=int, default=0, help="messages that wait from before the first fault to the end"
    )
    parser.add_argument("--etcd", choices=["child", "apart"], default="child", help="who runs each machine's etcd")
    given = parser.parse_args()
    apart = given.etcd == "apart"
    missing = {name: reason for name in FAULTS if (reason := why_not(name, apart=apart)) is not None}
    for name, reason in missing.items():
        if name in given.fault:
            parser.error(f"{name}: {reason}")
        if "each" in given.fault:
            print(f"left out: {name}: {reason}", flush=True)
    faults = [name for name in FAULTS if name not in missing] if "each" in given.fault else given.fault
    options = Options(rate=given.rate, longest_wait=0.2, batch=10)
    return run(faults, given.rounds, given.mode, given.seed, options, backlog=given.backlog, apart=apart)


if __name__ == "__main__":
    sys.exit(main())
