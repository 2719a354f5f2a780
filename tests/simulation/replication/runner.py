"""One run: a cluster with its senders and its operator, a plan of what goes wrong, then peace, and the checker's judgement."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from actors.replication.document import ClusterDocument, Member
from actors.replication.modes import rule_of
from tests.simulation.replication.checker import Checker
from tests.simulation.replication.disk import Disk
from tests.simulation.replication.faults import Faults
from tests.simulation.replication.host import Host
from tests.simulation.replication.plan import FORMER, LEADER, NEWEST, Plan, draw, draw_damaged, draw_full
from tests.simulation.replication.program import Defects
from tests.simulation.replication.senders import Sender
from tests.simulation.replication.world import Network, SimulatedRegister, World

HEAL_SECONDS = 45.0
"""Behind the last fault everything is confirmed and everybody has everything in so long: ten seconds until a silent member is off the list,
five for each swap that is not known yet, and some take-overs."""


@dataclass
class Outcome:
    """What came of a run."""

    plan: Plan
    findings: list[str]
    events: list[str]
    confirmed: int
    lost: int
    epochs: int
    transfers: int
    cuts: int


class Cluster:
    """Hosts, and what is around them."""

    def __init__(self, plan: Plan, defects: type[Defects] = Defects, *, verbose: bool = False) -> None:
        self.plan = plan
        self.defects = defects
        self.world = World(plan.seed, verbose=verbose)
        self._torn = Random(f"torn {plan.seed}")
        self.network = Network(self.world, plan.delay, plan.spread, plan.late)
        self.disks: dict[str, Disk] = {}
        self.transfers = 0
        self.lost = 0
        self.operated = -100.0  # when somebody last changed the members
        self.peace = False
        self._directories = 0
        self.hosts: dict[str, Host] = {}
        for name in plan.members + plan.spares:
            host = self.hosts[name] = Host(self, name, self.new_disk(name), plan.limits)
            host.rate = plan.drift[name]
            host.offset = self.world.random.random() * 1000
            host.sync_seconds = plan.sync_seconds
        self.network.hosts = list(self.hosts.values())
        members = {name: self.member(self.hosts[name]) for name in plan.members}
        document = ClusterDocument("0" * 32, 1, plan.members[0], members, plan.mode)
        self.register = SimulatedRegister(self.world, document)
        self.checker = Checker(self)
        self.senders = [Sender(self, f"p{number}") for number in range(plan.senders)]
        self.faults = Faults(self)

    def new_disk(self, name: str) -> Disk:
        self._directories += 1
        disk = Disk(f"{ord(name):02x}{self._directories:x}".ljust(32, "0"))
        self.disks[disk.directory] = disk
        return disk

    def new_id(self, name: str) -> str:
        self._directories += 1
        return f"{ord(name):02x}{self._directories:x}".ljust(32, "0")

    @staticmethod
    def member(host: Host, *, learner: bool = False) -> Member:
        address = f"{host.name}:1"
        return Member(host.directory, address, address, address, None, learner, not learner)

    def named(self, name: str) -> Host | None:
        """A host by its name, or whoever leads now; None where nobody does."""
        if name == FORMER:
            return self.faults.former
        if name not in (LEADER, NEWEST):
            return self.hosts[name]
        leading = [host for host in self.hosts.values() if host.up and host.replica is not None and host.replica.leader]
        if not leading:
            return None
        return max(leading, key=_epoch) if name == NEWEST else self.world.random.choice(leading)

    def settled(self) -> bool:
        """Whether each member's disk is there, and no change of the members is under way: only then a cluster can afford another loss."""
        document = self.register.document
        rules = rule_of(document)
        there = all(each in self.disks for quorum in rules.quorums for each in quorum)
        return there and document.change is None and self.world.now - self.operated >= 12.0

    def tears(self, host: Host) -> bool:
        """Whether a host whose power is lost finds a part of the write that was under way: then it may take all members to go on."""
        return self.plan.damaged and self.settled() and self._torn.random() < 0.5

    def start_later(self, host: Host, seconds: float | None) -> None:
        self.world.after(self.world.random.choice((0.05, 0.5, 3.0)) if seconds is None else seconds, host.start)

    # Senders

    def closed(self, host: Host) -> None:
        for sender in self.senders:
            sender.closed(host)

    def confirmed(self, host: Host, producer: str, number: int) -> None:
        self.checker.confirmed_to_senders += 1
        sender = self.senders[int(producer[1:])]
        self.world.after(0.0005, sender.confirmed, host, host.life, number)

    # Course

    def run(self) -> Outcome:
        world, plan = self.world, self.plan
        for host in self.hosts.values():
            world.after(world.random.random() * 0.3, host.start)
        for sender in self.senders:
            world.after(0.1, sender.produce)
        self.faults.begin()
        world.run(plan.seconds)
        self.peace = True
        self.faults.heal()
        stop = plan.seconds + HEAL_SECONDS
        while world.now < stop and not self.quiet():
            world.run(min(world.now + 1.0, stop))
        self.checker.end()
        return Outcome(
            plan=plan,
            findings=self.checker.findings,
            events=world.events,
            confirmed=self.checker.confirmed_to_senders,
            lost=self.lost,
            epochs=self.register.document.epoch,
            transfers=self.transfers,
            cuts=sum(len(disk.aside) for disk in self.disks.values()),
        )

    def quiet(self) -> bool:
        """Whether there is nothing left to wait for."""
        document = self.register.document
        if any(sender.waiting for sender in self.senders) or document.change is not None:
            return False
        stop = len(self.checker.truth) + 1
        for member in document.members.values():
            disk = self.disks.get(member.directory)
            if member.learner or disk is None or disk.committed != stop or disk.end != stop:
                return False
        return True


def _epoch(host: Host) -> int:
    assert host.replica is not None
    assert host.replica.leader is not None
    return host.replica.leader.epoch


def run(
    seed: int,
    members: int | None = None,
    defects: type[Defects] = Defects,
    *,
    verbose: bool = False,
    full: bool = False,
    damaged: bool = False,
) -> Outcome:
    """A seed's run, with disks that are ``full`` or ``damaged`` besides. What breaks in it is a finding too."""
    plan = draw(seed, members)
    if full:
        draw_full(plan, Random(f"full {seed}"))
    if damaged:
        draw_damaged(plan, Random(f"damaged {seed}"))
    cluster = Cluster(plan, defects, verbose=verbose)
    try:
        return cluster.run()
    except Exception as error:  # noqa: BLE001 - whatever breaks is a finding, with the seed that shows it
        return broken(cluster, error)


def broken(cluster: Cluster, error: BaseException) -> Outcome:
    cluster.checker.found(f"broken: {error!r}")
    findings: Any = cluster.checker.findings
    return Outcome(cluster.plan, findings, cluster.world.events, 0, 0, 0, 0, 0)
