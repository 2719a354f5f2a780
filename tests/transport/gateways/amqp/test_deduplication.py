"""Queues with ``x-message-deduplication`` over AMQP: what has the id of another is confirmed, and not stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, NackError

from tests.transport.gateways.amqp.conftest import AmqpBroker

Named = Callable[[str], str]
HEADER = "x-deduplication-header"


@pytest.fixture
def channel(broker: AmqpBroker) -> Iterator[BlockingChannel]:
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port)) as connection:
        yield connection.channel()


@pytest.fixture
def queue(channel: BlockingChannel, named: Named) -> str:
    return declared(channel, named("unique"))


def declared(channel: BlockingChannel, name: str, **arguments: Any) -> str:
    given = {"x-message-deduplication": True} | {each.replace("_", "-"): value for each, value in arguments.items()}
    return str(channel.queue_declare(name, arguments=given).method.queue)


def publish(channel: BlockingChannel, queue: str, body: bytes, own: Any = None, exchange: str = "") -> None:
    headers = {"other": 1} | ({} if own is None else {HEADER: own})
    channel.basic_publish(exchange, queue, body, pika.BasicProperties(headers=headers))


def bodies(channel: BlockingChannel, queue: str) -> list[bytes]:
    """What is ready in a queue, taken out."""
    channel.queue_declare(queue, passive=True)
    found = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append(body)


@pytest.mark.parametrize("confirms", [True, False])
def test_what_has_the_id_of_another_is_confirmed_and_not_stored(
    channel: BlockingChannel, queue: str, confirms: bool
) -> None:
    if confirms:
        channel.confirm_delivery()
    for body, own in ((b"a", "1"), (b"b", "1"), (b"c", None), (b"d", 7), (b"e", "7"), (b"f", "2")):
        publish(channel, queue, body, own)
    assert bodies(channel, queue) == [b"a", b"c", b"d", b"f"]
    publish(channel, queue, b"g", "2")
    assert bodies(channel, queue) == [], "it is remembered though it was consumed"


def test_many_at_once_are_judged_in_their_order(channel: BlockingChannel, queue: str) -> None:
    for number in range(300):
        publish(channel, queue, b"%d" % number, str(number % 40))
    assert bodies(channel, queue) == [b"%d" % number for number in range(40)]


def test_its_properties_come_as_they_were_published(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"a", 12)
    _, properties, _ = channel.basic_get(queue, auto_ack=True)
    assert properties.headers == {"other": 1, HEADER: 12}


def test_what_was_published_through_an_exchange_each_queue_judges_for_itself(
    channel: BlockingChannel, named: Named
) -> None:
    exchange, one, other = named("all"), declared(channel, named("one")), named("other")
    channel.exchange_declare(exchange, "fanout")
    channel.queue_declare(other)
    for each in (one, other):
        channel.queue_bind(each, exchange)
    channel.confirm_delivery()
    for body in (b"a", b"b"):
        publish(channel, "", body, "1", exchange)
    assert bodies(channel, one) == [b"a"]
    assert bodies(channel, other) == [b"a", b"b"]


def test_what_a_transaction_publishes_counts_at_its_commit(channel: BlockingChannel, queue: str) -> None:
    channel.tx_select()
    publish(channel, queue, b"lost", "1")
    channel.tx_rollback()
    publish(channel, queue, b"a", "1")
    publish(channel, queue, b"b", "1")
    publish(channel, queue, b"c", "2")
    channel.tx_commit()
    publish(channel, queue, b"d", "2")
    channel.tx_commit()
    assert bodies(channel, queue) == [b"a", b"c"]


def test_when_as_many_ids_are_remembered_as_may_be_a_queue_that_rejects_says_so(
    channel: BlockingChannel, named: Named
) -> None:
    queue = declared(channel, named("full"), x_cache_size=2, x_cache_ttl=3_600_000, x_overflow="reject-publish")
    channel.confirm_delivery()
    for own in ("1", "2"):
        publish(channel, queue, b"x", own)
    with pytest.raises(NackError):
        publish(channel, queue, b"y", "3")
    publish(channel, queue, b"z", "1")
    assert bodies(channel, queue) == [b"x", b"x"]


def test_the_window_is_over_after_x_cache_ttl(channel: BlockingChannel, named: Named) -> None:
    queue = declared(channel, named("short"), x_cache_ttl=1)
    channel.confirm_delivery()
    publish(channel, queue, b"a", "1")
    # Each is confirmed by the disk, which takes longer.
    channel.connection.process_data_events(0.01)
    publish(channel, queue, b"b", "1")
    assert bodies(channel, queue) == [b"a", b"b"]


@pytest.mark.parametrize("own", ["x" * 1025, "é" * 600])
def test_an_id_that_is_too_long_ends_the_channel_with_the_reason(
    channel: BlockingChannel, queue: str, own: str
) -> None:
    channel.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker) as closed:
        publish(channel, queue, b"a", own)
    assert closed.value.reply_code == 406
    assert f"x-deduplication-header of {len(own.encode())} bytes exceeds 1024" in closed.value.reply_text


@pytest.mark.parametrize(
    ("argument", "value", "why"),
    [
        ("x-message-deduplication", 1, "unacceptable_type"),
        ("x-cache-ttl", 0, "value_zero"),
        ("x-cache-ttl", 8 * 86_400_000, "value_too_large"),
        ("x-cache-size", 0, "is not between 1 and"),
    ],
)
def test_arguments_that_cannot_be_are_refused(
    channel: BlockingChannel, named: Named, argument: str, value: int, why: str
) -> None:
    with pytest.raises(ChannelClosedByBroker) as closed:
        channel.queue_declare(named("wrong"), arguments={"x-message-deduplication": True, argument: value})
    assert closed.value.reply_code == 406
    assert argument in closed.value.reply_text
    assert why in closed.value.reply_text


def test_without_the_argument_nobody_looks_at_ids(channel: BlockingChannel, named: Named) -> None:
    queue = named("plain")
    channel.queue_declare(queue, arguments={"x-cache-ttl": 1_000, "x-cache-size": 5})
    for body in (b"a", b"b"):
        publish(channel, queue, body, "1")
    assert bodies(channel, queue) == [b"a", b"b"]


def test_a_declaration_with_another_window_is_another(channel: BlockingChannel, named: Named) -> None:
    queue = declared(channel, named("again"), x_cache_ttl=5_000)
    assert declared(channel, queue, x_cache_ttl=5_000) == queue
    with pytest.raises(ChannelClosedByBroker, match="inequivalent arg 'x-cache-ttl'"):
        declared(channel, queue, x_cache_ttl=6_000)
