"""Queues with ``x-max-priority`` over AMQP: what has a higher priority is received first, in order within one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from actors.batch import Message, MessageBatch
from actors.queue.vocabulary.replies import ReceivedMessages
from tests.transport.gateways.amqp.conftest import AmqpBroker
from transport.gateways.amqp.carried_properties import delivered_properties
from transport.gateways.amqp.properties import Properties

Named = Callable[[str], str]


@pytest.fixture
def channel(broker: AmqpBroker) -> Iterator[BlockingChannel]:
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port)) as connection:
        yield connection.channel()


@pytest.fixture
def queue(channel: BlockingChannel, named: Named) -> str:
    return declared(channel, named("levels"), 5)


def declared(channel: BlockingChannel, name: str, highest: int | None, **arguments: Any) -> str:
    levels = {} if highest is None else {"x-max-priority": highest}
    return str(channel.queue_declare(name, arguments=levels | arguments).method.queue)


def publish(
    channel: BlockingChannel,
    queue: str,
    body: bytes,
    priority: int | None = None,
    exchange: str = "",
    **properties: Any,
) -> None:
    channel.basic_publish(exchange, queue, body, pika.BasicProperties(priority=priority, **properties))


def bodies(channel: BlockingChannel, queue: str) -> list[bytes]:
    """What is ready in a queue, taken out."""
    found = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append(body)


MIXED = [(0, b"a"), (3, b"b"), (None, b"c"), (5, b"d"), (3, b"e"), (200, b"f"), (1, b"g"), (5, b"h")]
IN_ORDER = [b"d", b"f", b"h", b"b", b"e", b"g", b"a", b"c"]
"""None is 0, and above the highest is the highest."""


def test_the_highest_priority_is_received_first_and_within_one_the_oldest(channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()
    for priority, body in MIXED:
        publish(channel, queue, body, priority)
    assert bodies(channel, queue) == IN_ORDER


def test_what_is_published_without_confirms_and_all_at_once_too(channel: BlockingChannel, queue: str) -> None:
    for number in range(300):
        publish(channel, queue, b"%d" % number, number % 3)
    # Asked behind all of it.
    channel.queue_declare(queue, passive=True)
    expected = [b"%d" % number for level in (2, 1, 0) for number in range(level, 300, 3)]
    assert bodies(channel, queue) == expected


def test_a_message_keeps_its_priority_among_its_properties(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"x", 200, content_type="text/plain")
    _, properties, _ = channel.basic_get(queue, auto_ack=True)
    assert (properties.priority, properties.content_type) == (200, "text/plain")


def test_what_is_returned_goes_to_the_head_of_its_level(channel: BlockingChannel, queue: str) -> None:
    for number in range(3):
        publish(channel, queue, b"low %d" % number, 1)
    publish(channel, queue, b"high", 4)
    high, _, _ = channel.basic_get(queue)
    low, _, body = channel.basic_get(queue)
    assert body == b"low 0"
    channel.basic_nack(low.delivery_tag)
    channel.basic_nack(high.delivery_tag)
    assert bodies(channel, queue) == [b"high", b"low 0", b"low 1", b"low 2"]


def test_one_publish_reaches_queues_with_levels_and_without(channel: BlockingChannel, named: Named) -> None:
    exchange = named("fanout")
    channel.exchange_declare(exchange, "fanout", auto_delete=True)
    queues = [declared(channel, named(f"q{highest}"), highest) for highest in (None, 1, 5)]
    for queue in queues:
        channel.queue_bind(queue, exchange)
    for priority, body in MIXED:
        publish(channel, "", body, priority, exchange)
    assert bodies(channel, queues[0]) == [body for _, body in MIXED]
    assert bodies(channel, queues[1]) == [b"b", b"d", b"e", b"f", b"g", b"h", b"a", b"c"]
    assert bodies(channel, queues[2]) == IN_ORDER


def test_a_message_expires_at_the_head_of_its_level_and_is_a_dead_letter_of_it(
    channel: BlockingChannel, named: Named
) -> None:
    lost = declared(channel, named("lost"), 5)
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": lost}
    queue = declared(channel, named("brief"), 5, **dead)
    publish(channel, queue, b"stays", 4)
    publish(channel, queue, b"low", 1, expiration="1")
    publish(channel, queue, b"middle", 2, expiration="1")
    found: list[bytes] = []
    for method, _, body in channel.consume(lost, auto_ack=True, inactivity_timeout=10):
        assert method is not None, "what has expired came in time"
        found.append(body)
        if len(found) == 2:
            break
    channel.cancel()
    assert sorted(found) == [b"low", b"middle"]
    assert bodies(channel, queue) == [b"stays"]


def test_a_transaction_is_received_by_its_priorities(channel: BlockingChannel, queue: str) -> None:
    channel.tx_select()
    for priority, body in MIXED:
        publish(channel, queue, body, priority)
    channel.tx_commit()
    assert bodies(channel, queue) == IN_ORDER


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (256, "{max_value_exceeded,256}"),
        (-1, "{value_negative,-1}"),
        ("many", '"expected integer, got longstr"'),
    ],
)
def test_a_highest_priority_that_cannot_be_is_refused_as_rabbitmq_does(
    channel: BlockingChannel, named: Named, value: object, why: str
) -> None:
    name = named("wrong")
    with pytest.raises(ChannelClosedByBroker) as refused:
        channel.queue_declare(name, arguments={"x-max-priority": value})
    assert refused.value.args == (
        406,
        f"PRECONDITION_FAILED - invalid arg 'x-max-priority' for queue '{name}' in vhost '/': {why}",
    )


def test_a_queue_is_declared_again_with_the_levels_that_it_has(channel: BlockingChannel, queue: str) -> None:
    declared(channel, queue, 5)
    with pytest.raises(ChannelClosedByBroker, match="inequivalent arg 'x-max-priority'"):
        declared(channel, queue, 6)


def test_a_consumer_is_told_the_priority_that_the_publisher_said_and_not_the_level(
    channel: BlockingChannel, queue: str
) -> None:
    for priority, body in MIXED:
        publish(channel, queue, body, priority)
    said = {body: priority for priority, body in MIXED}
    for body in IN_ORDER:
        method, properties, found = channel.basic_get(queue, auto_ack=True)
        assert method is not None
        assert (found, properties.priority) == (body, said[body])


def told(messages: list[Message], level: int) -> list[int | None]:
    """The property as a client is told it of natively sent messages that are of a level."""
    found = delivered_properties(ReceivedMessages(1, MessageBatch.from_messages(messages), 0, 1, False, priority=level))
    return [Properties(raw).priority for raw in found]


def test_what_was_sent_natively_has_its_level_as_its_priority() -> None:
    assert told([Message(b"a"), Message(b"b")], 3) == [3, 3]
    assert told([Message(b"a"), Message(b"b")], 0) == [None, None]
    mixed = [Message(b"a", headers={"own": "1"}), Message(b"b", headers={"amqp.priority": "200"}), Message(b"c")]
    assert told(mixed, 5) == [5, 200, 5], "but for what says one itself"
    kept = delivered_properties(
        ReceivedMessages(1, MessageBatch.from_messages([mixed[0]]), 0, 1, False, failures=2, priority=5)
    )
    assert [Properties(raw).priority for raw in kept] == [5], "with its own headers, and what a queue says of it"
    assert [entry.name for entry in Properties(kept[0]).headers or ()] == ["own", "x-delivery-count"]
