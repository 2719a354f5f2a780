"""``x-delivery-limit`` as pika sees it: what counts towards it, what becomes of what has failed too often, and what is said of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.raw_amqp import CLOSE_CHANNEL, RawClient
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp.connection_methods import ChannelCloseOk
from transport.gateways.amqp.queue_arguments import settings_of
from transport.gateways.amqp.tables import Table

Named = Callable[[str], str]
SECONDS = 30


def connected(broker: AmqpBroker) -> pika.BlockingConnection:
    parameters = pika.ConnectionParameters("127.0.0.1", broker.port, blocked_connection_timeout=SECONDS)
    return pika.BlockingConnection(parameters)


@pytest.fixture
def channel(broker: AmqpBroker) -> Iterator[BlockingChannel]:
    with connected(broker) as connection:
        yield connection.channel()


def limited(channel: BlockingChannel, queue: str, limit: int, **more: Any) -> None:
    said = {name.replace("_", "-"): value for name, value in more.items()}
    arguments = {"x-queue-type": "quorum", "x-delivery-limit": limit} | said
    channel.queue_declare(queue, durable=True, arguments=arguments)
    channel.confirm_delivery()


def got(channel: BlockingChannel, queue: str) -> tuple[Any, Any, bytes]:
    """The next message of a queue, which may come in a moment."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        method, properties, body = channel.basic_get(queue)
        if method is not None:
            return method, properties, body
    raise AssertionError(f"nothing has come to {queue}")


def is_empty(channel: BlockingChannel, queue: str) -> bool:
    return channel.basic_get(queue)[0] is None


def returned_by_reject(channel: BlockingChannel, method: Any) -> None:
    channel.basic_reject(method.delivery_tag, requeue=True)


def returned_by_nack(channel: BlockingChannel, method: Any) -> None:
    channel.basic_nack(method.delivery_tag, requeue=True)


def returned_by_recover(channel: BlockingChannel, _: Any) -> None:
    channel.basic_recover(requeue=True)


@pytest.mark.parametrize("give_back", [returned_by_reject, returned_by_nack, returned_by_recover])
def test_what_is_given_back_more_often_than_the_limit_is_a_dead_letter(
    channel: BlockingChannel, named: Named, give_back: Callable[[BlockingChannel, Any], None]
) -> None:
    work, dead = named("work"), named("dead")
    channel.queue_declare(dead, durable=True)
    limited(channel, work, 2, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    channel.basic_publish("", work, b"poison", pika.BasicProperties(headers={"own": 1}))
    for failures in range(3):
        method, properties, _ = got(channel, work)
        assert method.redelivered == (failures > 0)
        assert properties.headers == {"own": 1} | ({"x-delivery-count": failures} if failures else {})
        give_back(channel, method)
    _, properties, body = got(channel, dead)
    (death,) = properties.headers["x-death"]
    assert (body, death["reason"], death["queue"], death["count"]) == (b"poison", "delivery_limit", work, 1)
    assert "x-delivery-count" not in properties.headers
    assert is_empty(channel, work)


def test_a_channel_and_a_connection_that_end_count_what_their_client_holds(
    broker: AmqpBroker, channel: BlockingChannel, named: Named
) -> None:
    work, dead = named("work"), named("dead")
    channel.queue_declare(dead, durable=True)
    limited(channel, work, 1, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    channel.basic_publish("", work, b"poison")
    with connected(broker) as other:
        holding = other.channel()
        got(holding, work)
        holding.close()
        method, properties, _ = got(other.channel(), work)
        assert (method.redelivered, properties.headers) == (True, {"x-delivery-count": 1})
    assert got(channel, dead)[2] == b"poison"


@pytest.mark.parametrize("how", ["cancelled", "got"])
def test_what_a_channel_holds_fails_once_when_it_ends_be_another_of_its_consumers_ready_for_it(
    broker: AmqpBroker, channel: BlockingChannel, named: Named, how: str
) -> None:
    work = named("work")
    limited(channel, work, 3)
    channel.basic_publish("", work, b"a")
    with RawClient(broker.port) as holding:
        holding.ask(basic.BasicQos(prefetch_count=1), basic.BasicQosOk)
        if how == "got":
            holding.say(basic.BasicGet(queue=work))
            assert isinstance(holding.content().method, basic.BasicGetOk)
        else:
            holding.ask(basic.BasicConsume(queue=work, consumer_tag="first"), basic.BasicConsumeOk)
            assert isinstance(holding.content().method, basic.BasicDeliver)
            holding.ask(basic.BasicCancel(consumer_tag="first"), basic.BasicCancelOk)
        holding.ask(basic.BasicConsume(queue=work, consumer_tag="ready"), basic.BasicConsumeOk)
        # Behind this the queue knows of that.
        assert holding.declare(work, passive=True).consumer_count == 1
        holding.ask(CLOSE_CHANNEL, ChannelCloseOk)
        _, properties, _ = got(channel, work)
    assert properties.headers == {"x-delivery-count": 1}


def test_a_consumer_that_is_cancelled_has_not_failed_on_what_it_holds(channel: BlockingChannel, named: Named) -> None:
    work = named("work")
    limited(channel, work, 0)
    channel.basic_publish("", work, b"a")
    came: list[Any] = []
    tag = channel.basic_consume(work, lambda _, method, *__: came.append(method))
    while not came:
        channel.connection.process_data_events(time_limit=SECONDS)
    channel.basic_cancel(tag)
    assert is_empty(channel, work), "it is held"
    channel.basic_ack(came[0].delivery_tag)


def test_without_a_place_for_dead_letters_it_is_dropped_and_counted(
    broker: AmqpBroker, channel: BlockingChannel, named: Named
) -> None:
    work = named("work")
    limited(channel, work, 0)
    channel.basic_publish("", work, b"poison")
    returned_by_nack(channel, got(channel, work)[0])
    figures = broker.until(work, lambda row: row["stored_messages"] == 0)
    assert figures["drop_failed"]
    with pytest.raises(ChannelClosedByBroker, match="NOT_FOUND"):
        channel.queue_declare(f"{work}.dead", passive=True)


@pytest.mark.parametrize(
    "arguments", [{}, {"x-queue-type": "quorum"}, {"x-queue-type": "quorum", "x-delivery-limit": -1}]
)
def test_without_a_limit_a_message_comes_again_as_often_as_it_is_given_back_and_nothing_counts(
    channel: BlockingChannel, named: Named, arguments: dict[str, Any]
) -> None:
    work, dead = named("work"), named("dead")
    channel.queue_declare(dead, durable=True)
    places = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.queue_declare(work, durable=True, arguments=arguments | places)
    channel.basic_publish("", work, b"a")
    for _ in range(30):
        method, properties, _ = got(channel, work)
        assert not properties.headers
        returned_by_nack(channel, method)
    channel.basic_nack(got(channel, work)[0].delivery_tag, requeue=False)
    assert got(channel, dead)[2] == b"a", "a place for dead letters is no limit"


def test_a_transaction_counts_what_it_gives_back_when_it_is_committed(channel: BlockingChannel, named: Named) -> None:
    work, dead = named("work"), named("dead")
    channel.queue_declare(dead, durable=True)
    limited(channel, work, 1, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    channel.basic_publish("", work, b"poison")
    with channel.connection.channel() as transacting:
        transacting.tx_select()
        method, _, _ = got(transacting, work)
        transacting.basic_nack(method.delivery_tag, requeue=True)
        transacting.tx_rollback()
        transacting.basic_nack(method.delivery_tag, requeue=True)
        transacting.tx_commit()
        method, properties, _ = got(transacting, work)
        assert properties.headers == {"x-delivery-count": 1}
        transacting.basic_reject(method.delivery_tag, requeue=True)
        transacting.tx_commit()
    assert got(channel, dead)[2] == b"poison"


def test_a_limit_outlives_a_restart_and_so_does_what_has_failed(tmp_path: Path) -> None:
    options = "--http", "none", "--data", str(tmp_path / "data")
    with AmqpBroker(*options) as broker, broker.drained(), connected(broker) as connection:
        channel = connection.channel()
        limited(channel, "work", 1)
        channel.basic_publish("", "work", b"poison", mandatory=True)
        returned_by_nack(channel, got(channel, "work")[0])
        assert got(channel, "work")[1].headers == {"x-delivery-count": 1}
        # What is recorded is written within 50 ms; a second queue's declaration is answered when it is durable.
        channel.queue_declare("other", durable=True)
    with AmqpBroker(*options) as broker, broker.drained(), connected(broker) as connection:
        channel = connection.channel()
        method, properties, _ = got(channel, "work")
        assert properties.headers == {"x-delivery-count": 1}
        returned_by_nack(channel, method)
        assert is_empty(channel, "work")


def test_a_queue_is_found_by_a_declaration_with_its_limit_and_by_no_other(
    broker: AmqpBroker, channel: BlockingChannel, named: Named
) -> None:
    work, native = named("work"), named("native")
    limited(channel, work, 3)
    limited(channel, work, 3)
    code, _, said = broker.run(f"queue create {native} --max-messages none --max-bytes none --max-failures 4")
    assert code == 0, said
    limited(channel, native, 3)
    for queue, text in ((work, "inequivalent arg 'x-delivery-limit'"), (native, "received '4' but current is '3'")):
        with channel.connection.channel() as other, pytest.raises(ChannelClosedByBroker, match=text):
            limited(other, queue, 4)


def test_a_native_limit_counts_what_amqp_gives_back(broker: AmqpBroker, channel: BlockingChannel, named: Named) -> None:
    queue = named("native")
    code, _, said = broker.run("queue", "create", queue, "--max-failures", "2")
    assert code == 0, said
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"poison")
    for _ in range(2):
        returned_by_nack(channel, got(channel, queue)[0])
    broker.until(queue, lambda row: row["total_dead_lettered"] == 1)
    assert got(channel, f"{queue}.dead")[2] == b"poison"


@pytest.mark.parametrize(
    ("said", "settings"),
    [
        ({"x-delivery-limit": 0}, {"max_receives": 1, "drop_failed": True}),
        ({"x-delivery-limit": 999}, {"max_receives": 1000, "drop_failed": True}),
        ({"x-delivery-limit": -1}, {}),
        ({"x-delivery-limit": 4, "x-dead-letter-exchange": "x"}, {"max_receives": 5, "dead_letter_exchange": "x"}),
        ({"x-dead-letter-exchange": "x"}, {"dead_letter_exchange": "x"}),
    ],
)
def test_a_limit_is_the_number_of_failures_before_the_one_that_is_too_many(
    said: dict[str, Any], settings: dict[str, Any]
) -> None:
    found = settings_of(Table.of(said), "queue 'q' in vhost '/'")
    assert {
        name: value for name, value in found.items() if name not in ("max_messages", "max_bytes", "overflow")
    } == settings
