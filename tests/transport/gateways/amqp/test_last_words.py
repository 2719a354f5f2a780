"""What a client has said and that waits for something when it goes away, or when the broker does: nothing of it stays behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.transport.conftest import until
from tests.transport.gateways.amqp.raw_amqp import CLOSE, RawClient, methods, published
from transport import Broker, BrokerConfig
from transport.config.listener_names import AMQP
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.connection_limits import MOST_WAITING_BYTES, ROOM_SECONDS
from transport.gateways.amqp.leaving import LEAVING_SECONDS
from transport.gateways.amqp.listening import amqp_listeners
from transport.gateways.amqp.tables import Table

SECONDS = 10
MUCH = bytes(MOST_WAITING_BYTES * 2 // 3)
"""Twice as much is more than may wait of a connection that is read."""
OFFERED = bytes(1 << 16)
"""What goes before it: a sender takes one message before it knows the queue, and lets it wait."""
FULL = Table.of({"x-max-length": 1, "x-overflow": "block"})


@asynccontextmanager
async def served() -> AsyncIterator[Broker]:
    """A broker that speaks AMQP alone, in this process."""
    async with Broker(BrokerConfig(), listeners=amqp_listeners("127.0.0.1:0", None)) as broker:
        yield broker


def waits_behind_a_full_queue(port: int, *said: Any) -> None:
    """A client that goes away while what it has published waits for room, and what it said then for that."""
    fill(port)
    with RawClient(port) as client:
        client.write(published("full", b"2") + methods(1, *said))


def fill(port: int) -> None:
    with RawClient(port) as client:
        client.declare("full", arguments=FULL)
        client.write(published("full", b"1"))
        assert client.ready("full") == 1


def makes_room(port: int) -> None:
    with RawClient(port) as client:
        assert client.got("full", 1) == [b"1"]


def test_a_queue_of_a_clients_own_that_is_declared_when_it_is_gone_goes_at_once(run: Any) -> None:
    """It stood as long as the broker did, locked, with nobody whom it could go with."""

    async def main() -> None:
        async with served() as broker:
            declare = broker.queues.owned.declare
            made: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

            def noted(settings: Any, named: str, arguments: bytes) -> str:
                declare(settings, named, arguments)
                made.set_result(broker.queues.get(named))
                return named

            broker.queues.owned.declare = noted  # type: ignore[method-assign]  # says which it makes
            port = broker.addresses(AMQP)[0].port
            own = entity.QueueDeclare(queue="own", exclusive=True)
            await asyncio.to_thread(waits_behind_a_full_queue, port, own)
            await asyncio.to_thread(makes_room, port)
            async with asyncio.timeout(SECONDS):
                await (await made).stopped()
            assert "own" not in broker.queues

    run(main)


def test_a_queue_that_is_made_anew_does_not_go_with_the_last_consumer_of_the_one_before(run: Any) -> None:
    """Its consumers heard of the deletion when another queue had its name, and took that with them."""

    def consumes(client: RawClient) -> None:
        client.declare("passing", auto_delete=True)
        client.ask(basic.BasicConsume(queue="passing", consumer_tag="c"), basic.BasicConsumeOk)

    async def main() -> None:
        async with served() as broker:
            port = broker.addresses(AMQP)[0].port
            with await asyncio.to_thread(lambda: RawClient(port)) as client:
                await asyncio.to_thread(consumes, client)
                queues = broker.queues
                settings, arguments = queues.settings_of("passing"), queues.find("passing").arguments
                queues.delete("passing")
                queues.declare("passing", settings, arguments)
                cancelled = await asyncio.to_thread(client.expect, basic.BasicCancel)
                assert cancelled.consumer_tag == "c"
                assert "passing" in queues

    run(main)


def test_what_is_dropped_of_a_channel_that_was_closed_counts_as_waiting_no_more(run: Any, jump: Any) -> None:
    """It did for as long as its connection stood: one whose channels had failed often enough was never read again."""

    def fails(client: RawClient) -> None:
        client.write(published("full", OFFERED, channel=2) + published("full", MUCH, channel=2))
        assert client.ready("full") == 1
        client.write(methods(2, basic.BasicAck(delivery_tag=9)))
        client.expect(connection.ChannelClose, 2)

    def goes_on(client: RawClient) -> None:
        client.write(published("full", OFFERED, channel=3) + published("full", MUCH, channel=3))
        assert client.ready("full", channel=1) == 1

    async def main() -> None:
        async with served() as broker:
            port = broker.addresses(AMQP)[0].port
            await asyncio.to_thread(fill, port)
            with await asyncio.to_thread(lambda: RawClient(port, opens=3)) as client:
                await asyncio.to_thread(fails, client)
                jump(LEAVING_SECONDS)
                await asyncio.to_thread(goes_on, client)

    run(main)


@pytest.mark.parametrize("leaves", [False, True])
def test_a_broker_that_ends_waits_no_longer_than_it_may_for_what_is_said_behind_a_full_queue(
    run: Any, jump: Any, leaves: bool
) -> None:
    """What waited there was dropped, and a method behind it waited on: the broker did as long as it has for its end."""

    def waits(client: RawClient) -> None:
        client.ask(entity.QueueBind(queue="full", exchange="amq.fanout"), entity.QueueBindOk)
        # The queue is known to have no room, so nothing is on its way there.
        client.write(published("", exchange="amq.fanout") + methods(1, entity.QueueDeclare(queue="full", passive=True)))
        assert client.ready("full", channel=2) == 1
        client.write(methods(0, CLOSE) if leaves else b"")

    def heard_out(client: RawClient) -> Any:
        with client:
            return client.ended()

    async def main() -> None:
        async with served() as broker, asyncio.timeout(SECONDS + ROOM_SECONDS):
            port = broker.addresses(AMQP)[0].port
            await asyncio.to_thread(fill, port)
            client = await asyncio.to_thread(lambda: RawClient(port, opens=2))
            await asyncio.to_thread(waits, client)
            ended = asyncio.create_task(asyncio.to_thread(heard_out, client))
            *_, connected = broker.connections.values()
            await until(lambda: not leaves or connected._leaving)  # type: ignore[attr-defined]
            drained = asyncio.create_task(broker.drain(10 * SECONDS))
            await until(lambda: connected._draining)  # type: ignore[attr-defined]
            jump(ROOM_SECONDS)
            await drained
            (said,) = await ended
            assert isinstance(said, connection.ConnectionCloseOk if leaves else connection.ConnectionClose)

    run(main)
