"""Queues with ``x-groups`` over AMQP: the header ``group-id`` says a message's group, and one consumer at a time has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.transport.gateways.amqp.conftest import AmqpBroker

Named = Callable[[str], str]


@pytest.fixture
def channel(broker: AmqpBroker) -> Iterator[BlockingChannel]:
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port)) as connection:
        yield connection.channel()


@pytest.fixture
def queue(channel: BlockingChannel, named: Named) -> str:
    return declared(channel, named("groups"), **{"x-groups": True})


def declared(channel: BlockingChannel, name: str, **arguments: Any) -> str:
    return str(channel.queue_declare(name, arguments=arguments).method.queue)


def publish(channel: BlockingChannel, queue: str, body: bytes, group: Any = None) -> None:
    headers = None if group is None else {"group-id": group}
    channel.basic_publish("", queue, body, pika.BasicProperties(headers=headers))


def taken(channel: BlockingChannel, queue: str) -> tuple[int, bytes] | None:
    method, _, body = channel.basic_get(queue)
    return None if method is None else (method.delivery_tag, body)


def test_one_channel_at_a_time_has_a_group_and_others_pass_it(channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()
    for number, group in enumerate(["ann", "ann", "bob", None, "ann", b"bob"]):
        publish(channel, queue, b"%d" % number, group)
    other = channel.connection.channel()
    first = taken(channel, queue)
    assert first is not None
    assert first[1] == b"0"
    bobs, free = taken(other, queue), taken(other, queue)
    assert (bobs and bobs[1], free and free[1]) == (b"2", b"3")
    more = taken(other, queue)
    assert more is not None
    assert more[1] == b"5", "who has a group gets more of it, and bytes are the same group as their text"
    assert taken(other, queue) is None
    channel.basic_nack(first[0], requeue=True)
    # Asked behind that.
    channel.queue_declare(queue, passive=True)
    again = taken(other, queue)
    assert again is not None
    assert again[1] == b"0", "what comes back goes first"
    assert taken(channel, queue) is None
    other.close()
    found = [each[1] for _ in range(6) if (each := taken(channel, queue)) is not None]
    assert [body for body in found if body in (b"0", b"1", b"4")] == [b"0", b"1", b"4"]
    assert [body for body in found if body in (b"2", b"5")] == [b"2", b"5"]


def test_consumers_have_each_group_in_order(channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()
    for number in range(60):
        publish(channel, queue, b"%d" % number, f"g{number % 6}")
    seen: dict[int, list[tuple[str, int]]] = {}
    holders: dict[str, int] = {}
    for number in range(3):
        consumer = channel.connection.channel()
        consumer.basic_qos(prefetch_count=4)

        def handle(on: BlockingChannel, method: Any, properties: Any, body: bytes, number: int = number) -> None:
            group = properties.headers["group-id"]
            assert holders.setdefault(group, number) == number or not holders.get(group)
            seen.setdefault(number, []).append((group, int(body)))
            on.basic_ack(method.delivery_tag)
            holders.pop(group)

        consumer.basic_consume(queue, handle)
    while sum(map(len, seen.values())) < 60:
        channel.connection.process_data_events(5)
    for name in range(6):
        of_group = [number for found in seen.values() for group, number in found if group == f"g{name}"]
        assert sorted(of_group) == list(range(name, 60, 6))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"x-groups": 1}, "unacceptable"),
        ({"x-groups": True, "x-max-priority": 3}, "a queue has its messages in order by group, or by priority"),
    ],
)
def test_arguments_that_cannot_be_are_refused(
    channel: BlockingChannel, named: Named, arguments: dict[str, Any], why: str
) -> None:
    with pytest.raises(ChannelClosedByBroker) as caught:
        declared(channel, named("refused"), **arguments)
    assert caught.value.reply_code == 406
    assert "invalid arg 'x-groups' for queue" in caught.value.reply_text
    assert why in caught.value.reply_text


def test_a_queue_that_is_there_is_declared_with_what_it_has(channel: BlockingChannel, queue: str) -> None:
    assert declared(channel, queue, **{"x-groups": True}) == queue
    with pytest.raises(ChannelClosedByBroker, match="inequivalent arg 'x-groups'"):
        declared(channel, queue)
