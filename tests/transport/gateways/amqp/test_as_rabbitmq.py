"""What the differential test has found, held without a RabbitMQ: texts, the order of checks, and what becomes of what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.raw_amqp import RawClient, published
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.method import Method
from transport.gateways.amqp.properties import Properties
from transport.gateways.amqp.queue_arguments import NO_LIMIT_OF_ZERO
from transport.gateways.amqp.tables import Table

Named = Callable[[str], str]


@pytest.fixture
def client(broker: AmqpBroker) -> Iterator[RawClient]:
    with RawClient(broker.port) as opened:
        yield opened


def refused(client: RawClient, *said: Method | bytes) -> str:
    """Says these, of which the last is refused: with what text. The channel is opened again."""
    for each in said:
        client.write(each) if isinstance(each, bytes) else client.say(each)
    text = client.expect(connection.ChannelClose, 1).reply_text
    client.say(connection.ChannelCloseOk())
    client.ask(connection.ChannelOpen(), connection.ChannelOpenOk)
    return text


def with_arguments(queue: str, **arguments: Any) -> entity.QueueDeclare:
    said = {name.replace("_", "-"): value for name, value in arguments.items()}
    return entity.QueueDeclare(queue=queue, durable=True, arguments=Table.of(said))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x_message_ttl": "1000"}, "invalid arg 'x-message-ttl' for {}: \"expected integer, got longstr\""),
        ({"x_message_ttl": 1 << 62}, "invalid arg 'x-message-ttl' for {}: {{value_too_large,4611686018427387904}}"),
        ({"x_queue_type": "odd"}, "invalid arg 'x-queue-type' for {}: \"unsupported queue type 'odd'\""),
        ({"x_queue_type": 2}, "invalid arg 'x-queue-type' for {}: {{unacceptable_type,signedint}}"),
        ({"x_dead_letter_exchange": 7}, "invalid type 'signedint' for arg 'x-dead-letter-exchange' in {}"),
        ({"x_dead_letter_routing_key": "k"}, "invalid arg 'x-dead-letter-routing-key' for {}: routing_key_but_no_dlx_defined"),
        # Of two that cannot be, the one that RabbitMQ looks at first.
        ({"x_max_length": -1, "x_message_ttl": -1}, "invalid arg 'x-message-ttl' for {}: {{value_negative,-1}}"),
        ({"x_delivery_limit": "3"}, "invalid arg 'x-delivery-limit' for {}: \"expected integer, got longstr\""),
        ({"x_delivery_limit": 1000}, "invalid arg 'x-delivery-limit' for {}: {{value_too_large,1000}}: say 999 or less, or -1 for none"),
        ({"x_message_ttl": -1, "x_queue_type": "odd"}, "invalid arg 'x-queue-type' for {}: \"unsupported queue type 'odd'\""),
    ],
)  # fmt: skip
def test_an_argument_that_cannot_be_is_told_as_rabbitmq_tells_it(
    client: RawClient, named: Named, arguments: dict[str, Any], text: str
) -> None:
    queue = named("wrong")
    said = refused(client, with_arguments(queue, **arguments))
    assert said == "PRECONDITION_FAILED - " + text.format(f"queue '{queue}' in vhost '/'")


def test_a_queue_that_is_there_is_compared_before_its_arguments_are_judged(client: RawClient, named: Named) -> None:
    queue = named("there")
    client.ask(
        with_arguments(queue, x_message_ttl=1_000, x_max_length=5, x_overflow="reject-publish"), entity.QueueDeclareOk
    )
    said = refused(client, with_arguments(queue, x_message_ttl=-1))
    assert said.endswith(
        "inequivalent arg 'x-message-ttl' for queue '" + queue + "' in vhost '/': received '-1' but current is '1000'"
    )
    with RawClient(client.socket.getpeername()[1]) as other:
        text = refused(
            other, entity.QueueDeclare(queue=queue, exclusive=True, arguments=Table.of({"x-message-ttl": -1}))
        )
        assert text.startswith("RESOURCE_LOCKED")


def test_a_queue_without_a_name_is_not_found(client: RawClient) -> None:
    assert refused(client, entity.QueueDeclare(passive=True)) == "NOT_FOUND - no queue '' in vhost '/'"


def test_what_is_unbound_need_not_be_there(client: RawClient, named: Named) -> None:
    queue, exchange = named("q"), named("e")
    client.declare(queue)
    for source, destination in (("amq.topic", "nowhere"), ("nowhere", queue), ("nowhere", "nowhere either")):
        client.ask(entity.QueueUnbind(queue=destination, exchange=source), entity.QueueUnbindOk)
    client.ask(entity.ExchangeUnbind(source="amq.topic", destination=exchange), entity.ExchangeUnbindOk)
    client.ask(entity.ExchangeUnbind(source=exchange, destination="amq.topic"), entity.ExchangeUnbindOk)
    assert client.ready(queue) == 0, "the channel is open"


def test_of_two_ends_of_a_binding_that_are_missing_the_exchange_is_told(client: RawClient, named: Named) -> None:
    exchange = named("no-exchange")
    missing = f"NOT_FOUND - no exchange '{exchange}' in vhost '/'"
    assert refused(client, entity.QueueBind(queue="no-queue", exchange=exchange)) == missing
    assert refused(client, entity.ExchangeBind(source=exchange, destination="none")) == missing


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"x-overflow": "block", "x-max-length": 0}, NO_LIMIT_OF_ZERO),
        ({"x-overflow": "block", "x-max-length-bytes": 0}, NO_LIMIT_OF_ZERO),
    ],
)
def test_a_limit_of_nothing_is_refused_with_what_to_do(
    client: RawClient, named: Named, arguments: dict[str, Any], why: str
) -> None:
    queue, argument = named("refused"), list(arguments)[-1]
    found = refused(client, entity.QueueDeclare(queue=queue, arguments=Table.of(arguments)))
    assert found == f"PRECONDITION_FAILED - invalid arg '{argument}' for queue '{queue}' in vhost '/': {why}"


def test_an_exchange_that_is_used_is_not_deleted(client: RawClient, named: Named) -> None:
    exchange, queue = named("used"), named("q")
    client.ask(entity.ExchangeDeclare(exchange=exchange), entity.ExchangeDeclareOk)
    client.declare(queue)
    client.ask(entity.QueueBind(queue=queue, exchange=exchange), entity.QueueBindOk)
    said = refused(client, entity.ExchangeDelete(exchange=exchange, if_unused=True))
    assert said == f"PRECONDITION_FAILED - exchange '{exchange}' in vhost '/' in use"


def test_another_alternate_exchange_is_told_with_what_is_there(client: RawClient, named: Named) -> None:
    exchange, plain = named("alternate"), named("plain")
    arguments = Table.of({"alternate-exchange": "amq.topic"})
    client.ask(entity.ExchangeDeclare(exchange=exchange, arguments=arguments), entity.ExchangeDeclareOk)
    client.ask(entity.ExchangeDeclare(exchange=plain), entity.ExchangeDeclareOk)
    value = "the value 'amq.topic' of type 'longstr'"
    said = refused(client, entity.ExchangeDeclare(exchange=exchange))
    assert said.endswith(f"exchange '{exchange}' in vhost '/': received none but current is {value}")
    said = refused(client, entity.ExchangeDeclare(exchange=plain, arguments=arguments))
    assert said.endswith(f"exchange '{plain}' in vhost '/': received {value} but current is none")


def test_a_queue_that_one_consumer_has_for_itself_can_be_asked(client: RawClient, named: Named) -> None:
    queue = named("exclusive")
    client.declare(queue)
    client.ask(basic.BasicConsume(queue=queue, consumer_tag="c", exclusive=True), basic.BasicConsumeOk)
    assert client.ask(basic.BasicGet(queue=queue), basic.BasicGetEmpty)


def test_whether_there_is_an_exchange_is_looked_at_before_a_messages_properties(
    client: RawClient, named: Named
) -> None:
    exchange, wrong = named("none"), Properties.of(expiration="soon").raw
    said = refused(client, published("k", exchange=exchange, properties=wrong))
    assert said == f"NOT_FOUND - no exchange '{exchange}' in vhost '/'"
    client.ask(entity.ExchangeDeclare(exchange=exchange, internal=True), entity.ExchangeDeclareOk)
    said = refused(client, published("k", exchange=exchange, properties=wrong))
    assert said == f"ACCESS_REFUSED - cannot publish to internal exchange '{exchange}' in vhost '/'"


@pytest.mark.parametrize(
    ("expiration", "why"),
    [
        ("-1", "{value_negative,-1}"),
        ("12 s", '{leftover_string," s"}'),
        ("soon", "no_integer"),
        ("", "no_integer"),
        ("9" * 20, "{value_too_large,99999999999999999999}"),
    ],
)
def test_an_expiration_that_is_none_is_told_with_what_is_wrong_with_it(
    client: RawClient, expiration: str, why: str
) -> None:
    said = refused(client, published("q", properties=Properties.of(expiration=expiration).raw))
    assert said == f"PRECONDITION_FAILED - invalid expiration '{expiration}': {why}"


def test_what_was_got_is_no_matter_of_prefetch(client: RawClient, named: Named) -> None:
    got, consumed = named("got"), named("consumed")
    for queue in (got, consumed):
        client.declare(queue)
        client.write(published(queue) * 3)
    client.ask(basic.BasicQos(prefetch_count=2, global_=True), basic.BasicQosOk)
    client.say(basic.BasicGet(queue=got))
    assert isinstance(client.content().method, basic.BasicGetOk)
    client.ask(basic.BasicConsume(queue=consumed, consumer_tag="c"), basic.BasicConsumeOk)
    assert [client.content().method.delivery_tag for _ in range(2)] == [2, 3]
    assert client.ready(consumed) == 1


def test_what_has_expired_behind_a_message_is_not_counted_with_it(client: RawClient, named: Named) -> None:
    queue = named("expiring")
    client.declare(queue)
    client.write(
        published(queue, b"first") + published(queue, b"gone", properties=Properties.of(expiration="0").raw) * 2
    )
    client.write(published(queue, b"last"))
    assert client.ready(queue) == 4, "what expires at once does so when it would be next"
    client.say(basic.BasicGet(queue=queue, no_ack=True))
    assert client.content().method.message_count == 1


LIMIT = {"x_max_length": 3, "x_overflow": "reject-publish"}


def test_all_that_was_published_before_a_method_is_stored_or_rejected_by_then(tmp_path: Path, named: Named) -> None:
    with (
        AmqpBroker("--http", "none", "--data", str(tmp_path)) as broker,
        broker.drained(),
        RawClient(broker.port) as client,
    ):
        for number in range(12):
            queue = f"{named('limited')}-{number}"
            client.ask(with_arguments(queue, **LIMIT), entity.QueueDeclareOk)
            client.write(published(queue, b"first") + published(queue, b"second"))
            assert client.ready(queue) == 2
            client.write(b"".join(published(queue, body) for body in (b"third", b"too many", b"far too many")))
            assert client.ready(queue) == 3
            assert client.got(queue) == [b"first", b"second", b"third"]


def test_what_one_queue_rejects_the_others_have_once(client: RawClient, named: Named) -> None:
    exchange, limited, free = named("fanout"), named("limited"), named("free")
    client.ask(entity.ExchangeDeclare(exchange=exchange, type="fanout"), entity.ExchangeDeclareOk)
    client.ask(with_arguments(limited, **LIMIT), entity.QueueDeclareOk)
    client.declare(free)
    for queue in (limited, free):
        client.ask(entity.QueueBind(queue=queue, exchange=exchange), entity.QueueBindOk)
    bodies = [b"%d" % number for number in range(7)]
    client.write(b"".join(published("", body, exchange=exchange) for body in bodies))
    assert client.got(limited) == bodies[:3]
    assert client.got(free) == bodies
