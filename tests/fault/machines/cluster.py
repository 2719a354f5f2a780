"""A cluster of brokers, each with its etcd on a machine of its own, as `penstock broker --cluster` starts them.

By default each broker runs its machine's etcd, which dies with it. With an `Etcd` of its own a broker may die alone.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.fault.machines.brokers import RECEIVE_PORT, SEND_PORT
from tests.fault.machines.etcd import Etcd
from tests.fault.machines.machines import Machine, Machines
from tests.fault.machines.processes import STOP_SECONDS, Process, ProcessError

NODES: Final = ("a", "b", "c")
STARTED: Final = r"node \w+: sending \S+"
LEADS: Final = re.compile(r"this node leads its cluster, with epoch (\d+)")
FOLLOWS: Final = re.compile(r"the node \S+ leads, with epoch (\d+)")
FULL: Final = re.compile(r"this node takes no records when it follows, until there is room")
ROOM: Final = re.compile(r"there is room again: this node takes records when it follows")
CUT: Final = re.compile(r"were never committed, and are cut off: \d+ of them, with (\d+) messages")
DAMAGE: Final = re.compile(r"this node has met damage, and leaves its cluster")
DOUBT: Final = re.compile(r"a write was cut off its log that was damaged or not finished")
START_SECONDS: Final = 30.0
LEAD_SECONDS: Final = 30.0


class Node:
    """One node of the cluster, on its machine.

    Attributes:
        name: its name, which is its machine's.
        machine: where it is.
        process: the one that was started last; None before.
        epoch: the greatest epoch that it has said to lead.
        follows: the greatest epoch whose leader it has said to know.
        full: whether it has said that it has no room for more of the log, and not yet that it has some again.
        cut: messages that it has said to have cut off its log, for the cluster has others in their place.
        met: how often it has said that it has met damage.
        cuts: how often it has said that a write is cut off the end of its log that may have been confirmed.
    """

    def __init__(self, machine: Machine) -> None:
        self.name = machine.name
        self.machine = machine
        self.process: Process | None = None
        self.epoch = 0
        self.follows = 0
        self.full = False
        self.cut = 0
        self.met = 0
        self.cuts = 0

    @property
    def data(self) -> Path:
        """Its directory, on its machine's disk."""
        return self.machine.disk.path / "data"

    @property
    def send(self) -> str:
        """Where senders connect."""
        return f"{self.machine.address}:{SEND_PORT}"

    @property
    def receive(self) -> str:
        """Where receivers connect."""
        return f"{self.machine.address}:{RECEIVE_PORT}"

    @property
    def running(self) -> bool:
        """Whether its process runs."""
        return self.process is not None and self.process.running

    def hear(self, line: str) -> bool:
        """Take note of a line that its process printed; whether it said anything of what is known here."""
        if (leads := LEADS.search(line)) is not None:
            self.epoch = int(leads[1])
        elif (follows := FOLLOWS.search(line)) is not None:
            self.follows = int(follows[1])
        elif (cut := CUT.search(line)) is not None:
            self.cut += int(cut[1])
        elif DAMAGE.search(line):
            self.met += 1
        elif DOUBT.search(line):
            self.cuts += 1
        elif FULL.search(line) or ROOM.search(line):
            self.full = FULL.search(line) is not None
        else:
            return False
        return True


class Cluster:
    """Three brokers that act as one.

    Args:
        machines: with machines of the nodes' names.
        mode: what a confirmation waits for.
        options: of each ``penstock broker``, beside those that the cluster needs.
        names: of the nodes.
        etcd: one with a member on each node's machine, which is started here with the node; None to have each broker run its own.

    Attributes:
        nodes: by name.
    """

    def __init__(
        self,
        machines: Machines,
        mode: str = "majority",
        options: Sequence[str] = ("--disk-floor", "0"),
        names: Sequence[str] = NODES,
        etcd: Etcd | None = None,
    ) -> None:
        self.nodes: Mapping[str, Node] = {name: Node(machines[name]) for name in names}
        self._mode = mode
        self._options = options
        self._etcd = etcd
        self._secret = machines.folder / "secret"
        self._secret.write_text(secrets.token_hex(32) + "\n")
        self._secret.chmod(0o600)
        self._changed = threading.Condition()

    @property
    def send(self) -> list[str]:
        """The contact points of senders."""
        return [node.send for node in self.nodes.values()]

    @property
    def receive(self) -> list[str]:
        """The contact points of receivers."""
        return [node.receive for node in self.nodes.values()]

    def start(self, *names: str) -> None:
        """Start these nodes, all by default, and wait until each has opened its directory."""
        if self._etcd is not None and (away := [name for name in names or self.nodes if not self._etcd.runs(name)]):
            self._etcd.start(*away)
        begun = [self._begin(self.nodes[name]) for name in names or self.nodes]
        for process in begun:
            process.wait_line(STARTED, START_SECONDS)

    def _begin(self, node: Node) -> Process:
        machine = node.machine
        registers = ",".join(f"{each.name}={each.machine.register_address}" for each in self.nodes.values())
        if self._etcd is not None:
            registers = f"etcd://{','.join(self._etcd.endpoints.values())}"
        members = ",".join(f"{each.name}={each.machine.address}" for each in self.nodes.values())

        def heard(line: str) -> None:
            with self._changed:
                if node.hear(line):
                    self._changed.notify_all()

        node.full = False

        # Machines have one another for neighbours, and nobody else: there is nothing to be kept out.
        words = (
            *("--cluster", f"{registers}/rounds", "--node", node.name, "--cluster-members", members),
            *("--advertise", machine.address, "--cluster-secret-file", str(self._secret), "--cluster-mode", self._mode),
            *("--send-address", node.send, "--receive-address", node.receive, "--http", "none", "--insecure"),
            *("--data", str(node.data), "--log-level", "info"),
        )
        node.process = machine.python(
            "transport.cli", "broker", *words, *self._options, name=f"node {node.name}", heard=heard
        )
        return node.process

    def leader(self, above: int = 0, seconds: float = LEAD_SECONDS) -> Node:
        """The node that has said last that it leads, with an epoch greater than ``above``; it waits for one."""

        def found() -> Node | None:
            running = [node for node in self.nodes.values() if node.running and node.epoch > above]
            return max(running, key=lambda node: node.epoch, default=None)

        with self._changed:
            self._changed.wait_for(lambda: found() is not None, seconds)
            node = found()
        if node is None:
            raise ProcessError(f"no node leads with an epoch above {above} after {seconds:.0f} s")
        return node

    def followers(self) -> list[Node]:
        """All but the leader, by name."""
        leader = self.leader()
        return [node for node in self.nodes.values() if node is not leader]

    def wait_whole(self, seconds: float = LEAD_SECONDS) -> Node:
        """Wait until every node runs, and knows the leader of the greatest epoch; the leader."""

        def whole() -> bool:
            epoch = max(node.epoch for node in self.nodes.values())
            return epoch > 0 and all(
                node.running and (node.epoch == epoch or node.follows >= epoch) for node in self.nodes.values()
            )

        with self._changed:
            if not self._changed.wait_for(whole, seconds):
                known = {node.name: (node.running, node.epoch, node.follows) for node in self.nodes.values()}
                raise ProcessError(f"not every node knows the leader after {seconds:.0f} s: {known}")
        return self.leader()

    def wait_in_step(self, asking: Machine, seconds: float = LEAD_SECONDS) -> None:
        """Wait until every member counts, and has what was committed a moment ago: one that is filled anew has to be whole by then.

        Args:
            asking: the machine that ``penstock cluster status`` runs on.
            seconds: in all.

        Raises:
            ProcessError: it is not so, within this time.
        """
        asked = ("cluster", "status", "--json", "--wide", "--address", ",".join(self.send))
        until = time.monotonic() + seconds
        while True:
            process = asking.python("transport.cli", *asked, name="status")
            if process.wait_end(seconds) == 0:
                process.join()
                facts = json.loads("\n".join(process.said))
                members = facts["members"]  # none where the node that answers waits to be one
                if members and not facts["change"] and all(each["in_step"] and each["counts"] for each in members):
                    return
            if time.monotonic() >= until:
                raise process.failed(f"not all were in step within {seconds:.0f} s")

    def wait_full(self, node: Node, full: bool, seconds: float = LEAD_SECONDS) -> None:
        """Wait until a node has said that it has no room for more of the log, or that it has some again.

        Raises:
            ProcessError: it has not, within this time, or it has ended.
        """
        with self._changed:
            self._changed.wait_for(lambda: node.full == full or not node.running, seconds)
        assert node.process is not None
        if not node.running or node.full != full:
            raise node.process.failed(f"did not say that it has {'no room' if full else 'room again'}")

    def kill(self, node: Node) -> None:
        """SIGKILL for the broker and its etcd."""
        node.machine.kill()

    def kill_broker(self, node: Node) -> None:
        """SIGKILL for the broker alone; an etcd that it runs itself dies with it."""
        assert node.process is not None
        node.process.kill()

    def stop_node(self, node: Node, seconds: float = STOP_SECONDS) -> None:
        """SIGTERM for the broker, and the end of its etcd.

        Raises:
            ProcessError: it did not end in good order within this time.
        """
        assert node.process is not None
        node.process.stop(seconds)
        node.machine.kill()

    def stop(self) -> None:
        """SIGTERM for all, one after the other."""
        for node in self.nodes.values():
            if node.process is not None and node.running:
                node.process.stop()
