"""``python -m tests.fault.machines.rounds --fault kill-leader --rounds 100``: a cluster and its load, and one fault again and again.

After each fault the load has to go on; at the end everything that was confirmed has to have been delivered, in order, once or marked. The
exit code is 1 where it was not.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from tests.fault.machines.brokers import PlainBroker
from tests.fault.machines.cluster import NODES, Cluster, Node
from tests.fault.machines.judge import LOST, Judgement
from tests.fault.machines.load import Load
from tests.fault.machines.machines import Machines
from tests.fault.machines.options import Options
from tests.fault.machines.processes import ProcessError

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENTS: Final = "clients"
GO_ON_SECONDS: Final = 60.0
"""For the load to have something confirmed behind a fault, and for all nodes to be there again."""
REPLICA_FILES: Final = "data/*[!e]"
"""All but those that have nothing of the journal: the room for a start on a full disk, and etcd's."""
PROMISED: Final = {"majority": (), "all": (), "one": (), "async": (LOST,)}
"""By mode, what a judgement may find where the disks of a minority are away."""


class Rounds:
    """A cluster, its load, and what is done to them.

    Args:
        machines: the machines.
        mode: the cluster's.
        options: of the load.
        random: decides what is by chance.
    """

    def __init__(self, machines: Machines, mode: str, options: Options, random: Random) -> None:
        self.machines = machines
        self.random = random
        self.cluster = Cluster(machines, mode, ("--disk-floor", "0", "--auto-heal"))
        self.cluster.start()
        self.cluster.wait_whole()
        self.load = Load(machines[CLIENTS], machines.folder / "load", self.cluster.send, self.cluster.receive, options)
        self.load.start()
        self.load.wait_confirmed(200)

    def round(self, name: str) -> None:
        """One fault, and what mends it."""
        with FAULTS[name](self) as mends:
            if mends:
                self.go_on(name)
        self.go_on(f"{name}, mended")
        self.cluster.wait_whole(GO_ON_SECONDS)
        self.load.wait_confirmed(50, GO_ON_SECONDS)

    def go_on(self, what: str) -> None:
        """Wait until something is confirmed that was sent from now on."""
        self.load.wait_after(self.load.mark(what), GO_ON_SECONDS)

    def wait_in_step(self) -> None:
        """Wait until every member counts, and has what was committed a moment ago: one that is filled anew has to be whole by then."""
        asked = ("cluster", "status", "--json", "--wide", "--address", ",".join(self.cluster.send))
        until = time.monotonic() + GO_ON_SECONDS
        while True:
            process = self.machines[CLIENTS].python("transport.cli", *asked, name="status")
            if process.wait_end(GO_ON_SECONDS) == 0:
                process.join()
                facts = json.loads("\n".join(process.said))
                members = facts["members"]  # none where the node that answers waits to be one
                if members and not facts["change"] and all(each["in_step"] and each["counts"] for each in members):
                    return
            if time.monotonic() >= until:
                raise process.failed(f"not all were in step within {GO_ON_SECONDS:.0f} s")

    def end(self) -> Judgement:
        """Drain the load, and judge it."""
        self.load.drain(self._left)
        return self.load.judge()

    def _left(self) -> int:
        leader = self.cluster.wait_whole(GO_ON_SECONDS)
        return PlainBroker(leader.machine).left(self.machines[CLIENTS], self.load.options.queue)


# Faults: context managers over a `Rounds`; they give whether the load goes on before they are mended.


@contextmanager
def _killed(rounds: Rounds, *, leader: bool, two: bool = False) -> Iterator[bool]:
    cluster = rounds.cluster
    followers = cluster.followers()
    nodes = [cluster.leader()] if leader else [rounds.random.choice(followers)]
    if two:
        nodes.append(rounds.random.choice([node for node in followers if node not in nodes]))
    for node in nodes:
        cluster.kill(node)
    yield not two
    for node in nodes:
        cluster.start(node.name)


@contextmanager
def _stopped(rounds: Rounds) -> Iterator[bool]:
    """SIGSTOP of the leader's machine for a while."""
    node = rounds.cluster.leader()
    node.machine.pause()
    timer = threading.Event()
    seconds = rounds.random.choice((1.0, 2.0, 5.0, 10.0))
    try:
        if seconds > 3:
            yield True
        else:
            timer.wait(seconds)
            yield False
    finally:
        node.machine.resume()


@contextmanager
def _stepped(rounds: Rounds) -> Iterator[bool]:
    """SIGTERM of the leader, as for an upgrade."""
    node = rounds.cluster.leader()
    assert node.process is not None
    node.process.signal(signal.SIGTERM)
    node.process.wait_end(GO_ON_SECONDS)
    node.machine.kill()
    yield True
    rounds.cluster.start(node.name)


@contextmanager
def _all_off(rounds: Rounds) -> Iterator[bool]:
    """All are killed one after the other, and come back in another order."""
    names = list(NODES)
    rounds.random.shuffle(names)
    for name in names:
        rounds.cluster.kill(rounds.cluster.nodes[name])
    rounds.random.shuffle(names)
    yield False
    rounds.cluster.start(*names)


@contextmanager
def _cable(rounds: Rounds, *, leader: bool) -> Iterator[bool]:
    """The cable of a machine is pulled, towards its clients too."""
    cluster = rounds.cluster
    node = cluster.leader() if leader else rounds.random.choice(cluster.followers())
    rounds.machines.links.down(node.name)
    yield True
    rounds.machines.links.up(node.name)


@contextmanager
def _one_way(rounds: Rounds, *, outward: bool) -> Iterator[bool]:
    """What the leader says is not heard by the others, or the reverse."""
    cluster = rounds.cluster
    leader, followers = cluster.leader(), cluster.followers()
    for node in followers:
        source, target = (leader, node) if outward else (node, leader)
        rounds.machines.links.cut_one_way(source.name, target.name)
    yield True
    rounds.machines.links.heal()


@contextmanager
def _plane(rounds: Rounds, plane: str) -> Iterator[bool]:
    """The leader is cut from its followers and not from the register, or the reverse."""
    leader = rounds.cluster.leader()
    others = [node.name for node in rounds.cluster.followers()]
    rounds.machines.links.isolate(leader.name, others, "brokers" if plane == "brokers" else "register")
    yield True
    rounds.machines.links.heal()


@contextmanager
def _minority(rounds: Rounds) -> Iterator[bool]:
    """The leader and the clients are cut from the two others; the clients reach all again when it is mended."""
    leader = rounds.cluster.leader()
    others = [node.name for node in rounds.cluster.followers()]
    rounds.machines.links.part([leader.name, CLIENTS], others)
    threading.Event().wait(rounds.random.choice((1.0, 3.0, 6.0)))
    yield False
    rounds.machines.links.heal()


@contextmanager
def _flapping(rounds: Rounds) -> Iterator[bool]:
    """The leader's cable comes and goes every second."""
    node = rounds.cluster.leader()
    with rounds.machines.links.flapping(node.name):
        threading.Event().wait(5.0)
    yield False


@contextmanager
def _slow_disk(rounds: Rounds) -> Iterator[bool]:
    node: Node = rounds.random.choice(rounds.cluster.followers())
    node.machine.disk.slow_syncs(0.2)
    yield True
    node.machine.disk.mend()


@contextmanager
def _failing_disk(rounds: Rounds, *, leader: bool) -> Iterator[bool]:
    """Syncs fail: the node ends, and comes back with a disk that works."""
    cluster = rounds.cluster
    node = cluster.leader() if leader else rounds.random.choice(cluster.followers())
    assert node.process is not None
    node.machine.disk.fail_syncs()
    node.process.wait_end(GO_ON_SECONDS)
    yield True
    node.machine.kill()
    node.machine.disk.mend()
    cluster.start(node.name)


@contextmanager
def _flipped(rounds: Rounds, *, leader: bool) -> Iterator[bool]:
    """A bit of any file of a replica is another one when it comes back: it is never delivered, nor given to another, and is healed."""
    cluster = rounds.cluster
    node = cluster.leader() if leader else rounds.random.choice(cluster.followers())
    cluster.kill(node)
    flipped = node.machine.disk.flip_some_bit(rounds.random, REPLICA_FILES)
    print(f"{node.name}: bit {flipped.bit} of byte {flipped.offset} of {flipped.path.name} is flipped", flush=True)
    yield True
    cluster.start(node.name)
    rounds.wait_in_step()


FAULTS: Final[dict[str, Callable[[Rounds], AbstractContextManager[bool]]]] = {
    "kill-leader": partial(_killed, leader=True),
    "kill-follower": partial(_killed, leader=False),
    "kill-two": partial(_killed, leader=True, two=True),
    "stop-leader": _stopped,
    "hand-over": _stepped,
    "all-off": _all_off,
    "cable-of-leader": partial(_cable, leader=True),
    "cable-of-follower": partial(_cable, leader=False),
    "leader-unheard": partial(_one_way, outward=True),
    "leader-deaf": partial(_one_way, outward=False),
    "cut-from-followers": partial(_plane, plane="brokers"),
    "cut-from-register": partial(_plane, plane="register"),
    "minority": _minority,
    "flapping": _flapping,
    "slow-disk": _slow_disk,
    "failing-disk-of-follower": partial(_failing_disk, leader=False),
    "failing-disk-of-leader": partial(_failing_disk, leader=True),
    "flipped-bit-of-follower": partial(_flipped, leader=False),
    "flipped-bit-of-leader": partial(_flipped, leader=True),
}
"""What can be done, by its name on the command line."""


def run(faults: list[str], count: int, mode: str, seed: int, options: Options) -> int:
    """The program; its exit code."""
    random = Random(seed)
    with Machines([*NODES, CLIENTS]) as machines:
        rounds = Rounds(machines, mode, options, random)
        try:
            for number in range(count):
                name = faults[number % len(faults)]
                rounds.round(name)
                print(f"round {number + 1}: {name}", flush=True)
            found = rounds.end()
        except ProcessError:
            for node in rounds.cluster.nodes.values():
                if node.process is not None:
                    print(f"--- {node.name}", *node.process.said, sep="\n")
            raise
    print(found.summary())
    for name in faults:
        for text in (name, f"{name}, mended"):
            seconds = [each.seconds for each in found.recoveries if each.mark.text == text and each.seconds is not None]
            if seconds:
                print(
                    f"{text}: next confirmation after {statistics.median(seconds):.2f} s, {max(seconds):.2f} s at most"
                )
    return 0 if found.only(*PROMISED[mode]) else 1


def main() -> int:
    """What is said on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fault", action="append", choices=[*FAULTS, "each"], required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mode", choices=list(PROMISED), default="majority")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=500.0, help="messages a second of each producer")
    given = parser.parse_args()
    faults = list(FAULTS) if "each" in given.fault else given.fault
    options = Options(rate=given.rate, longest_wait=0.2, batch=10)
    return run(faults, given.rounds, given.mode, given.seed, options)


if __name__ == "__main__":
    sys.exit(main())
