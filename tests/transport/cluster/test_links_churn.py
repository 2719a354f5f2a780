"""Whatever ends, and wherever it is cut: what comes over a link is what was sent over it, in order, and in the end all have links."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from itertools import pairwise, permutations
from typing import Any

import pytest

from actors.replication import vocabulary as say
from streams.testkit import settle
from tests.transport.cluster.link_nodes import LinkNode, nodes

pytestmark = pytest.mark.event_loop

Run = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
LIFE = 1_000_000
"""Messages say in which life of a link they were sent, and which they are in it."""


class Numbering:
    """What one node sends to another, numbered anew with each link, and what the other one got of it."""

    def __init__(self, one: LinkNode, other: LinkNode) -> None:
        self.one = one
        self.other = other
        self._life = self._next = self._told = 0

    def send(self) -> None:
        told = self.one.count("connected", self.other)
        if told != self._told:
            self._told, self._next = told, 0
            self._life += 1
        if self.one.links.send(self.other.directory, say.Stored(1, self._life * LIFE + self._next, 0.5)):
            self._next += 1

    def check(self) -> None:
        """Of each life a beginning came, in order, and nothing of a life behind one of a later one."""
        numbers = [message.lsn for peer, message in self.other.got if peer == self.one.name]
        for before, after in pairwise(numbers):
            assert after == before + 1 or (after // LIFE > before // LIFE and after % LIFE == 0), (before, after)


@pytest.mark.parametrize("seed", range(12))
def test_nodes_whose_links_end_at_any_time_have_links_in_the_end(run: Run, seed: int) -> None:
    chance = random.Random(seed)

    async def main() -> None:
        async with nodes("a", "b", "c", join=False) as three:
            numberings = [Numbering(*pair) for pair in permutations(three, 2)]
            for each in three:
                each.knows(*three)
            for _ in range(150):
                match chance.randrange(8):
                    case 0:
                        # One side knows of the end, and the other not yet.
                        node = chance.choice(three)
                        for link in list(node.links._made)[: chance.randrange(2)]:
                            node.links.ended(link, ConnectionResetError("as if it were so"))
                            asyncio.get_running_loop().call_later(0.02, link.abort, ConnectionResetError("it is so"))
                            node.links.made(link)
                    case 1:
                        node = chance.choice(three)
                        for link in list(node.links._made)[: chance.randrange(3)]:
                            link.abort(ConnectionResetError("cut"))
                    case 2:
                        node = chance.choice(three)
                        node.links.set_peers({})
                        node.knows(*three)
                    case _:
                        for each in numberings:
                            for _ in range(chance.randrange(4)):
                                each.send()
                for _ in range(chance.randrange(8)):
                    await asyncio.sleep(0)
            for each in three:
                others = {other.directory for other in three if other is not each}
                await each.until(lambda each=each, others=others: each.links.connected == others)  # type: ignore[misc]
            for one, other in permutations(three, 2):
                done = say.Seal(7)
                while ("a", done) not in [(("a"), message) for peer, message in other.got if peer == one.name]:
                    one.links.send(other.directory, done)
                    await asyncio.sleep(0)
            for each in numberings:
                each.other.got = [
                    (peer, message) for peer, message in each.other.got if isinstance(message, say.Stored)
                ]
            for each in numberings:
                each.check()

    run(main)


@pytest.mark.parametrize("way", ["up", "down"])
@pytest.mark.parametrize("first", range(4))
def test_wherever_a_connection_is_cut_a_part_of_what_was_sent_has_come(
    run: Run, cutting: Any, monkeypatch: pytest.MonkeyPatch, way: str, first: int
) -> None:
    """From the first byte of HELLO on, through the handshake and some messages."""
    monkeypatch.setattr("transport.cluster.links.MOST_REDIAL_SECONDS", 0.005)
    monkeypatch.setattr("transport.cluster.links.FIRST_REDIAL_SECONDS", 0.005)
    places = list(range(1 + first * 2, 520, 23))

    async def main() -> None:
        async with nodes("a", "b", join=False) as (a, b), cutting(a.address) as proxy:
            setattr(proxy, way, places)
            a.links.set_peers({b.directory: "127.0.0.1:1"})
            numbering, back = Numbering(b, a), Numbering(a, b)
            b.knows(a=proxy.address)
            while proxy.connections <= len(places):
                numbering.send()
                back.send()
                await settle(0.0005)
            await b.until(lambda: bool(b.links.connected))
            got = len(a.got)
            numbering.send()
            await a.until(lambda: len(a.got) > got)
            numbering.check()
            back.check()
            assert b.count("lost", a) >= len(places)

    run(main)
