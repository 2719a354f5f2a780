"""Senders with producer numbers: what is not confirmed they send again, to whoever is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.replication.host import Host
    from tests.simulation.replication.runner import Cluster

MAX_WAITING = 12
"""Messages not confirmed of one sender."""
PATIENCE_SECONDS = 3.0
"""Without a confirmation for so long it looks for another host."""


class Sender:
    """One of them.

    Attributes:
        waiting: numbers that are not confirmed, ascending.
    """

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.name = name
        self.waiting: list[int] = []
        self._cluster = cluster
        self._number = 0
        self._host: Host | None = None
        self._life = 0
        self._last = 0.0  # when the last message arrives
        self._news = 0.0  # when it was confirmed something, or had nothing to wait for

    def produce(self) -> None:
        world, plan = self._cluster.world, self._cluster.plan
        if not self.waiting:
            self._news = world.now
        elif world.now - self._news > PATIENCE_SECONDS:
            self._host = None
            self._news = world.now
        if not self._cluster.peace and len(self.waiting) < MAX_WAITING:
            new = list(range(self._number + 1, self._number + 1 + world.random.randint(1, plan.burst)))
            self._number = new[-1]
            self.waiting += new
            if self._host is not None:
                self._send(new[0], len(new))
        if self._host is None:
            self._attach()
        world.after(plan.interval * (0.5 + world.random.random()), self.produce)

    def _attach(self) -> None:
        hosts = [host for host in self._cluster.hosts.values() if host.up and host.opened]
        if not hosts:
            return
        self._host = self._cluster.world.random.choice(hosts)
        self._life = self._host.life
        if self.waiting:
            self._send(self.waiting[0], self.waiting[-1] - self.waiting[0] + 1)

    def _send(self, first: int, count: int) -> None:
        world = self._cluster.world
        self._last = max(self._last, world.now + 0.0005 + world.random.random() * 0.001)
        assert self._host is not None
        world.at(self._last, self._host.event, self._life, self._host.send_if_open, self.name, first, count)

    def closed(self, host: Host) -> None:
        if host is self._host:
            self._host = None

    def confirmed(self, host: Host, life: int, number: int) -> None:
        if host is self._host and life == self._life:
            self._news = self._cluster.world.now
            self.waiting = [each for each in self.waiting if each > number]
