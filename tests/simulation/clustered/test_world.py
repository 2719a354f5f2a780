"""The world of simulated nodes: processes that are frozen, threads, and cables that carry one way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from streams.testkit import elapse
from tests.simulation.loop import SimulatedLoop
from tests.simulation.network import Network


def run(main: Callable[[SimulatedLoop, Network], Coroutine[Any, Any, None]], thread: float = 0.1) -> None:
    loop = SimulatedLoop(threads=lambda: thread)
    network = Network(loop, Random(0))
    try:
        loop.run_until_complete(main(loop, network))
    finally:
        loop.abandon_tasks()
        loop.close()


async def tick(times: list[float]) -> None:
    while True:
        await elapse(1.0)
        times.append(asyncio.get_running_loop().time())


def test_time_passes_a_frozen_process_by_and_what_came_for_it_comes_when_it_goes_on() -> None:
    async def main(loop: SimulatedLoop, _: Network) -> None:
        frozen, other = loop.process("frozen"), loop.process("other")
        of_frozen: list[float] = []
        of_other: list[float] = []
        frozen.spawn(tick(of_frozen))
        other.spawn(tick(of_other))
        await elapse(1.5)
        loop.freeze(frozen)
        await elapse(3.0)
        assert (len(of_frozen), len(of_other)) == (1, 4)
        loop.thaw(frozen)
        await elapse(0.1)
        assert of_frozen == [1.0, 4.5]

    run(main)


def test_what_a_killed_process_had_done_on_a_thread_is_told_to_nobody() -> None:
    async def main(loop: SimulatedLoop, _: Network) -> None:
        process = loop.process("killed")
        done: list[str] = []

        async def work() -> None:
            await asyncio.to_thread(done.append, "on the thread")
            done.append("told")

        process.spawn(work())
        await elapse(0.05)
        assert list(process.jobs)
        loop.kill(process)
        await elapse(1.0)
        assert done == []

    run(main)


def test_a_thread_takes_its_time_and_its_failure_is_raised() -> None:
    async def main(loop: SimulatedLoop, _: Network) -> None:
        try:
            await asyncio.to_thread(int, "none")
        except ValueError:
            assert loop.time() >= 0.2
        else:
            raise AssertionError("it has failed")

    run(main)


class Noting(asyncio.Protocol):
    """Notes what comes."""

    def __init__(self) -> None:
        self.heard = b""
        self.lost = False
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


def test_a_cable_may_carry_one_way_and_what_was_held_back_arrives_when_it_is_mended() -> None:
    async def main(loop: SimulatedLoop, network: Network) -> None:
        server, client = Noting(), Noting()
        a, b = loop.process("a"), loop.process("b")
        await a.spawn(loop.create_server(lambda: server, "a", 7001))
        await b.spawn(loop.create_connection(lambda: client, "a", 7001))
        network.block("b", "a")
        client.transport.write(b"from b")
        server.transport.write(b"from a")
        await elapse(1.0)
        assert (server.heard, client.heard) == (b"", b"from a")
        connecting = b.spawn(loop.create_connection(Noting, "a", 7001))
        await elapse(1.0)
        assert not connecting.done(), "to connect both ways are needed"
        network.unblock("b", "a")
        await elapse(1.0)
        assert server.heard == b"from b"

    run(main)


def test_two_that_are_parted_are_told_so_at_once_and_meet_again_when_there_is_a_way() -> None:
    async def main(loop: SimulatedLoop, network: Network) -> None:
        servers: list[Noting] = []

        def serves() -> Noting:
            servers.append(Noting())
            return servers[-1]

        a, b, c = loop.process("a"), loop.process("b"), loop.process("c")
        await a.spawn(loop.create_server(serves, "a", 7001))
        _, parted = await b.spawn(loop.create_connection(Noting, "a", 7001))
        _, stays = await c.spawn(loop.create_connection(Noting, "a", 7001))
        network.part("b", "a")
        await elapse(1.0)
        assert parted.lost
        assert not stays.lost
        with pytest.raises(OSError, match="no route to a"):
            await b.spawn(loop.create_connection(Noting, "a", 7001))
        network.join("a", "b")
        _, again = await b.spawn(loop.create_connection(Noting, "a", 7001))
        again.transport.write(b"from b")
        await elapse(1.0)
        assert servers[-1].heard == b"from b"

    run(main)
