"""The links of a cluster over cables that are slow, cut, or cut one way: signs of life come in time, and ends are known in time.

The nodes' ports and links alone, each on the loop of a thread of its own, which is on a machine of its own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from actors.replication import vocabulary as say
from actors.replication.limits import BEAT_SECONDS, LIMITS, MISS_SECONDS
from actors.replication.positions import Position
from streams.testkit import settle
from tests.fault.machines.machines import Machine, Machines
from tests.transport.cluster.link_nodes import LinkNode
from transport.cluster.link import SILENT_SECONDS
from transport.cluster.records import Record

T = TypeVar("T")

DEADLINE = 40.0
PORT = 9184
SLOW_BITS = 8_000_000
"""A second: a window of the log takes 17 seconds."""
BEATS = 40
BEAT_OF_THE_TEST = 0.1


class Site(threading.Thread):
    """A node on a machine."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(name=f"node {machine.name}", daemon=True)
        self._machine = machine
        self._ready = threading.Event()
        self._end = asyncio.Event()
        self.address = f"{machine.address}:{PORT}"
        self.node: LinkNode
        self.loop: asyncio.AbstractEventLoop
        self.start()
        assert self._ready.wait(DEADLINE)

    def run(self) -> None:
        with self._machine.inside():
            asyncio.run(self._main())

    async def _main(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.node = LinkNode(self._machine.name, address=self.address)
        await self.node.links.start()
        self._ready.set()
        await self._end.wait()
        await self.node.links.close()

    def do(self, work: Callable[[LinkNode], Coroutine[Any, Any, T]]) -> T:
        """What a coroutine of its loop gives."""
        return asyncio.run_coroutine_threadsafe(work(self.node), self.loop).result(DEADLINE)

    def begin(self, work: Callable[[LinkNode], Coroutine[Any, Any, T]]) -> Any:
        """The same, to be waited for later."""
        return asyncio.run_coroutine_threadsafe(work(self.node), self.loop)

    def knows(self, *others: Site) -> None:
        async def know(node: LinkNode) -> None:
            node.links.set_peers({other.node.directory: other.address for other in others})

        self.do(know)

    def connects(self, other: Site, times: int = 1) -> None:
        self.do(lambda node: node.connects(other.node, times=times))

    def loses(self, other: Site, times: int) -> None:
        self.do(lambda node: node.loses(other.node, times=times))

    def count(self, what: str, other: Site) -> int:
        return self.node.count(what, other.node)

    def end(self) -> None:
        self.loop.call_soon_threadsafe(self._end.set)
        self.join(DEADLINE)


@pytest.fixture
def sites(machines: Machines) -> Iterator[tuple[Site, Site]]:
    """Two nodes with a link."""
    made = Site(machines["a"]), Site(machines["b"])
    for each in made:
        each.knows(*made)
    made[0].connects(made[1])
    made[1].connects(made[0])
    yield made
    for each in made:
        each.end()


def test_signs_of_life_come_in_time_over_a_slow_cable_that_ships_all_it_can(
    machines: Machines, sites: tuple[Site, Site]
) -> None:
    one, other = sites
    # An attempt that failed before the first link stood counts too.
    lost = one.count("lost", other), other.count("lost", one)
    machines.links.limit("a", SLOW_BITS)
    record = Record(10, 3, 1, 0, (bytes(LIMITS.ship_bytes),))
    waits: list[float] = []
    shipped = 0

    def heard(_: str, message: Any) -> None:
        if isinstance(message, say.Stored):
            waits.append(time.monotonic() - message.sent)

    async def ship(node: LinkNode) -> None:
        """As a leader does: the next when the last has left, and a beat now and then."""
        to = other.node.directory
        loop = asyncio.get_running_loop()

        def more() -> None:
            nonlocal shipped
            shipped += 1
            if len(waits) < BEATS:
                loop.call_soon(next_one)

        def next_one() -> None:
            if node.links.ship(to, say.Replicate(3, Position(3, 9), 0, 0.0, [record]), more):
                more()

        next_one()
        while len(waits) < BEATS:
            node.links.send(to, say.Stored(3, 1, time.monotonic()))
            await settle(BEAT_OF_THE_TEST)

    other.node.on_message = heard
    one.do(ship)
    assert shipped >= 2, "the cable was not busy"
    assert (one.count("lost", other), other.count("lost", one)) == lost
    # The first ones find a link that nobody has measured; the cable has a buffer of its own, of 0.4 s.
    assert max(waits) < MISS_SECONDS, waits
    assert sorted(waits)[len(waits) // 2] < 2 * BEAT_SECONDS, waits


@pytest.mark.parametrize("cut", ["both", "to", "from"])
def test_a_silent_cut_is_known_in_time_and_the_link_is_back_soon_behind_it(
    machines: Machines, sites: tuple[Site, Site], cut: str
) -> None:
    one, other = sites
    ways = (one, other), (other, one)
    lost, connected = ([each.count(what, peer) for each, peer in ways] for what in ("lost", "connected"))
    begun = time.monotonic()
    if cut in ("both", "to"):
        machines.links.cut_one_way("a", "b")
    if cut in ("both", "from"):
        machines.links.cut_one_way("b", "a")
    for (site, peer), before in zip(ways, lost, strict=True):
        site.loses(peer, before + 1)
    assert time.monotonic() - begun < 2 * SILENT_SECONDS
    machines.links.heal()
    begun = time.monotonic()
    for (site, peer), before in zip(ways, connected, strict=True):
        site.connects(peer, before + 1)
    assert time.monotonic() - begun < 2 * SILENT_SECONDS
