"""What a connection of AMQP leaves is free at once: a look among all objects, which finds cycles, comes once in hours."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from actors.queue.exchange_offers import Offered
from actors.queue.exchange_sender import ExchangeSender
from streams.testkit import settle
from tests.transport.conftest import FREE_PORT, until
from tests.transport.gateways.amqp.async_amqp import AsyncClient
from tests.transport.gateways.amqp.raw_amqp import CLOSE, CLOSE_CHANNEL, methods, published, start_ok
from transport import Broker, BrokerConfig
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.admission import Admission
from transport.gateways.amqp.channel import Channel
from transport.gateways.amqp.connections import AmqpConnection
from transport.gateways.amqp.consuming import Consumer
from transport.gateways.amqp.frames import FrameDecoder
from transport.gateways.amqp.listening import amqp_listeners
from transport.gateways.amqp.publishing_line import Line
from transport.gateways.amqp.transacting import Transacting

LEFT = (AmqpConnection, Admission, Channel, Consumer, Line, Offered, ExchangeSender, FrameDecoder, Transacting)
QUEUE = "q"
SECONDS, SOON, TRIES = 10.0, 0.05, 20
"""In which a connection is over; in which the turns are that end its actors; and how often, for a machine may stand still meanwhile."""
MOST_STAGED_BYTES = 1_000
"""Of each queue."""
DECLARE = entity.QueueDeclare(queue=QUEUE, exclusive=True)
PASSIVE = entity.QueueDeclare(queue=QUEUE, exclusive=True, passive=True)
GET = basic.BasicGet(queue=QUEUE)
SELECT, COMMIT = basic.TxSelect(), basic.TxCommit()
SAID: dict[str, bytes] = {
    "nothing": b"",
    "a channel that is closed": methods(1, DECLARE, CLOSE_CHANNEL),
    "messages": methods(1, DECLARE) + (published(QUEUE) + methods(1, PASSIVE)) * 3,
    "messages with confirms": methods(1, DECLARE, basic.ConfirmSelect()) + published(QUEUE) * 3,
    "a message that no queue takes": published("nowhere", mandatory=True),
    "a message that is not complete": published(QUEUE)[:-5],
    "consumers": methods(1, DECLARE, basic.BasicConsume(queue=QUEUE)) + published(QUEUE) * 3,
    "what was got": methods(1, DECLARE) + published(QUEUE) + methods(1, GET, GET),
    "a transaction": methods(1, DECLARE, SELECT) + published(QUEUE) + published("nowhere", mandatory=True),
    "a message that cannot be staged": methods(1, DECLARE, SELECT) + published(QUEUE, b"x" * MOST_STAGED_BYTES),
    "a commit": methods(1, DECLARE, SELECT) + published(QUEUE) + methods(1, COMMIT, GET),
    "a channel that is closed in a transaction": methods(1, DECLARE, SELECT)
    + published(QUEUE)
    + methods(1, CLOSE_CHANNEL),
    "a channel that is closed behind a commit": methods(1, DECLARE, SELECT)
    + published(QUEUE)
    + methods(1, COMMIT, CLOSE_CHANNEL),
    "an error of a channel in a transaction": methods(1, DECLARE, SELECT, basic.BasicGet(queue="nowhere")),
    "an error of a channel beside a commit": methods(1, DECLARE, SELECT)
    + published(QUEUE)
    + methods(1, COMMIT, basic.BasicAck(delivery_tag=9)),
    "an error of a channel": methods(1, basic.BasicGet(queue="nowhere")),
    "an error of a command": methods(1, DECLARE, entity.QueueBind(queue=QUEUE, exchange="nowhere")),
    "an error of the connection": methods(1, connection.ChannelOpen()),
    "no frame": b"\x09" * 20,
    "start-ok again": methods(0, start_ok()),
}


def left() -> Counter[str]:
    """How many there are of each kind that a connection has."""
    return Counter(type(each).__name__ for each in gc.get_objects() if type(each) in LEFT)


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
@pytest.mark.usefixtures("uncollected")
def test_nothing_of_a_connection_waits_for_the_collector(run: Callable[[Callable[[], Any]], None], said: bytes) -> None:
    async def main() -> None:
        listeners = amqp_listeners(FREE_PORT, None)
        async with Broker(BrokerConfig(max_staged_bytes=MOST_STAGED_BYTES), listeners=listeners) as broker:
            address = listeners[0].addresses[0]
            before = left()
            good, cut = [await AsyncClient.open(address.host, address.port) for _ in range(2)]
            for client in (good, cut):
                client.transport.write(said.replace(b"\1q", b"\1r") if client is cut else said)
            good.transport.write(methods(0, CLOSE))
            cut.transport.write_eof()
            for client in (good, cut):
                while not client.gone:
                    await client.more()
            async with asyncio.timeout(SECONDS):
                await until(lambda: not broker.connections)
            for _ in range(TRIES):
                await settle(SOON)
                if not (more := left() - before):
                    break
            assert more == Counter()

    run(main)
