"""What goes wrong with nodes, cables between them and the register, besides what goes wrong with clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace as changed
from random import Random
from typing import TYPE_CHECKING, Final

from actors.replication.document import encode_document
from streams.testkit import elapse
from tests.simulation.clustered.aims import Aims
from tests.simulation.clustered.host import NODES, places
from tests.simulation.clustered.plan import bad_register
from tests.simulation.faults import Nemesis, WallClock
from tests.simulation.history import History
from tests.simulation.register import RegisterFaults
from transport import TransportError
from transport.clients.administration import Administration

if TYPE_CHECKING:
    from tests.simulation.clients import Client
    from tests.simulation.clustered.host import Cluster, NodeHost
    from tests.simulation.loop import SimulatedLoop

LONGEST_DOWN: Final = 14.0
LONGEST_CUT: Final = 14.0
"""Seconds: several times as long as a leader is missed for, and longer than a member is waited for where all count."""
LONGEST_FREEZE: Final = 10.0
ABOUT_MISSED: Final = (1.0, 3.5)
LONGEST_COMMAND: Final = 40.0
LONGEST_MOVE: Final = 600.0
"""For a member to live on another disk: some of what goes wrong meanwhile keeps it from that."""
LEADERLESS_SECONDS: Final = 60.0
"""After so long without a leader a person looks whether one is hindered by doubt beside a lost disk."""


class ClusterNemesis(Nemesis):
    """Breaks nodes too."""

    def __init__(
        self,
        cluster: Cluster,
        random: Random,
        loop: SimulatedLoop,
        clients: list[Client],
        history: History,
        wall_clock: WallClock,
        failed: Callable[[str, BaseException], None],
    ) -> None:
        super().__init__(
            cluster.plan.base,
            random,
            loop,
            cluster.network,
            cluster,  # type: ignore[arg-type]  # of a broker alone, which is not here
            clients,
            history,
            wall_clock,
            failed,
        )
        self._cluster = cluster
        self._replacing = False
        self._damaging = False
        self._kinds |= {
            "kill node": lambda: self._end([self._any()], "kill"),
            "power off node": lambda: self._end([self._any()], "power"),
            "stop node": lambda: self._end([self._any()], "stop"),
            "kill two": lambda: self._end(self._some(2), self._random.choice(("kill", "power"))),
            "power off all": lambda: self._end(self._some(len(cluster.hosts)), "power"),
            "cut off node": self._cut_off,
            "one way": self._one_way,
            "split": self._split,
            "freeze node": self._freeze,
            "lose disk": lambda: self._lose_disk(self._any()),
            "damage last write": self._damage,
            "register down": lambda: self._unreachable(tuple(cluster.hosts)),
            "register out of reach": lambda: self._unreachable((self._any().name,)),
            "bad register": self._bad_register,
        }

    async def run(self) -> None:
        """Break something now and then, for as long as the plan says, then mend everything."""
        plan = self._cluster.plan
        if plan.aim is not None:
            await Aims(self._cluster, self._random, self._loop, self._note).run(plan.aim, plan.base.faults.until)
        await super().run()
        self._cluster.register.heal(*self._cluster.hosts)
        self._cluster.register.faults = RegisterFaults()

    # Kinds

    def _any(self) -> NodeHost:
        """The one that leads, as often as not."""
        leading = self._cluster.leading
        if leading is not None and self._random.random() < 0.5:
            return leading
        return self._random.choice(list(self._cluster.hosts.values()))

    def _while(self, longest: float) -> float:
        """Seconds; often about as many as a leader is missed for, and a connection lives on in silence."""
        return self._random.uniform(*(ABOUT_MISSED if self._random.random() < 0.5 else (0.0, longest)))

    def _some(self, count: int) -> list[NodeHost]:
        return self._random.sample(list(self._cluster.hosts.values()), count)

    def _end(self, hosts: list[NodeHost], how: str) -> None:
        async def all_at_once() -> None:
            if self._random.random() < 0.5:
                await self._next_confirmation()
            # They come back one after another, in any order.
            down = self._while(LONGEST_DOWN) if len(hosts) == 1 else self._random.uniform(0, 2.0)
            for host in self._random.sample(hosts, len(hosts)):
                self._keep(end_and_start(host, down))
                down += self._random.uniform(0, LONGEST_DOWN / 2)

        async def end_and_start(host: NodeHost, down: float) -> None:
            if host.process is None or (how == "stop" and host.node is None):
                return  # it is down, or starts; what starts, or is being stopped, may be killed
            self._note(f"{host.name}: {how}")
            if how == "stop":
                await host.stop()
            elif how == "kill":
                host.kill()
            else:
                host.power_off()
            await elapse(down)
            if host.process is None:
                self._note(f"{host.name} starts")
                await host.start()

        self._keep(all_at_once())

    def _damage(self) -> None:
        """Two nodes are killed, and the last write of one is damaged, on one disk at a time; the other one may stay away for longer."""
        two = [host for host in self._some(2) if host.node is not None]
        if self._replacing or self._damaging or not two:
            return
        self._damaging = True

        async def damage() -> None:
            if self._random.random() < 0.7:
                await self._next_confirmation()
            for host in two:
                if host.process is not None:
                    self._note(f"{host.name}: kill")
                    host.kill()
                    self._keep(start(host, self._while(LONGEST_DOWN)))
            if two[0].process is None and two[0].damage_last_write():
                self._note(f"{two[0].name}: its last write is damaged")
                while two[0].in_doubt:
                    await elapse(0.1)
            self._damaging = False

        async def start(host: NodeHost, down: float) -> None:
            await elapse(down)
            if host.process is None:
                self._note(f"{host.name} starts")
                await host.start()

        self._keep(damage())

    def _cut_off(self) -> None:
        """One node from the others, or from some of them; its clients reach it all the same."""
        one = self._any().name
        others = [name for name in self._cluster.hosts if name != one]
        others = others if self._random.random() < 0.7 else self._random.sample(others, 1)
        self._block([(one, other) for other in others] + [(other, one) for other in others])

    def _one_way(self) -> None:
        """What one node says does not arrive, or it hears nothing."""
        one = self._any().name
        others = [name for name in self._cluster.hosts if name != one]
        others = self._random.sample(others, self._random.randint(1, len(others)))
        says = self._random.random() < 0.5
        self._block([(one, other) if says else (other, one) for other in others])

    def _split(self) -> None:
        """Two parts that do not reach each other, each with some of the clients."""
        names = [*self._cluster.hosts, *(client.name for client in self._clients)]
        part = {name for name in names if self._random.random() < 0.5}
        self._block([(one, other) for one in names for other in names if (one in part) != (other in part)])

    def _block(self, pairs: list[tuple[str, str]]) -> None:
        pairs = [pair for pair in pairs if pair not in self._network.blocked]
        self._note(f"blocked: {', '.join(f'{one}>{other}' for one, other in pairs)}")
        for pair in pairs:
            self._network.block(*pair)

        def heal() -> None:
            self._note(f"open: {', '.join(f'{one}>{other}' for one, other in pairs)}")
            for pair in pairs:
                self._network.unblock(*pair)

        self._later(self._while(LONGEST_CUT), heal)

    def _freeze(self) -> None:
        host = self._any()
        process = host.process
        if process is None or process.frozen:
            return
        self._note(f"{host.name} is frozen")
        self._loop.freeze(process)

        def thaw() -> None:
            if process.frozen:
                self._note(f"{host.name} goes on")
                self._loop.thaw(process)

        self._later(self._while(LONGEST_FREEZE), thaw)

    def _lose_disk(self, host: NodeHost) -> None:
        """A disk is gone for good; an administrator has its member live on an empty one. No other one goes until that counts."""
        if self._replacing or self._damaging or host.node is None:
            return
        self._replacing = True
        self._note(f"{host.name} loses its disk")
        host.lose_disk()

        async def replace() -> None:
            await elapse(self._random.uniform(0, LONGEST_DOWN))
            if host.process is None:
                await host.start()
            async with asyncio.timeout(LONGEST_MOVE):
                led = self._loop.time()
                while not await self._moved(host):
                    await elapse(1.0)
                    if self._cluster.leading is not None:
                        led = self._loop.time()
                    elif self._loop.time() - led > LEADERLESS_SECONDS:
                        self._go_on_without(host)
            self._note(f"{host.name} counts again")
            self._replacing = False

        self._keep(replace())

    async def _moved(self, host: NodeHost) -> bool:
        """Whether a member counts that lives in the directory which its host has now; if not, it is asked for."""
        if host.node is None:
            return False
        directory = host.node.storage.directory_id
        try:
            async with asyncio.timeout(LONGEST_COMMAND), Administration(self._cluster.contact_points) as administration:
                facts = await administration.cluster()
                member = next((each for each in facts["members"] if each["name"] == host.name), None)
                if member is not None and member.get("directory") == directory and not facts.get("change"):
                    return bool(member.get("counts"))
                if member is None:
                    await administration.add_member(host.name, places((host.name,), NODES))
                else:
                    await administration.move_member(host.name)
        except (TransportError, TimeoutError):
            pass  # another leads, or nobody does, or it is moved already
        return False

    def _go_on_without(self, lost: NodeHost) -> None:
        """As docs/cluster-loss.md has it for one that is gone while another one is in doubt, where all others are there."""
        register, rest = self._cluster.register, [each for each in self._cluster.hosts.values() if each is not lost]
        version, document = register.now
        if document is None or lost.name not in document.members:
            return
        if any(each.node is None for each in rest) or not any(each.in_doubt for each in rest):
            return
        self._note(f"{lost.name} is taken out of the document, for nobody leads")
        members = {name: member for name, member in document.members.items() if name != lost.name}
        without = changed(document, members=members, leader=rest[0].name, change=None)
        register.compare_and_swap("a person", version, encode_document(without))

    def _unreachable(self, names: tuple[str, ...]) -> None:
        register = self._cluster.register
        silent = self._random.random() < 0.5
        self._note(f"the register is {'silent' if silent else 'not there'} for {', '.join(names)}")
        (register.silence if silent else register.refuse)(*names)
        self._later(self._random.uniform(0, LONGEST_CUT), lambda: register.heal(*names))

    def _bad_register(self) -> None:
        register, before = self._cluster.register, self._cluster.plan.register
        self._note("the register answers late, or not")
        register.faults = bad_register(self._random)

        def mend() -> None:
            register.faults = before

        self._later(self._random.uniform(0, LONGEST_CUT), mend)
