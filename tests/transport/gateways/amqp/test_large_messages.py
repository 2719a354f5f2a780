"""Messages that no frame of a native client carries: over AMQP they come and go whole, and who cannot have one is told which."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.peers import lasting
from tests.transport.gateways.amqp.raw_amqp import RawClient
from tests.transport.gateways.amqp.test_pika import SECONDS, channel, connected  # noqa: F401 - a fixture
from transport.clients.subscription_client import SubscriptionClient
from transport.errors import BrokerError
from transport.gateways.amqp import basic_methods as basic
from transport.testing import HostedBroker
from transport.wire.frames import MAX_BODY_BYTES

Named = Callable[[str], str]
LARGE = 17 << 20
"""Bytes: a frame has less."""


def large(number: int = 0, size: int = LARGE) -> bytes:
    """A message in which a part that is lost, or comes twice, is noticed."""
    part = b"".join(b"%015d\n" % (each + number) for each in range(1 << 12))
    return (part * (size // len(part) + 1))[:size]


def first_of(channel: BlockingChannel, queue: str) -> bytes:  # noqa: F811 - as above
    """The first message that a consumer gets; it is not settled."""
    for _, _, body in channel.consume(queue, inactivity_timeout=SECONDS):
        channel.cancel()
        assert body is not None, "none came in time"
        return body
    raise AssertionError("the consumer was cancelled")


def test_they_are_confirmed_and_come_whole_to_consumers_and_getters_of_each_queue_through_a_restart(
    tmp_path: Path,
) -> None:
    sent = large(1)
    with lasting(tmp_path / "data") as broker:
        with connected(broker.running) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for queue in ("one", "other"):
                channel.queue_declare(queue, durable=True)
                channel.queue_bind(queue, "amq.fanout")
            properties = pika.BasicProperties(headers={"n": 1}, delivery_mode=2)
            # One record, with a message behind it and one before.
            channel.basic_publish("", "one", b"before")
            channel.basic_publish("amq.fanout", "", sent, properties, mandatory=True)
            channel.basic_publish("", "other", b"behind")
            assert channel.basic_get("one", auto_ack=True)[2] == b"before"
            _, got, body = channel.basic_get("one")
            assert (body == sent, got.headers) == (True, {"n": 1})
            assert first_of(connection.channel(), "other") == sent
        broker.restart()
        with connected(broker.running) as connection:
            channel = connection.channel()
            method, _, body = channel.basic_get("one")
            assert (body == sent, method.redelivered) == (True, True)
            channel.basic_ack(method.delivery_tag)
            bodies = [body for _, _, body in (channel.basic_get("other", auto_ack=True) for _ in range(2))]
            assert (bodies[0] == sent, bodies[1]) == (True, b"behind")
            assert channel.basic_get("one")[0] is None
        broker.kill()
        words = [sys.executable, "-m", "transport.cli", "journal", "verify", str(tmp_path / "data")]
        done = subprocess.run(words, capture_output=True, check=False, text=True, timeout=SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr
        broker.start()


def test_a_refused_one_is_a_dead_letter_whole(broker: AmqpBroker, named: Named) -> None:
    queue, dead = named("q"), named("dead")
    with connected(broker) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(dead)
        to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
        channel.queue_declare(queue, arguments=to_dead)
        channel.basic_publish("", queue, large(2))
        method, _, _ = channel.basic_get(queue)
        channel.basic_reject(method.delivery_tag, requeue=False)
        assert first_of(connection.channel(), dead) == large(2)


def test_a_native_receiver_is_told_which_message_it_cannot_have_and_it_stays(
    broker: AmqpBroker,
    channel: BlockingChannel,  # noqa: F811 - as above
    named: Named,
) -> None:
    queue = named("q")
    channel.queue_declare(queue, arguments={"x-max-length": 5, "x-overflow": "reject-publish"})
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"small")
    channel.basic_publish("", queue, large(3))
    assert broker.run("receive", "--queue", queue, "--count", "1")[:2] == (0, b"small\n")
    code, out, said = broker.run("receive", "--queue", queue, "--count", "1")
    assert (code, out) == (1, b"")
    assert "frame-too-large" in said
    assert re.search(rf"message 1 of queue '{queue}' has 178\d+ bytes", said)
    assert f"more than the {MAX_BODY_BYTES} that fit a frame: it stays in the queue, and is received over AMQP" in said
    method, _, body = channel.basic_get(queue)
    assert body == large(3)
    channel.basic_nack(method.delivery_tag)
    assert channel.queue_declare(queue, passive=True).method.message_count == 1


def test_a_subscription_fails_at_one_or_leaves_it_out(
    broker: AmqpBroker,
    channel: BlockingChannel,  # noqa: F811 - as above
    named: Named,
) -> None:
    queue = named("q")
    channel.queue_declare(queue)
    channel.confirm_delivery()
    for body in (b"1", large(4), b"3"):
        channel.basic_publish("", queue, body)
    with SubscriptionClient(broker.receiving, queue=queue, subscription="s", mode="own") as owner:
        assert owner.reserve(0, 3, 1 << 30).end == 3
        epoch = owner.open().epoch
        with (
            SubscriptionClient(broker.receiving, queue=queue, subscription="s", mode="read", epoch=epoch) as reader,
            pytest.raises(BrokerError, match=f"message 1 of queue '{queue}' has") as caught,
        ):
            list(reader.fetch(0, 3))
        assert caught.value.code == "frame-too-large"
        with SubscriptionClient(
            broker.receiving, queue=queue, subscription="s", mode="read", epoch=epoch, skip_oversized=True
        ) as reader:
            assert [bytes(each.batch.payloads[0]) for each in reader.fetch(0, 3)] == [b"1", b"3"]
            assert list(reader.fetch(1, 2)) == []


def test_a_broker_may_be_told_to_take_less(named: Named) -> None:
    name = named("q")
    with AmqpBroker("--amqp-max-message-bytes", "1000") as broker, broker.drained(), connected(broker) as connection:
        channel, other = connection.channel(), connection.channel()
        channel.queue_declare(name)
        channel.basic_publish("", name, bytes(1000))

        def too_much() -> None:
            channel.basic_publish("", name, bytes(1001))
            channel.queue_declare(name, passive=True)

        with pytest.raises(ChannelClosedByBroker) as caught:
            too_much()
        text = "PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000"
        assert (caught.value.reply_code, caught.value.reply_text) == (406, text)
        assert other.queue_declare(name, passive=True).method.message_count == 1


def test_a_take_over_http_is_refused_with_its_name_and_it_stays_as_if_nobody_had_asked(named: Named) -> None:
    queue = named("q")
    with HostedBroker(amqp="127.0.0.1:0", http="127.0.0.1:0") as hosted:
        assert hosted._broker is not None
        host, port = hosted._broker.addresses("amqp")[0]
        with pika.BlockingConnection(pika.ConnectionParameters(host, port, heartbeat=0)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare(queue)
            channel.basic_publish("", queue, large(5))
            address = f"http://{hosted._broker.addresses('http')[0]}/api/v1/queues/{queue}/take"
            asks = Request(address, b'{"wait": 0}', {"Content-Type": "application/json"})
            with pytest.raises(HTTPError) as caught:
                urlopen(asks, timeout=SECONDS)
            problem = json.loads(caught.value.read())
            assert (caught.value.code, problem["code"]) == (413, "frame-too-large")
            assert problem["detail"].startswith(f"message 0 of queue '{queue}' has 178")
            figures = hosted.figures(queue)
            assert (figures["ready"], figures["total_out"]) == (1, 0)
            method, _, body = channel.basic_get(queue)
            assert (body == large(5), method.redelivered) == (True, False)


def test_a_broker_that_ends_writes_to_its_end_what_it_has_begun_to_write(named: Named) -> None:
    queue, sent = named("q"), large(6)
    with HostedBroker(amqp="127.0.0.1:0") as hosted:
        assert hosted._broker is not None
        host, port = hosted._broker.addresses("amqp")[0]
        with pika.BlockingConnection(pika.ConnectionParameters(host, port, heartbeat=0)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare(queue)
            channel.basic_publish("", queue, sent)
        with RawClient(port, receive_bytes=4_096) as client:
            client.say(basic.BasicConsume(queue=queue, no_ack=True))
            hosted.wait_until(queue, total_acknowledged=1)
            ends = Thread(target=hosted.stop)
            ends.start()
            client.expect(basic.BasicConsumeOk)
            assert client.content().body == sent
            ends.join(SECONDS)
            assert not ends.is_alive()
