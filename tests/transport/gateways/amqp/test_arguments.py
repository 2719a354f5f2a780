"""Arguments that mean nothing here, and wrong ones of exchanges, bindings and consumers, are told as RabbitMQ tells them.

The differential test says all of them to both (`tests.fault.amqp_arguments`); this holds some without a RabbitMQ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.raw_amqp import RawClient, published
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.method import Method
from transport.gateways.amqp.tables import Field, Table

Named = Callable[[str], str]


@pytest.fixture
def client(broker: AmqpBroker) -> Iterator[RawClient]:
    with RawClient(broker.port) as opened:
        yield opened


def refused(client: RawClient, said: Method) -> str:
    """Says this, which is refused: with what text. The channel is opened again."""
    client.say(said)
    closed = client.expect(connection.ChannelClose, 1)
    assert closed.reply_code == 406
    client.say(connection.ChannelCloseOk())
    client.ask(connection.ChannelOpen(), connection.ChannelOpenOk)
    return closed.reply_text.removeprefix("PRECONDITION_FAILED - ")


def declaring(queue: str, arguments: dict[str, Any]) -> entity.QueueDeclare:
    return entity.QueueDeclare(queue=queue, durable=True, arguments=Table.of(arguments))


@pytest.mark.parametrize(
    ("argument", "value", "why"),
    [
        ("x-dead-letter-strategy", "nonsense", "invalid_dlx_strategy"),
        ("x-dead-letter-strategy", 7, "{unacceptable_type,signedint}"),
        ("x-max-in-memory-length", -1, "{value_negative,-1}"),
        ("x-max-in-memory-bytes", "1", '"expected integer, got longstr"'),
        ("x-queue-mode", "nonsense", "\"unsupported queue mode 'nonsense'\""),
        ("x-queue-mode", True, "{unacceptable_type,bool}"),
        ("x-queue-version", 3, "\"unsupported queue version '3'\""),
        ("x-queue-version", True, '"expected integer, got bool"'),
        ("x-quorum-initial-group-size", 0, "{value_zero,0}"),
        ("x-queue-leader-locator", "nonsense", "invalid_queue_locator_arg"),
        ("x-expires", 1 << 62, "{value_too_large,4611686018427387904}"),
    ],
)
def test_an_argument_that_means_nothing_here_is_looked_at_all_the_same(
    client: RawClient, named: Named, argument: str, value: object, why: str
) -> None:
    queue = named("wrong")
    said = refused(client, declaring(queue, {argument: value}))
    assert said == f"invalid arg '{argument}' for queue '{queue}' in vhost '/': {why}"


QUORUM: dict[str, Any] = {
    "x-queue-type": "quorum",
    "x-message-ttl": 1_000,
    "x-dead-letter-exchange": "amq.fanout",
    "x-dead-letter-strategy": "at-least-once",
    "x-max-in-memory-length": 0,
    "x-max-in-memory-bytes": 0,
    "x-quorum-initial-group-size": 3,
    "x-queue-leader-locator": "client-local",
}
CLASSIC: dict[str, Any] = {
    "x-message-ttl": 1_000,
    "x-queue-mode": "lazy",
    "x-queue-version": 2,
    "x-queue-master-locator": "min-masters",
}


@pytest.mark.parametrize("arguments", [QUORUM, CLASSIC], ids=["quorum", "classic"])
def test_they_have_to_be_said_again_and_the_first_that_is_missing_is_told(
    client: RawClient, named: Named, arguments: dict[str, Any]
) -> None:
    queue = named("again")
    client.ask(declaring(queue, arguments), entity.QueueDeclareOk)
    client.ask(declaring(queue, dict(reversed(arguments.items()))), entity.QueueDeclareOk)
    for name in arguments:
        said = refused(client, declaring(queue, {key: value for key, value in arguments.items() if key != name}))
        assert said.startswith(
            f"inequivalent arg '{name}' for queue '{queue}' in vhost '/': received none but current is"
        )
    # RabbitMQ has another order for either kind.
    first = "x-dead-letter-exchange" if arguments is QUORUM else "x-message-ttl"
    assert refused(client, declaring(queue, {})).startswith(f"inequivalent arg '{first}' for")


@pytest.mark.parametrize(
    ("value", "received"),
    [
        (None, "none"),
        (Table.of({}), "'[]'"),
        (Field("A", (Field("I", 1),)), "'[...]'"),
        (Field("x", b"1"), "'1'"),
        (True, "'true'"),
    ],
    ids=str,
)
def test_what_was_received_is_shown_as_rabbitmq_shows_it(
    client: RawClient, named: Named, value: object, received: str
) -> None:
    queue = named("shown")
    client.ask(declaring(queue, {"x-queue-version": 2}), entity.QueueDeclareOk)
    said = refused(client, declaring(queue, {"x-queue-version": value}))
    assert said.endswith(f"received {received} but current is '2'")
    said = refused(client, declaring(queue, {"x-queue-version": 2, "x-expires": None}))
    assert said.endswith("received the value 'undefined' of type 'void' but current is none")


def test_a_time_is_as_good_as_another_integer_where_it_is_the_same(client: RawClient, named: Named) -> None:
    queue = named("time")
    client.ask(declaring(queue, {"x-queue-version": 2}), entity.QueueDeclareOk)
    again = client.ask(declaring(queue, {"x-queue-version": Field("T", 2)}), entity.QueueDeclareOk)
    assert again.queue == queue


def test_an_alternate_exchange_that_is_no_text_is_told_with_its_type(client: RawClient, named: Named) -> None:
    exchange = named("alternate")
    wrong = entity.ExchangeDeclare(exchange=exchange, arguments=Table.of({"alternate-exchange": 7}))
    text = f"exchange '{exchange}' in vhost '/'"
    assert refused(client, wrong) == f"invalid type 'signedint' for arg 'alternate-exchange' in {text}"
    client.ask(entity.ExchangeDeclare(exchange=exchange), entity.ExchangeDeclareOk)
    said = refused(client, wrong)
    received = "the value '7' of type 'signedint'"
    assert said == f"inequivalent arg 'alternate-exchange' for {text}: received {received} but current is none"
    durable = entity.ExchangeDeclare(exchange=exchange, durable=True, arguments=wrong.arguments)
    assert refused(client, durable).startswith(f"inequivalent arg 'durable' for {text}")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("odd", 'value <<"odd">>; expected all, any, all-with-x, or any-with-x'),
        ("", "value <<>>; expected all, any, all-with-x, or any-with-x"),
        (7, "type signedint (value 7); expected longstr"),
        (None, "type void (value undefined); expected longstr"),
        (Field("x", b"a"), 'type binary (value <<"a">>); expected longstr'),
    ],
    ids=str,
)
def test_a_way_to_match_that_is_none_is_told_as_rabbitmq_tells_it(
    client: RawClient, named: Named, value: object, why: str
) -> None:
    queue, exchange = named("matched"), named("headers")
    client.declare(queue)
    client.ask(entity.ExchangeDeclare(exchange=exchange, type="headers"), entity.ExchangeDeclareOk)
    said = {"exchange": "amq.headers", "arguments": Table.of({"x-match": value})}
    assert refused(client, entity.QueueBind(queue=queue, **said)) == f"Invalid x-match field {why}"
    bound = entity.ExchangeBind(source="amq.headers", destination=exchange, arguments=said["arguments"])
    assert refused(client, bound) == f"Invalid x-match field {why}"


def test_whether_a_consumer_goes_on_a_failover_has_to_be_a_truth(client: RawClient, named: Named) -> None:
    queue = named("failover")
    client.declare(queue)
    wrong = basic.BasicConsume(queue=queue, arguments=Table.of({"x-cancel-on-ha-failover": "true"}))
    why = f"invalid arg 'x-cancel-on-ha-failover' for queue '{queue}' in vhost '/': {{unacceptable_type,longstr}}"
    assert refused(client, wrong) == why
    right = basic.BasicConsume(queue=queue, arguments=Table.of({"x-cancel-on-ha-failover": True}))
    client.ask(right, basic.BasicConsumeOk)


def test_what_was_held_of_a_deleted_queue_hides_no_consumer_of_the_next_of_its_name(
    broker: AmqpBroker, client: RawClient, named: Named
) -> None:
    queue = named("twice")
    with RawClient(broker.port) as holder:
        holder.declare(queue)
        holder.write(published(queue))
        holder.ask(basic.BasicConsume(queue=queue, consumer_tag="c"), basic.BasicConsumeOk)
        assert holder.content().method.delivery_tag == 1
        holder.ask(basic.BasicCancel(consumer_tag="c"), basic.BasicCancelOk)
        client.ask(entity.QueueDelete(queue=queue), entity.QueueDeleteOk)
        client.declare(queue)
        client.ask(basic.BasicConsume(queue=queue, consumer_tag="next"), basic.BasicConsumeOk)
        assert client.declare(queue, passive=True).consumer_count == 1
        # What it holds is of the one that is gone: it may be settled, and nothing comes of it.
        holder.say(basic.BasicNack(delivery_tag=1, requeue=True))
        assert holder.declare(queue, passive=True) == entity.QueueDeclareOk(
            queue=queue, message_count=0, consumer_count=1
        )
