"""Clients that fall silent by the clock: what they held is back after two of their heartbeats, and their own queues are gone.

The clock is injected, and the network is the simulation's: `test_clients_killed.py` has the same with processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from streams.testkit import elapse
from tests.simulation.loop import SimulatedLoop
from tests.simulation.network import Network
from tests.transport.gateways.amqp.async_amqp import AsyncClient
from tests.transport.gateways.amqp.raw_amqp import published
from transport import Broker, BrokerConfig
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import connections
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.listening import amqp_listeners
from transport.gateways.amqp.tables import Table
from transport.gateways.amqp.writing import HEARTBEAT as SIGN

PORT = 5672
HEARTBEAT = 10
A_WHILE = 1.0
"""Virtual seconds in which everything that was said is answered, however the network cuts it."""
FULL = Table.of({"x-max-length": 1, "x-overflow": "block"})


async def listen(intake: Any, host: str, port: int) -> Any:
    return await asyncio.get_running_loop().create_server(intake.factory, host, port)


@asynccontextmanager
async def serving() -> AsyncIterator[Broker]:
    """A broker on the simulated network. What the machine has in use is nothing to it."""
    config = BrokerConfig(memory_watermark=1.0, disk_floor=0)
    broker = Broker(config, listen=listen, listeners=amqp_listeners(f"127.0.0.1:{PORT}", None))
    async with broker:
        yield broker


@pytest.fixture(params=range(3))
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[SimulatedLoop], Coroutine[Any, Any, None]]], None]:
    """Runs a test on a network of three seeds."""

    def run_on(main: Callable[[SimulatedLoop], Coroutine[Any, Any, None]]) -> None:
        loop = SimulatedLoop()
        Network(loop, Random(request.param))
        try:
            loop.run_until_complete(main(loop))
        finally:
            loop.close()
        assert loop.reports == []

    return run_on


async def holding(heartbeat: int) -> AsyncClient:
    """A client that holds a message of ``orders``, and has a queue of its own."""
    client = await AsyncClient.open("broker", PORT, heartbeat=heartbeat)
    await client.ask(entity.QueueDeclare(queue="orders"), entity.QueueDeclareOk)
    await client.ask(entity.QueueDeclare(queue="own", exclusive=True), entity.QueueDeclareOk)
    client.transport.write(published("orders", b"held"))
    await client.ask(basic.BasicConsume(queue="orders"), basic.BasicConsumeOk)
    await client.until(basic.BasicDeliver)
    return client


async def watching() -> AsyncClient:
    """One who gets what comes back, and to whom no other's queue is open."""
    watcher = await AsyncClient.open("broker", PORT)
    refused = await watcher.ask(entity.QueueDeclare(queue="own", passive=True), connection.ChannelClose)
    assert refused.reply_code == 405
    watcher.say(connection.ChannelCloseOk(), connection.ChannelOpen())
    await watcher.until(connection.ChannelOpenOk)
    await watcher.ask(basic.BasicConsume(queue="orders"), basic.BasicConsumeOk)
    return watcher


async def own_queue_is_gone(watcher: AsyncClient) -> None:
    refused = await watcher.ask(entity.QueueDeclare(queue="own", passive=True), connection.ChannelClose)
    assert refused.reply_code == 404


def test_what_a_client_held_that_fell_silent_is_back_after_two_heartbeats(run: Any) -> None:
    async def main(loop: SimulatedLoop) -> None:
        async with serving():
            client = await holding(HEARTBEAT)
            watcher = await watching()
            # It says something, and then the network carries nothing any more: nobody hears of that.
            client.transport.write(SIGN)
            await elapse(A_WHILE)
            last = loop.time()
            loop.network.links[0].silence()
            when, delivered = await watcher.until(basic.BasicDeliver)
            assert delivered.redelivered
            assert 2 * HEARTBEAT - 2 * A_WHILE < when - last <= 2 * HEARTBEAT
            await own_queue_is_gone(watcher)
            watcher.transport.abort()

    run(main)


def test_who_gives_a_sign_each_heartbeat_keeps_what_it_holds_and_gets_signs_itself(run: Any) -> None:
    async def main(loop: SimulatedLoop) -> None:
        async with serving():
            client = await holding(HEARTBEAT)
            watcher = await watching()
            for _ in range(20):
                await elapse(HEARTBEAT)
                client.transport.write(SIGN)
            await elapse(A_WHILE)
            assert not client.gone
            assert client.signs >= 20
            client.transport.abort()
            when, delivered = await watcher.until(basic.BasicDeliver)
            assert delivered.redelivered
            assert loop.time() - when < A_WHILE
            await own_queue_is_gone(watcher)
            watcher.transport.abort()

    run(main)


def test_what_a_client_held_that_reads_no_more_is_back_after_two_heartbeats(run: Any) -> None:
    """It is sent more than its socket takes, so that nothing it says is heard: what it takes counts then."""

    async def main(loop: SimulatedLoop) -> None:
        async with serving():
            frozen = await holding(HEARTBEAT)
            watcher = await watching()
            await frozen.ask(entity.QueueDeclare(queue="many"), entity.QueueDeclareOk)
            await frozen.ask(basic.BasicConsume(queue="many"), basic.BasicConsumeOk)
            frozen.transport.pause_reading()
            since = loop.time()
            watcher.transport.write(published("many", bytes(100_000)) * 60)
            when, delivered = await watcher.until(basic.BasicDeliver)
            assert delivered.redelivered
            # Its socket takes what is on its way to it, and its time begins with the last of that.
            assert when - since < 2 * HEARTBEAT + 2 * A_WHILE
            await own_queue_is_gone(watcher)
            watcher.transport.abort()

    run(main)


def test_what_a_blocked_publisher_held_that_was_killed_is_back_within_two_heartbeats(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is read, its end neither: it is noticed when it is given a sign."""
    monkeypatch.setattr(connections, "MOST_WAITING_CONSUMING", 1 << 16)

    async def main(loop: SimulatedLoop) -> None:
        async with serving():
            process = loop.process("client")
            client = await process.spawn(holding(HEARTBEAT))
            watcher = await watching()
            await watcher.ask(entity.QueueDeclare(queue="full", arguments=FULL), entity.QueueDeclareOk)
            client.transport.write(published("full", bytes(1_000)) * 1_000)
            await client.until(connection.ConnectionBlocked)
            since = loop.time()
            loop.kill(process)
            loop.network.kill(process, silent=False)
            when, delivered = await watcher.until(basic.BasicDeliver)
            assert delivered.redelivered
            assert when - since < 2 * HEARTBEAT
            await own_queue_is_gone(watcher)
            watcher.transport.abort()

    run(main)


def test_who_publishes_without_a_pause_is_not_taken_for_one_that_does_not_go_on(run: Any) -> None:
    """Whatever is received ends within a message: it is another one each time."""

    async def main(loop: SimulatedLoop) -> None:
        async with serving():
            client = await AsyncClient.open("broker", PORT, heartbeat=HEARTBEAT)
            await client.ask(entity.QueueDeclare(queue="orders"), entity.QueueDeclareOk)
            whole = published("orders", bytes(100_000))
            client.transport.write(whole[:50])
            for _ in range(20):
                await elapse(HEARTBEAT / 4)
                client.transport.write(whole[50:] + whole[:50])
            await elapse(A_WHILE)
            assert not client.gone
            client.transport.abort()

    run(main)


@pytest.mark.parametrize("consumes", [False, True])
def test_a_consumer_that_a_lost_client_asked_for_behind_what_waited_never_comes(run: Any, consumes: bool) -> None:
    async def main(loop: SimulatedLoop) -> None:
        async with serving():
            client = await AsyncClient.open("broker", PORT, heartbeat=HEARTBEAT)
            watcher = await AsyncClient.open("broker", PORT)
            await watcher.ask(entity.QueueDeclare(queue="full", arguments=FULL), entity.QueueDeclareOk)
            await watcher.ask(entity.QueueDeclare(queue="wanted"), entity.QueueDeclareOk)
            await watcher.ask(entity.QueueDeclare(queue="other"), entity.QueueDeclareOk)
            if consumes:
                await client.ask(basic.BasicConsume(queue="other"), basic.BasicConsumeOk)
            client.transport.write(published("full", b"x") * 3)
            client.say(basic.BasicConsume(queue="wanted", no_ack=True), basic.BasicGet(queue="wanted"))
            await elapse(A_WHILE)
            client.transport.abort()
            await elapse(A_WHILE)
            for _ in range(3):
                await watcher.ask(basic.BasicGet(queue="full", no_ack=True), basic.BasicGetOk)
                await elapse(A_WHILE)
            watcher.transport.write(published("wanted", b"kept"))
            await elapse(A_WHILE)
            found = await watcher.ask(entity.QueueDeclare(queue="wanted", passive=True), entity.QueueDeclareOk)
            assert (found.message_count, found.consumer_count) == (1, 0)
            watcher.transport.abort()

    run(main)
