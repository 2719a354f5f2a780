"""Clients that say things out of order, by halves, too often, or nothing at all: the right code, and nobody else notices."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.raw_amqp import (
    CLOSE,
    CLOSE_CHANNEL,
    HANDSHAKE,
    OPEN,
    SECONDS,
    RawClient,
    methods,
    published,
    start_ok,
    tune_ok,
)
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.layout import PROTOCOL_HEADER
from transport.gateways.amqp.negotiation import CHANNEL_MAX
from transport.gateways.amqp.tables import Table

Named = Callable[[str], str]
FULL = Table.of({"x-max-length": 10, "x-overflow": "block"})
CHANNEL = connection.ChannelOpen()


@pytest.fixture
def client(broker: AmqpBroker) -> Iterator[RawClient]:
    with RawClient(broker.port, opens=2) as connected:
        yield connected


def answers(port: int, *parts: bytes) -> bytes:
    """All that is answered to this, sent in these parts."""
    with RawClient(port, opens=None) as client:
        for part in parts:
            client.write(part)
        return client._file.read()


def session(queue: str) -> bytes:
    """A client's whole life. It asks for no confirms: when one comes among the other answers depends on turns of the loop."""
    said = (CHANNEL, entity.QueueDeclare(queue=queue))
    after = (
        entity.QueueDeclare(queue=queue, passive=True),
        basic.BasicGet(queue=queue, no_ack=True),
        basic.BasicGet(queue=queue, no_ack=True),
        entity.QueueDelete(queue=queue),
        CLOSE_CHANNEL,
    )
    return HANDSHAKE + methods(1, *said) + published(queue, b"body") + methods(1, *after) + methods(0, CLOSE)


def test_a_session_is_answered_the_same_wherever_it_is_cut(broker: AmqpBroker, named: Named) -> None:
    data = session(named("cut"))
    whole = answers(broker.port, data)
    assert whole.endswith(methods(0, connection.ConnectionCloseOk()))
    for at in range(1, len(data)):
        assert answers(broker.port, data[:at], data[at:]) == whole, at
    assert answers(broker.port, *(data[at : at + 1] for at in range(len(data)))) == whole


STARTED = PROTOCOL_HEADER + methods(0, start_ok())
TUNED = STARTED + methods(0, tune_ok())
OUT_OF_ORDER = [
    ("tune-ok first", PROTOCOL_HEADER + methods(0, tune_ok()), 504),
    ("open first", PROTOCOL_HEADER + methods(0, OPEN), 504),
    ("channel first", PROTOCOL_HEADER + methods(1, CHANNEL), 504),
    ("open before tune-ok", STARTED + methods(0, OPEN), 504),
    ("channel before tune-ok", STARTED + methods(1, CHANNEL), 504),
    ("start-ok again", STARTED + methods(0, start_ok()), 504),
    ("channel before open", TUNED + methods(1, CHANNEL), 504),
    ("tune-ok again", TUNED + methods(0, tune_ok()), 504),
    ("open again", HANDSHAKE + methods(0, OPEN), 504),
    ("start-ok when open", HANDSHAKE + methods(0, start_ok()), 504),
    ("a server's method", HANDSHAKE + methods(0, connection.ConnectionOpenOk()), 504),
    ("declare on channel 0", HANDSHAKE + methods(0, entity.QueueDeclare(queue="q")), 504),
    ("publish on channel 0", HANDSHAKE + published("q", channel=0), 504),
    ("ack on channel 0", HANDSHAKE + methods(0, basic.BasicAck(delivery_tag=1)), 504),
    ("channel 0 opened", HANDSHAKE + methods(0, CHANNEL), 504),
    ("declare on no channel", HANDSHAKE + methods(1, entity.QueueDeclare(queue="q")), 504),
    ("ack on no channel", HANDSHAKE + methods(1, basic.BasicAck(delivery_tag=1)), 504),
    ("publish on no channel", HANDSHAKE + published("q"), 504),
    ("close of no channel", HANDSHAKE + methods(1, CLOSE_CHANNEL), 504),
    ("channel opened twice", HANDSHAKE + methods(1, CHANNEL, CHANNEL), 504),
    ("channel closed twice", HANDSHAKE + methods(1, CHANNEL, CLOSE_CHANNEL, CLOSE_CHANNEL), 504),
    ("publish on a closed channel", HANDSHAKE + methods(1, CHANNEL, CLOSE_CHANNEL) + published("q"), 504),
    (
        "an answer nobody asked for",
        HANDSHAKE + methods(1, CHANNEL, entity.QueueDeclareOk(queue="q", message_count=0, consumer_count=0)),
        503,
    ),
    ("a method in a content", HANDSHAKE + methods(1, CHANNEL) + published("q")[:-20] + methods(1, CHANNEL), 501),
    ("a channel above the limit", HANDSHAKE + methods(CHANNEL_MAX + 1, CHANNEL), 530),
    ("frames that are larger than agreed", HANDSHAKE + b"\x01\0\0\x7f\xff\xff\xff", 501),
]


@pytest.mark.parametrize(("said", "code"), [pytest.param(*case[1:], id=case[0]) for case in OUT_OF_ORDER])
def test_what_is_not_its_time_ends_the_connection_with_a_code(broker: AmqpBroker, said: bytes, code: int) -> None:
    with RawClient(broker.port, opens=None) as client:
        client.write(said)
        assert client.ended()[-1].reply_code == code


def test_what_is_wrong_behind_a_good_message_is_told_though_nothing_more_comes(client: RawClient, named: Named) -> None:
    queue = client.declare(named("q")).queue
    client.write(published(queue))
    assert client.ready(queue) == 1
    client.write(published(queue) + published(queue, properties=b"\x80\0"))
    assert client.ended()[-1].reply_code == 502


def test_what_comes_on_a_channel_that_was_told_to_close_is_passed_over(client: RawClient, named: Named) -> None:
    queue = client.declare(named("q")).queue
    client.say(basic.BasicGet(queue=queue + "-nowhere"))
    client.write(
        published(queue) + methods(1, basic.BasicAck(delivery_tag=9), CHANNEL, entity.QueueDelete(queue=queue))
    )
    assert client.expect(connection.ChannelClose, 1).reply_code == 404
    client.write(methods(1, CLOSE_CHANNEL, connection.ChannelCloseOk(), CHANNEL))
    client.expect(connection.ChannelCloseOk, 1)
    client.expect(connection.ChannelOpenOk, 1)
    assert client.ready(queue) == 0


def test_as_many_channels_as_agreed_are_open_and_publish_and_one_more_ends_the_connection(
    broker: AmqpBroker, named: Named
) -> None:
    with RawClient(broker.port, opens=CHANNEL_MAX) as client:
        queue = client.declare(named("all")).queue
        numbers = range(1, CHANNEL_MAX + 1)
        client.write(b"".join(methods(number, basic.ConfirmSelect(nowait=True)) for number in numbers))
        client.write(b"".join(published(queue, channel=number) for number in numbers))
        for _ in numbers:
            client.expect(basic.BasicAck)
        assert client.ready(queue, 7) == CHANNEL_MAX
        client.say(CHANNEL, channel=CHANNEL_MAX + 1)
        client.ended(530)


@pytest.mark.parametrize("tag", [0, 2, 2**63, 2**64 - 1])
@pytest.mark.parametrize("multiple", [False, True])
def test_a_tag_that_was_never_given_closes_its_channel(
    client: RawClient, named: Named, tag: int, multiple: bool
) -> None:
    queue = client.declare(named("q")).queue
    client.write(published(queue))
    client.ready(queue)
    client.say(basic.BasicGet(queue=queue))
    assert client.content().method.delivery_tag == 1
    client.say(basic.BasicAck(delivery_tag=tag, multiple=multiple))
    if tag == 0 and multiple:
        assert client.declare(queue, 1, passive=True).message_count == 0
        client.say(basic.BasicAck(delivery_tag=1))
        tag = 1
    said = client.expect(connection.ChannelClose, 1)
    assert (said.reply_code, said.reply_text) == (406, f"PRECONDITION_FAILED - unknown delivery tag {tag}")


@pytest.mark.parametrize("cut", [methods(1, CLOSE_CHANNEL), methods(0, CLOSE), b""])
@pytest.mark.parametrize("left", [1, 5, 25, 40])
def test_a_publish_that_is_cut_is_no_message(
    broker: AmqpBroker, client: RawClient, named: Named, cut: bytes, left: int
) -> None:
    queue = client.declare(named("q")).queue
    with RawClient(broker.port) as cutting:
        whole = published(queue, b"x" * 30)
        at = len(whole) - left
        cutting.write(whole[:at] + cut)
        cutting.socket.shutdown(1)
        cutting.ended()
    assert client.ready(queue) == 0


def test_one_that_publishes_into_a_full_queue_and_consumes_it_goes_on(client: RawClient, named: Named) -> None:
    """Its acknowledgements make the room that its publishes wait for: they are read all the same."""
    queue = client.declare(named("full"), arguments=FULL).queue
    client.ask(basic.BasicQos(prefetch_count=1), basic.BasicQosOk, 2)
    client.ask(basic.BasicConsume(queue=queue), basic.BasicConsumeOk, 2)
    client.write(published(queue, b"x" * 500) * 1_000)
    for number in range(1, 1_001):
        assert client.content().method.delivery_tag == number
        client.say(basic.BasicAck(delivery_tag=number), channel=2)


def test_consumers_that_never_read_leave_the_queue_what_it_has(
    broker: AmqpBroker, client: RawClient, named: Named
) -> None:
    queue = client.declare(named("deaf")).queue
    for _ in range(4):
        client.write(published(queue, b"x" * 10_000) * 1_000)
    assert client.ready(queue) == 4_000
    with RawClient(broker.port, receive_bytes=8_192) as deaf:
        said = (basic.BasicConsume(queue=queue, consumer_tag=str(number), nowait=True) for number in range(500))
        deaf.say(*said, entity.QueueDeclare(queue=queue, passive=True))
        broker.until(queue, lambda row: row["in_flight"] > 0)
        # 4 MiB for the first, half of it for the second...: 28 MiB and a message each, and what the sockets hold.
        assert client.ready(queue) > 0
    broker.until(queue, lambda row: row["in_flight"] == 0)
    assert client.ready(queue) == 4_000


def test_a_broker_that_stops_stores_and_confirms_what_it_has_read_and_tells_its_clients(tmp_path: Path) -> None:
    with (
        AmqpBroker("--data", str(tmp_path), "--no-http") as broker,
        RawClient(broker.port, opens=2) as client,
        RawClient(broker.port) as full,
        RawClient(broker.port) as idle,
    ):
        client.declare("orders", durable=True)
        client.ask(basic.ConfirmSelect(), basic.ConfirmSelectOk)
        client.ask(basic.BasicConsume(queue="orders"), basic.BasicConsumeOk, 2)
        full.declare("full", arguments=FULL, durable=True)
        full.ask(basic.ConfirmSelect(), basic.ConfirmSelectOk)
        full.write(published("full", b"x" * 1_000) * 2_000)
        client.write(published("orders") * 2_000)
        assert client.frame() is not None
        broker.process.send_signal(signal.SIGTERM)
        said = client.ended(320)
        confirmed = max((each.delivery_tag for each in said if isinstance(each, basic.BasicAck)), default=0)
        idle.ended(320)
        said = full.ended(320)
        kept = max((each.delivery_tag for each in said if isinstance(each, basic.BasicAck)), default=0)
        for each in (client, full, idle):
            each.__exit__()
        assert broker.process.wait(SECONDS) == 0
    with AmqpBroker("--data", str(tmp_path), "--no-http") as broker, RawClient(broker.port) as client:
        assert client.ready("orders") >= confirmed
        assert client.ready("full") >= kept
