"""Direct reply-to, as RabbitMQ's clients use it: a question, an answer, and no queue that anybody declares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, UnroutableError

from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.raw_amqp import RawClient, published
from tests.transport.gateways.amqp.test_pika import SECONDS, connected
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.direct_reply import REPLY_TO
from transport.gateways.amqp.properties import Properties

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
