"""``x-expires``: queues that go when nobody uses them, as RabbitMQ's clients declare them."""

from __future__ import annotations

from collections.abc import Callable

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.test_pika import channel, connected, queue  # noqa: F401 - fixtures
from transport.testing import HostedBroker

HOUR_MS = 3_600_000
NOT_FOUND = 404


@pytest.mark.parametrize(
    ("expires", "why"),
    [
        (0, "{value_zero,0}"),
        (-1, "{value_negative,-1}"),
        ("5", '"expected integer, got longstr"'),
        (10 * 366 * 24 * HOUR_MS + 1, "{value_too_large,316224000001}"),
    ],
)
def test_a_time_that_cannot_be_is_refused_in_rabbitmqs_words(
    channel: BlockingChannel,  # noqa: F811 - as above
    named: Callable[[str], str],
    expires: object,
    why: str,
) -> None:
    name = named("q")
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare(name, arguments={"x-expires": expires})
    assert caught.value.reply_code == 406
    assert (
        caught.value.reply_text
        == f"PRECONDITION_FAILED - invalid arg 'x-expires' for queue '{name}' in vhost '/': {why}"
    )


def test_another_time_is_another_queue(broker: AmqpBroker, channel: BlockingChannel, queue: str) -> None:  # noqa: F811 - as above
    channel.queue_declare(queue + "-x", arguments={"x-expires": HOUR_MS})
    channel.queue_declare(queue + "-x", arguments={"x-expires": HOUR_MS})
    for name, arguments, said in (
        (queue + "-x", {"x-expires": 5}, "received '5' but current is '3600000'"),
        (queue + "-x", {}, "received none but current is the value '3600000' of type 'signedint'"),
        (queue, {"x-expires": 5}, "received the value '5' of type 'signedint' but current is none"),
    ):
        with connected(broker) as connection, pytest.raises(ChannelClosedByBroker) as caught:
            connection.channel().queue_declare(name, arguments=arguments)
        text = f"PRECONDITION_FAILED - inequivalent arg 'x-expires' for queue '{name}' in vhost '/': {said}"
        assert (caught.value.reply_code, caught.value.reply_text) == (406, text)


def test_a_consumer_keeps_it_and_what_uses_it_gives_it_all_its_time_again() -> None:
    with HostedBroker(amqp="127.0.0.1:0") as hosted:
        assert hosted._broker is not None
        host, port = hosted._broker.addresses("amqp")[0]
        with pika.BlockingConnection(pika.ConnectionParameters(host, port, heartbeat=0)) as connection:
            channel = connection.channel()

            def is_there(name: str = "q") -> bool:
                looks = connection.channel()
                try:
                    looks.queue_declare(name, passive=True)
                except ChannelClosedByBroker as error:
                    if error.reply_code != NOT_FOUND:
                        raise
                    return False
                looks.close()
                return True

            def declared() -> None:
                channel.queue_declare("q", arguments={"x-expires": HOUR_MS})

            declared()
            tag = channel.basic_consume("q", lambda *_: None)
            hosted.advance(2 * 3600)
            assert is_there()
            channel.basic_cancel(tag)
            for uses in (declared, is_there, lambda: channel.basic_get("q")):
                hosted.advance(3599)
                uses()
            channel.confirm_delivery()
            channel.basic_publish("", "q", b"it does not keep it")
            hosted.advance(3599)
            # It is no use of the queue to look at it from outside.
            assert hosted.figures("q")["ready"] == 1
            hosted.advance(2)
            assert not is_there()
            # What is published there from now on has nowhere to go.
            with pytest.raises(pika.exceptions.UnroutableError):
                channel.basic_publish("", "q", b"lost", mandatory=True)
