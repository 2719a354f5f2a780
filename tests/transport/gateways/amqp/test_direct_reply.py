"""Direct reply-to, as RabbitMQ's clients use it: a question, an answer, and no queue that anybody declares."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, UnroutableError
from typer.testing import CliRunner

from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.raw_amqp import OPEN, RawClient, methods, published, start_ok, tune_ok
from tests.transport.gateways.amqp.test_pika import SECONDS, connected
from transport import Broker, BrokerConfig
from transport.cli.app import app
from transport.config.listener_names import AMQP
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.direct_reply import REPLY_TO
from transport.gateways.amqp.layout import PROTOCOL_HEADER
from transport.gateways.amqp.listening import amqp_listeners
from transport.gateways.amqp.properties import Properties
from transport.gateways.amqp.reply_codes import ReplyCode

Named = Callable[[str], str]
ASKS = pika.BasicProperties(reply_to=REPLY_TO, correlation_id="1", headers={"who": "a client"})


@pytest.fixture
def client(broker: AmqpBroker) -> Iterator[BlockingChannel]:
    with connected(broker) as connection:
        yield connection.channel()


@pytest.fixture
def server(broker: AmqpBroker) -> Iterator[BlockingChannel]:
    with connected(broker) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel


@pytest.fixture
def questions(server: BlockingChannel, named: Named) -> str:
    return server.queue_declare(named("questions")).method.queue


def asked(client: BlockingChannel, server: BlockingChannel, questions: str) -> Any:
    """Ask, and return the properties of the question as the server gets it."""
    client.basic_publish("", questions, b"what?", ASKS)
    _, properties, body = next(server.consume(questions, auto_ack=True, inactivity_timeout=SECONDS))
    server.cancel()
    assert body == b"what?"
    return properties


def listen(client: BlockingChannel) -> list[Any]:
    heard: list[Any] = []
    client.basic_consume(REPLY_TO, lambda *said: heard.append(said), auto_ack=True)
    return heard


def test_an_answer_comes_to_who_has_asked_and_the_question_keeps_what_else_it_says(
    client: BlockingChannel, server: BlockingChannel, questions: str
) -> None:
    heard = listen(client)
    properties = asked(client, server, questions)
    assert properties.reply_to.startswith(REPLY_TO + ".")
    assert (properties.correlation_id, properties.headers) == ("1", {"who": "a client"})
    found = server.queue_declare(properties.reply_to, passive=True).method
    assert (found.queue, found.message_count, found.consumer_count) == (properties.reply_to, 0, 1)
    server.basic_publish("", properties.reply_to, b"that.", pika.BasicProperties(correlation_id="1"), mandatory=True)
    client.connection.process_data_events(SECONDS)
    ((_, method, answer, body),) = heard
    assert (body, answer.correlation_id, method.exchange, method.routing_key) == (
        b"that.",
        "1",
        "",
        properties.reply_to,
    )


def test_the_same_place_stands_for_all_questions_of_a_channel_and_another_channel_has_another(
    client: BlockingChannel, server: BlockingChannel, questions: str
) -> None:
    listen(client)
    other = client.connection.channel()
    listen(other)
    places = [asked(channel, server, questions).reply_to for channel in (client, client, other)]
    assert places[0] == places[1] != places[2]


@pytest.mark.parametrize("ends", ["cancel", "close", "connection"])
def test_who_listens_no_more_is_not_there_for_an_answer(
    client: BlockingChannel, server: BlockingChannel, questions: str, ends: str
) -> None:
    listen(client)
    place = asked(client, server, questions).reply_to
    if ends == "cancel":
        client.basic_cancel(client.consumer_tags[0])
    elif ends == "close":
        client.close()
    else:
        client.connection.close()
    with pytest.raises(UnroutableError):
        server.basic_publish("", place, b"that.", mandatory=True)
    with pytest.raises(ChannelClosedByBroker) as caught:
        server.queue_declare(place, passive=True)
    assert caught.value.reply_code == 404
    if ends == "cancel":
        heard = listen(client)
        assert asked(client, server.connection.channel(), questions).reply_to != place
        assert heard == []


def test_who_looks_for_the_name_itself_finds_that_there_are_direct_replies(client: BlockingChannel) -> None:
    """Spring looks so whether a broker has them, and else has a queue for each answer."""
    found = client.queue_declare(REPLY_TO, passive=True).method
    assert (found.queue, found.message_count, found.consumer_count) == (REPLY_TO, 0, 1)


@pytest.mark.parametrize(
    ("own", "said", "code", "text"),
    [
        (True, basic.BasicConsume(queue=""), 406, "multiple consumers are unsupported for queue '{}' in vhost '/'"),
        (False, basic.BasicConsume(queue=""), 406, "only creator channel may consume from queue '{}' in vhost '/'"),
        (True, basic.BasicGet(queue=""), 540, "basic.get not supported by volatile queue '{}' in vhost '/'"),
        (
            True,
            entity.QueueBind(queue="", exchange="amq.fanout"),
            403,
            "cannot bind or unbind to a volatile (direct reply-to) queue",
        ),
        (
            False,
            entity.QueueUnbind(queue="", exchange="amq.fanout"),
            403,
            "cannot bind or unbind to a volatile (direct reply-to) queue",
        ),
    ],
)
def test_the_place_of_answers_is_no_queue_that_is_used_by_its_name(
    broker: AmqpBroker, named: Named, own: bool, said: Any, code: int, text: str
) -> None:
    """Its own consumer was forgotten when a second one of it went."""
    queue = named("asked")
    with RawClient(broker.port, opens=2) as client:
        client.declare(queue)
        client.say(basic.BasicConsume(queue=REPLY_TO, no_ack=True))
        client.expect(basic.BasicConsumeOk)
        client.write(published(queue, properties=Properties.of(reply_to=REPLY_TO).raw))
        client.ready(queue)
        client.say(basic.BasicGet(queue=queue, no_ack=True))
        place = Properties(client.content().properties).reply_to
        assert place is not None
        client.say(replace(said, queue=place), channel=1 if own else 2)
        refused = client.method()
        assert (refused.reply_code, refused.reply_text) == (code, f"{ReplyCode(code).name} - {text.format(place)}")


def test_who_may_not_read_the_answers_leaves_no_queue_for_them(run: Any, tmp_path: Path) -> None:
    """It stood as long as the connection did, and each try left another."""
    users = tmp_path / "users.toml"
    for words, typed in (
        (("add", "bob", "--password-file", "-"), "correct horse\n"),
        (("grant", "bob", "write", "configure", "--on", "*"), None),
    ):
        done = CliRunner().invoke(app, ["user", *words, "--users-file", str(users)], input=typed)
        assert done.exit_code == 0, done.output

    def listens(port: int) -> str:
        with RawClient(port, opens=None) as client:
            proof = start_ok(b"\0bob\0correct horse")
            client.write(PROTOCOL_HEADER + methods(0, proof, tune_ok(), OPEN) + methods(1, connection.ChannelOpen()))
            client.expect(connection.ConnectionStart)
            client.expect(connection.ConnectionTune)
            client.expect(connection.ConnectionOpenOk)
            client.expect(connection.ChannelOpenOk)
            client.say(basic.BasicConsume(queue=REPLY_TO, no_ack=True))
            text = client.expect(connection.ChannelClose).reply_text
            said.append(list(broker.queues.names))
            return text

    said: list[list[str]] = []

    async def main() -> None:
        nonlocal broker
        config = BrokerConfig(users_file=str(users))
        async with Broker(config, listeners=amqp_listeners("127.0.0.1:0", None)) as broker:
            port = broker.addresses(AMQP)[0].port
            assert (await asyncio.to_thread(listens, port)).startswith("ACCESS_REFUSED")
        assert said == [[]]

    broker: Any = None
    run(main)


def acknowledges(client: BlockingChannel, _: str) -> None:
    client.basic_consume(REPLY_TO, print)


def listens_twice(client: BlockingChannel, _: str) -> None:
    listen(client)
    listen(client)


def listens_not(client: BlockingChannel, questions: str) -> None:
    client.confirm_delivery()
    client.basic_publish("", questions, b"what?", ASKS)


@pytest.mark.parametrize(
    ("work", "text"),
    [
        (acknowledges, "reply consumer cannot acknowledge"),
        (listens_twice, "reply consumer already set"),
        (listens_not, "fast reply consumer does not exist"),
    ],
)
def test_what_cannot_be_heard_ends_the_channel(client: BlockingChannel, questions: str, work: Any, text: str) -> None:
    with pytest.raises(ChannelClosedByBroker) as caught:
        work(client, questions)
    assert caught.value.reply_code == 406
    assert text in caught.value.reply_text


def test_what_is_published_before_a_message_that_cannot_be_is_stored(broker: AmqpBroker, named: Named) -> None:
    queue = named("before")
    asks = Properties.of(reply_to=REPLY_TO).raw
    with RawClient(broker.port) as client:
        client.say(entity.QueueDeclare(queue=queue))
        client.expect(entity.QueueDeclareOk)
        client.write(published(queue, b"1") + published(queue, b"2") + published(queue, b"3", properties=asks))
        assert client.expect(connection.ChannelClose).reply_code == 406
    with RawClient(broker.port) as client:
        client.say(entity.QueueDeclare(queue=queue, passive=True))
        assert client.expect(entity.QueueDeclareOk).message_count == 2
        client.say(basic.BasicGet(queue=queue, no_ack=True))
        assert client.content().body == b"1"
