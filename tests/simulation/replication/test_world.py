"""What the simulated network keeps to, whatever is blocked meanwhile."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.simulation.replication.world import Link, Network, World


class Reader:
    """Somebody at the end of a connection."""

    def __init__(self, name: str) -> None:
        self.name = self.directory = name
        self.got: list[Any] = []

    def receive(self, link: Link, sender: str, message: Any) -> None:
        self.got.append(message)

    def link_ended(self, link: Link, peer: str) -> None:
        pass


def test_messages_of_a_connection_keep_their_order_whatever_is_blocked_while_they_are_under_way() -> None:
    for seed in range(50):
        random = Random(seed)
        world = World(seed)
        network = Network(world, 0.01, 0.02, 0.0)
        a, b = Reader("a"), Reader("b")
        link = network.links[frozenset("ab")] = Link(network, a, b)
        for number in range(100):
            world.at(number * 0.005, link.send, a, number)
        for _ in range(10):
            time = random.random() * 0.5
            world.at(time, network.block, {("a", "b")}, 100.0)
            world.at(time + random.random() * 0.1, network.unblock, {("a", "b")})
        world.run(5.0)
        assert b.got == list(range(100))


def test_what_was_under_way_when_a_connection_ended_is_lost_or_comes_late() -> None:
    for late, got in ((0.0, []), (1.0, [1, 2])):
        world = World(0)
        network = Network(world, 0.01, 0.02, late)
        a, b = Reader("a"), Reader("b")
        link = network.links[frozenset("ab")] = Link(network, a, b)
        for number in (1, 2):
            link.send(a, number)
        link.end()
        link.send(a, 3)
        world.run(5.0)
        assert b.got == got
