"""What has to meet for some rules of replication to matter, brought together on purpose: by chance it does in one run of thousands.

Each script goes by what the nodes do, and not by times alone: a cable ends in the very call in which somebody comes to lead, say. A node
that keeps the rules comes through all of them; so a run that aims at something is judged like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

from streams.testkit import elapse

if TYPE_CHECKING:
    from tests.simulation.clustered.host import Cluster, NodeHost
    from tests.simulation.loop import SimulatedLoop
    from tests.simulation.network import Network

EIGHT: Final = "an old record on two of three"
SIDES: Final = "a leader on either side"
LAG: Final = "a swap that nobody is told of"
AIMS: Final = (EIGHT, SIDES, LAG)

CALM_SECONDS: Final = 60.0
"""For one node to lead and all to be linked, once nothing goes wrong."""
TAKE_OVER_SECONDS: Final = 12.0
"""For another node to come to lead, of those that can. One that gave up leaves it to others for a while."""
LISTED_SECONDS: Final = 30.0
"""For the document to list somebody as in step, or not."""
LOOK_SECONDS: Final = 0.02
"""From one look to the next at what nobody tells of."""
RESTART_SECONDS: Final = 0.02
"""A node that starts anew so soon is back before anybody has missed it."""


class Aims:
    """Scripts for a cluster of three.

    Args:
        cluster: whose plan says which script.
        random: where chance comes from.
        loop: whose time it goes by.
        note: what is done is noted in the history.
    """

    def __init__(self, cluster: Cluster, random: Random, loop: SimulatedLoop, note: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._random = random
        self._loop = loop
        self._note = note
        self._scripts = {EIGHT: self._eight, SIDES: self._sides, LAG: self._lag}

    async def run(self, aim: str, until: float) -> None:
        """Play a script again and again, until that time."""
        while self._loop.time() < until:
            leader = await self._calm()
            if leader is None:
                return
            await elapse(self._random.uniform(0.2, 2.0))
            if self._cluster.leading is leader:
                await self._scripts[aim](leader)
            self._mend()

    # Scripts

    async def _eight(self, first: NodeHost) -> None:
        """As in figure 8 of Raft's paper, up to where an old record counted would be one that is lost.

        A leader has records that nobody else has. Another one leads, and nobody hears its first record. The former leads again: one of its
        old records gets to the third node, and nothing more. Then the one between leads.
        """
        self._cut_off(first)
        # In silence too: so the third waits for it for as long as the first needs to ask for the lead.
        second = await self._takes_over(self._cut_off)
        if second is None or second is first:
            return
        third = self._third(first, second)
        self._open(first, third)
        stored = self._loop.create_future()
        left = self._random.choice((1, 1, 2, 5))

        def took(name: str) -> None:
            nonlocal left
            if name == third.name and (left := left - 1) == 0:
                # What it answers still arrives.
                self._network.block(first.name, third.name)
                stored.set_result(None)

        def leads(host: NodeHost) -> None:
            if host is first:
                self._cluster.watch.on_append = took

        again = await self._takes_over(leads)
        if again is first and await _within(TAKE_OVER_SECONDS, stored):
            self._note(f"{third.name} has an old record of {first.name}, and gets no more")
            await elapse(self._random.uniform(0.1, 1.0))
            self._end(first)
            self._open(second, third)
            if await self._takes_over(lambda _: None) is not None:
                await elapse(self._random.uniform(1.0, 3.0))
        self._cluster.watch.on_append = lambda _: None
        await self._start(first)

    async def _sides(self, first: NodeHost) -> None:
        """A leader that does not know yet that it leads no more meets one that has promised to take nothing of it, and is started anew."""
        for other in self._others(first):
            self._part(first, other)
        second = await self._takes_over(self._leave_alone)
        if second is None or second is first:
            return
        third = self._third(first, second)
        self._end(third)
        self._network.join(first.name, third.name)
        await elapse(RESTART_SECONDS)
        await self._start(third)
        await elapse(self._random.uniform(1.0, 4.0))

    async def _lag(self, leader: NodeHost) -> None:
        """A member is away until nobody waits for it. When it is to be waited for again nobody is told so, and it is away again."""
        member = self._random.choice(self._others(leader))
        self._cut_off(member)
        if await self._listed(member, in_step=False):
            self._open(member, *self._others(member))
            self._cluster.register.forgets_swaps = True
            if await self._listed(member, in_step=True):
                self._cut_off(member)
                await elapse(self._random.uniform(1.0, 9.0))

    # What they are made of

    @property
    def _network(self) -> Network:
        return self._cluster.network

    def _others(self, *hosts: NodeHost) -> list[NodeHost]:
        return [host for host in self._cluster.hosts.values() if host not in hosts]

    def _third(self, *hosts: NodeHost) -> NodeHost:
        (third,) = self._others(*hosts)
        return third

    async def _calm(self) -> NodeHost | None:
        """The leader, once one leads and every node is linked to every other; None if that does not come about."""
        until = self._loop.time() + CALM_SECONDS
        hosts = self._cluster.hosts.values()
        while self._loop.time() < until:
            leader = self._cluster.leading
            linked = all(host.node is not None and len(host.node.linked) == len(hosts) - 1 for host in hosts)
            if linked and leader is not None:
                return leader
            await elapse(0.1)
        return None

    async def _takes_over(self, then: Callable[[NodeHost], None]) -> NodeHost | None:
        """The next that comes to lead; ``then`` is called before anybody hears of it. None if nobody does."""
        watch, found = self._cluster.watch, self._loop.create_future()

        def leads(name: str, _epoch: int) -> None:
            host = self._cluster.hosts[name]
            then(host)
            if not found.done():
                found.set_result(host)

        watch.on_lead = leads
        try:
            return found.result() if await _within(TAKE_OVER_SECONDS, found) else None
        finally:
            watch.on_lead = lambda *_: None

    async def _listed(self, member: NodeHost, *, in_step: bool) -> bool:
        """Wait until the document says so; whether it does."""
        until = self._loop.time() + LISTED_SECONDS
        while self._loop.time() < until:
            if self._cluster.register.history[-1].document.members[member.name].in_step == in_step:
                return True
            await elapse(LOOK_SECONDS)
        return False

    def _leave_alone(self, host: NodeHost) -> None:
        for other in self._others(host):
            self._part(host, other)

    def _part(self, one: NodeHost, other: NodeHost) -> None:
        """A way ends, and both are told at once."""
        if (one.name, other.name) not in self._network.parted:
            self._note(f"no way between {one.name} and {other.name}")
        self._network.part(one.name, other.name)

    def _cut_off(self, host: NodeHost) -> None:
        """Silence: nobody is told."""
        self._note(f"{host.name} is cut off")
        for other in self._others(host):
            self._network.block(host.name, other.name)
            self._network.block(other.name, host.name)

    def _open(self, host: NodeHost, *others: NodeHost) -> None:
        """There is a way again, for new connections: what was held back on a former one is lost."""
        for other in others:
            self._note(f"a way between {host.name} and {other.name}")
            self._network.part(host.name, other.name)
            self._network.unblock(host.name, other.name)
            self._network.unblock(other.name, host.name)
            self._network.join(host.name, other.name)

    def _end(self, host: NodeHost) -> None:
        if host.process is not None:
            power = self._random.random() < 0.3
            self._note(f"{host.name} {'loses power' if power else 'is killed'}")
            (host.power_off if power else host.kill)()

    async def _start(self, host: NodeHost) -> None:
        if host.process is None:
            self._note(f"{host.name} starts")
            await host.start()

    def _mend(self) -> None:
        """Everybody reaches everybody, and the register answers."""
        self._cluster.register.forgets_swaps = False
        hosts = list(self._cluster.hosts.values())
        for number, host in enumerate(hosts):
            for other in hosts[number + 1 :]:
                pairs = ((host.name, other.name), (other.name, host.name))
                if any(pair in self._network.blocked or pair in self._network.parted for pair in pairs):
                    self._open(host, other)


async def _within(seconds: float, done: asyncio.Future[NodeHost] | asyncio.Future[None]) -> bool:
    """Whether something is done in so much time."""
    await asyncio.wait((done,), timeout=seconds)
    return done.done()
