"""What waits for a full queue holds its publisher back, be it found full only when something has come: memory has its bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from threading import Thread
from typing import Any

import pytest

from tests.transport.conftest import until
from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.raw_amqp import RawClient, published
from tests.transport.gateways.amqp.test_held_back import resident
from tests.transport.gateways.amqp.test_last_words import FULL, fill, makes_room, served
from transport import Broker
from transport.config.listener_names import AMQP
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp import waiting_total
from transport.gateways.amqp.connection_limits import MOST_WAITING_BYTES, ROOM_SECONDS
from transport.gateways.amqp.leaving import LEAVING_SECONDS
from transport.gateways.amqp.reply_codes import ReplyCode

Named = Callable[[str], str]
MUCH = bytes(2 * MOST_WAITING_BYTES)
"""More than may wait of a connection that is read."""
MIB = 1 << 20
CHANNELS, LARGE = 12, 8 * MIB
MOST_GROWTH = 3 * LARGE
"""What waits, what has begun behind it, and what else the broker takes."""


@pytest.fixture(params=["", "amq.direct"])
def exchange(request: pytest.FixtureRequest) -> str:
    """An exchange of which a sender does not know where a key leads before a message has it."""
    return str(request.param)


def filled(port: int, queue: str, exchange: str = "") -> None:
    """A queue of one message, which it has."""
    with RawClient(port) as client:
        client.declare(queue, arguments=FULL)
        client.write(published(queue))
        assert client.ready(queue) == 1
        if exchange:
            client.ask(entity.QueueBind(queue=queue, exchange=exchange, routing_key=queue), entity.QueueBindOk)


def publishes(client: RawClient, queue: str, body: bytes = MUCH, exchange: str = "") -> None:
    """A message that waits for the queue, and keeps its client from being read."""
    client.write(published(queue, body, exchange=exchange))
    assert "is full (1 of 1 messages)" in client.expect(connection.ConnectionBlocked, 0).reason


def test_a_client_whose_first_message_waits_is_read_no_further_until_there_is_room(
    broker: AmqpBroker, named: Named, exchange: str
) -> None:
    queue = named("full")
    filled(broker.port, queue, exchange)
    with RawClient(broker.port, opens=2) as client, RawClient(broker.port) as other:
        client.ask(basic.ConfirmSelect(), basic.ConfirmSelectOk)
        publishes(client, queue, exchange=exchange)
        client.write(published(queue, b"2", exchange=exchange))
        client.say(entity.QueueDeclare(queue=queue, passive=True), channel=2)
        assert other.got(queue, 1) == [b"x"]
        client.expect(connection.ConnectionUnblocked, 0)
        heard = {type(client.method()) for _ in range(2)}
        assert heard == {basic.BasicAck, entity.QueueDeclareOk}
        assert other.got(queue, 1) == [MUCH]
        assert client.expect(basic.BasicAck, 1).delivery_tag == 2
        assert other.got(queue) == [b"2"]


def test_large_messages_of_many_channels_to_a_full_queue_are_not_read(
    broker: AmqpBroker, named: Named, exchange: str
) -> None:
    queue = named("full")
    filled(broker.port, queue, exchange)
    with RawClient(broker.port, opens=CHANNELS) as client:
        before = resident(broker.process.pid)

        def send() -> None:
            with suppress(OSError):
                for channel in range(1, CHANNELS + 1):
                    client.write(published(queue, bytes(LARGE), channel, exchange))

        sending = Thread(target=send, daemon=True)
        sending.start()
        client.expect(connection.ConnectionBlocked, 0)
        assert resident(broker.process.pid) - before < MOST_GROWTH < CHANNELS * LARGE
        assert sending.is_alive()
        with RawClient(broker.port) as other:
            other.ask(entity.QueueDelete(queue=queue), entity.QueueDeleteOk)
        # What goes nowhere waits for nothing.
        client.expect(connection.ConnectionUnblocked, 0)
        sending.join(30)
        assert not sending.is_alive()


def test_a_queue_of_one_takes_one_message_of_a_publisher_that_sends_many_at_a_time(
    broker: AmqpBroker, named: Named, exchange: str
) -> None:
    """It took all that had come until its publisher was read no more."""
    queue = named("one")
    filled(broker.port, queue, exchange)
    with RawClient(broker.port) as client, RawClient(broker.port) as other:
        assert other.got(queue) == [b"x"]
        client.ask(basic.ConfirmSelect(), basic.ConfirmSelectOk)
        client.write(b"".join(published(queue, b"%d" % number, exchange=exchange) for number in range(50)))
        for number in range(50):
            answer = client.expect(basic.BasicAck, 1)
            assert (answer.delivery_tag, other.ready(queue)) == (number + 1, 1)
            assert other.got(queue, 1) == [b"%d" % number]


def test_a_transaction_that_waits_is_committed_when_there_is_room(broker: AmqpBroker, named: Named) -> None:
    queue = named("full")
    filled(broker.port, queue)
    with RawClient(broker.port) as client, RawClient(broker.port) as other:
        client.ask(basic.TxSelect(), basic.TxSelectOk)
        publishes(client, queue)
        client.say(basic.TxCommit())
        assert other.got(queue, 1) == [b"x"]
        client.expect(connection.ConnectionUnblocked, 0)
        client.expect(basic.TxCommitOk, 1)
        assert other.got(queue) == [MUCH]


@asynccontextmanager
async def full() -> AsyncIterator[tuple[Broker, int]]:
    """A broker in this process, with a full queue, and its port."""
    async with served() as broker:
        port = broker.addresses(AMQP)[0].port
        await asyncio.to_thread(fill, port)
        yield broker, port


def test_a_large_one_that_waits_where_others_have_the_memory_is_refused_and_is_not_stored_later(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_total, "MOST_WAITING_OF_ALL", len(MUCH) * 3 // 2)

    def publish(port: int) -> None:
        with RawClient(port) as first, RawClient(port) as second, RawClient(port, opens=3) as third:
            publishes(first, "full", b"1" + MUCH)
            publishes(second, "full", b"2" + MUCH)
            third.write(published("full", b"3" + MUCH))
            closed = third.expect(connection.ChannelClose, 1)
            assert (closed.reply_code, closed.method_id) == (ReplyCode.CONTENT_TOO_LARGE, 40)
            assert "publish it again later" in closed.reply_text
            # A queue that has room takes a large one, and a full one what is small.
            third.declare("other", 2)
            for channel in (2, 3):
                third.ask(basic.ConfirmSelect(), basic.ConfirmSelectOk, channel)
            third.write(published("other", MUCH, 2))
            third.expect(basic.BasicAck, 2)
            third.write(published("full", b"4", 3))
            assert third.ready("other", 2) == 1
            with RawClient(port) as other:
                found = other.got("full", 1)
                for client in (first, second):
                    client.expect(connection.ConnectionUnblocked, 0)
                    found += other.got("full", 1)
                third.expect(basic.BasicAck, 3)
                assert [each[:1] for each in found] == [b"1", b"1", b"2"]
                assert other.got("full", 1) == [b"4"]
                assert other.got("full") == []

    async def main() -> None:
        async with full() as (_, port):
            await asyncio.to_thread(publish, port)

    run(main)


def test_what_a_client_leaves_that_is_closed_counts_no_more_and_is_dropped_when_its_time_is_over(
    run: Any, jump: Any
) -> None:
    async def main() -> None:
        async with full() as (broker, port):
            with await asyncio.to_thread(lambda: RawClient(port)) as client:
                await asyncio.to_thread(publishes, client, "full")
                (connected,) = broker.connections.values()
                total = connected.waiting_total  # type: ignore[attr-defined]  # one of AMQP
                assert len(MUCH) < total.bytes < len(MUCH) + 4_096
                # Nothing of it is read, its end neither.
                connected.refused("closed", "an administrator has closed it")
            await until(lambda: not broker.connections and total.bytes == 0)
            assert broker.queues.exchanges.publishing._line._held
            jump(LEAVING_SECONDS)
            await until(lambda: not broker.queues.exchanges.publishing._line._held)
            await asyncio.to_thread(makes_room, port)
            figures = broker.queues.read("full")
            assert figures is not None
            assert figures.stored_messages == 0

    run(main)


def test_a_broker_that_ends_does_not_wait_for_the_room_of_what_it_was_offered(run: Any, jump: Any) -> None:
    async def main() -> None:
        async with full() as (broker, port):
            with await asyncio.to_thread(lambda: RawClient(port)) as client:
                await asyncio.to_thread(client.ask, basic.ConfirmSelect(), basic.ConfirmSelectOk)
                await asyncio.to_thread(publishes, client, "full")
                (connected,) = broker.connections.values()
                drained = asyncio.create_task(broker.drain(10 * ROOM_SECONDS))
                await until(lambda: connected._draining)  # type: ignore[attr-defined]
                jump(ROOM_SECONDS)
                await drained
                said = await asyncio.to_thread(client.ended)
                assert not [each for each in said if isinstance(each, basic.BasicAck)]
                assert isinstance(said[-1], connection.ConnectionClose)

    run(main)
