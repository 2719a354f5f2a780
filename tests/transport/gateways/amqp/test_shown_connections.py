"""Connections of AMQP where a broker's connections are listed: what is told of them, and how they are ended by who administers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from unittest.mock import MagicMock

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ConnectionClosedByBroker

from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.peers import SECONDS, Guarded
from tests.transport.gateways.amqp.test_pika import Named, connected, consumed
from transport.broker.served import Facts
from transport.clients.administration import Administration
from transport.gateways.amqp.channel import Channel
from transport.gateways.amqp.facts import LOOKED_AT_ONCE, facts_of


def asked(broker: AmqpBroker, ask: Callable[[Administration], Awaitable[Any]]) -> Any:
    """What an administrator is answered."""

    async def talk() -> Any:
        async with asyncio.timeout(SECONDS), Administration(broker.sending) as administration:
            return await ask(administration)

    return asyncio.run(talk())


def row_of(broker: AmqpBroker, name: str) -> dict[str, Any]:
    """The connection that calls itself so, in the list of all."""
    (found,) = [row for row in asked(broker, lambda client: client.connections()) if row["client_id"] == name]
    return found  # type: ignore[no-any-return]


@pytest.fixture
def name(named: Named) -> str:
    return named("till")


@pytest.fixture
def channel(broker: AmqpBroker, name: str) -> Iterator[BlockingChannel]:
    with connected(broker, client_properties={"connection_name": name}) as connection:
        yield connection.channel()


def test_a_connection_is_listed_with_its_client_its_channels_and_what_they_hold(
    broker: AmqpBroker, channel: BlockingChannel, name: str, named: Named
) -> None:
    queue = channel.queue_declare(named("orders")).method.queue
    empty = row_of(broker, name)
    facts = ("role", "virtual_host", "channels", "consumers", "prefetch", "demand", "in_flight", "held_ms", "user")
    assert [empty[key] for key in facts] == ["amqp", "/", 1, 0, 0, 0, 0, 0, None]
    assert empty["product"].startswith(f"Pika Python Client Library {pika.__version__}, Python ")
    other = channel.connection.channel()
    channel.basic_qos(prefetch_count=5)
    other.basic_qos(prefetch_count=7)
    for body in (b"1", b"2", b"3"):
        channel.basic_publish("", queue, body)
    first, *_ = consumed(channel, queue, 3)
    other.basic_consume(queue, print)
    there = row_of(broker, name)
    assert [there[key] for key in facts[1:7]] == ["/", 2, 2, 12, 9, 3]
    channel.basic_ack(first[0].delivery_tag)
    assert other.basic_get(queue)[0] is None
    assert row_of(broker, name)["in_flight"] == 2


def test_what_consumers_may_hold_together_has_no_number_where_one_of_them_may_hold_any(
    broker: AmqpBroker, channel: BlockingChannel, name: str, named: Named
) -> None:
    queue = channel.queue_declare(named("orders")).method.queue
    channel.basic_consume(queue, print)
    assert row_of(broker, name)["prefetch"] is None
    channel.basic_qos(prefetch_count=20, global_qos=True)
    assert row_of(broker, name)["prefetch"] == 20
    channel.basic_consume(queue, print)
    assert row_of(broker, name)["prefetch"] == 20


def test_how_long_a_connection_has_held_the_oldest_is_that_of_the_queue_where_it_is(
    broker: AmqpBroker, channel: BlockingChannel, name: str, named: Named
) -> None:
    queues = [channel.queue_declare(named(each)).method.queue for each in ("slow", "quick")]
    channel.basic_publish("", queues[0], b"held")
    assert channel.basic_get(queues[0])[2] == b"held"
    channel.basic_consume(queues[1], print)
    before = broker.until(queues[0], lambda row: row["held_ms"] >= 2)["held_ms"]
    assert row_of(broker, name)["held_ms"] >= before


def test_a_channel_that_is_closed_while_the_others_are_looked_at_has_nothing_to_tell() -> None:
    """Of thousands of channels some are closed in a turn between: such a one has no parts any more."""
    channels = {number: Channel(MagicMock(), number) for number in range(1, LOOKED_AT_ONCE + 11)}

    async def listed() -> Facts:
        asking = asyncio.ensure_future(facts_of(MagicMock(), None, channels))
        await asyncio.sleep(0)
        for number in range(LOOKED_AT_ONCE + 1, LOOKED_AT_ONCE + 10):
            channels.pop(number).end()
        return await asking

    assert asyncio.run(listed()).channels == LOOKED_AT_ONCE + 1


def test_a_queue_counts_consumers_and_says_whose_they_are(
    broker: AmqpBroker, channel: BlockingChannel, name: str, named: Named
) -> None:
    queue = channel.queue_declare(named("orders")).method.queue
    tag = channel.basic_consume(queue, print)
    assert broker.statistics(queue)["receivers"] == 1
    connection = row_of(broker, name)
    (receiver,) = asked(broker, lambda client: client.picture(queue=queue))["flow"]["receivers"]
    shown = {key: receiver[key] for key in ("id", "client", "peer", "role")}
    assert shown == {"id": connection["id"], "client": name, "peer": connection["peer"], "role": "receiver"}
    code, out, said = broker.run("queue show", queue)
    assert code == 0, said
    assert "1 receiver\n" in out.decode()
    channel.basic_cancel(tag)
    assert broker.statistics(queue)["receivers"] == 0
    assert asked(broker, lambda client: client.picture(queue=queue))["flow"]["receivers"] == []


def test_who_administers_closes_a_connection_and_its_client_is_told_by_whom_and_why(
    broker: AmqpBroker, channel: BlockingChannel, name: str
) -> None:
    number = row_of(broker, name)["id"]
    code, out, said = broker.run("connection close", str(number), "--reason", "maintenance")
    assert (code, out.decode()) == (0, f"connection {number} closed\n"), said
    with pytest.raises(ConnectionClosedByBroker) as caught:
        channel.connection.process_data_events(SECONDS)
    text = "CONNECTION_FORCED - an administrator has closed this connection: maintenance"
    assert (caught.value.reply_code, caught.value.reply_text) == (320, text)


def test_the_wide_list_has_the_client_the_user_and_the_virtual_host(guarded: Guarded, name: str) -> None:
    with guarded.connected("ann", "shop", client_properties={"connection_name": name}) as connection:
        connection.channel()
        code, out, said = guarded.run("connection list", "--wide", *guarded.administrator)
        assert code == 0, said
        heading, _, *rows = out.decode().splitlines()[1:]
        (row,) = [row for row in rows if f"  {name}  " in row]
    columns = ("product", "virtual host", "channels", "consumers", "prefetch")
    assert [each for each in columns if each not in heading] == []
    assert ("  ann  " in row, "  shop  " in row, "Pika Python Client Library" in row) == (True, True, True)
