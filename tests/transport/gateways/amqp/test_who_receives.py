"""Who receives over AMQP: single active consumers, and consumers of different priorities, with pika as it is."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.raw_amqp import CLOSE, CLOSE_CHANNEL, RawClient
from tests.transport.gateways.amqp.test_pika import Named, connected
from tests.transport.gateways.amqp.test_shown_connections import asked
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp.tables import Table

SECONDS = 10.0
SINGLE = {"x-single-active-consumer": True}


class Consumers:
    """Channels of one connection with a consumer each, and what came to each, in order."""

    def __init__(self, connection: pika.BlockingConnection) -> None:
        self.connection = connection
        self.channels: dict[str, BlockingChannel] = {}
        self.came: list[tuple[str, bytes, bool]] = []
        self.tags: dict[str, int] = {}
        self.seen = 0

    def begin(
        self, name: str, queue: str, priority: int | None = None, prefetch: int = 1, channel: str | None = None
    ) -> None:
        if channel is None:
            self.channels[name] = self.connection.channel()
            self.channels[name].basic_qos(prefetch_count=prefetch)
        else:
            self.channels[name] = self.channels[channel]
        arguments = None if priority is None else {"x-priority": priority}
        self.channels[name].basic_consume(queue, self._noting(name), consumer_tag=name, arguments=arguments)

    def _noting(self, name: str) -> Callable[..., None]:
        def note(_channel: Any, method: Any, _properties: Any, body: bytes) -> None:
            self.came.append((name, body, method.redelivered))
            self.tags[name] = method.delivery_tag

        return note

    def heard(self, *expected: tuple[str, bytes, bool]) -> bool:
        """Whether just these have come since the last time, those of each in order; what would come besides had its time."""
        deadline = time.monotonic() + SECONDS
        while len(self.came) - self.seen < len(expected) and time.monotonic() < deadline:
            self.connection.process_data_events(0.05)
        # Behind the answer to this there is nothing more under way: it is of a channel of its own, and of the same loop.
        for channel in {id(each): each for each in self.channels.values() if each.is_open}.values():
            channel.basic_qos(prefetch_count=1)
        self.connection.process_data_events(0)
        new, self.seen = self.came[self.seen :], len(self.came)
        assert sorted(new, key=lambda each: each[0]) == sorted(expected, key=lambda each: each[0])
        return True

    def settle(self, name: str) -> None:
        self.channels[name].basic_ack(self.tags[name])


@contextmanager
def consumers(broker: AmqpBroker, **parameters: Any) -> Iterator[Consumers]:
    with connected(broker, **parameters) as connection:
        yield Consumers(connection)


@pytest.fixture
def channel(broker: AmqpBroker) -> Iterator[BlockingChannel]:
    with connected(broker) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel


@pytest.fixture
def single(channel: BlockingChannel, named: Named) -> str:
    return channel.queue_declare(named("single"), durable=True, arguments=SINGLE).method.queue


def publish(channel: BlockingChannel, queue: str, *bodies: bytes) -> None:
    for body in bodies:
        channel.basic_publish("", queue, body)


def row_of(broker: AmqpBroker, queue: str) -> dict[str, Any]:
    return asked(broker, lambda client: client.queue(queue))  # type: ignore[no-any-return]


def test_the_first_consumer_gets_everything_and_all_of_them_are_counted(
    broker: AmqpBroker, channel: BlockingChannel, single: str
) -> None:
    with consumers(broker) as some:
        for name in "abc":
            some.begin(name, single)
        publish(channel, single, b"1", b"2")
        assert some.heard(("a", b"1", False))
        some.settle("a")
        assert some.heard(("a", b"2", False))
        assert channel.queue_declare(single, passive=True).method.consumer_count == 3


def test_behind_a_cancel_the_next_goes_on_and_what_the_first_holds_it_may_still_settle(
    broker: AmqpBroker, channel: BlockingChannel, single: str
) -> None:
    with consumers(broker) as some:
        for name in "ab":
            some.begin(name, single)
        publish(channel, single, b"1", b"2", b"3")
        assert some.heard(("a", b"1", False))
        some.channels["a"].basic_cancel("a")
        assert some.heard(("b", b"2", False))
        some.channels["a"].basic_nack(some.tags["a"], requeue=True)
        some.settle("b")
        assert some.heard(("b", b"1", True))
        some.settle("b")
        assert some.heard(("b", b"3", False))
        some.settle("b")
    assert row_of(broker, single)["stored_messages"] == 0


def consume(client: RawClient, queue: str, tag: str, channel: int = 1, priority: int = 0) -> None:
    client.ask(basic.BasicQos(prefetch_count=1), basic.BasicQosOk, channel)
    arguments = Table.of({"x-priority": priority} if priority else {})
    said = basic.BasicConsume(queue=queue, consumer_tag=tag, arguments=arguments)
    client.ask(said, basic.BasicConsumeOk, channel)


def delivery(client: RawClient) -> tuple[str, bytes, bool]:
    content = client.content()
    assert isinstance(content.method, basic.BasicDeliver)
    return content.method.consumer_tag, content.body, content.method.redelivered


def test_when_the_active_one_goes_with_its_channel_the_next_has_what_it_held_first(
    broker: AmqpBroker, channel: BlockingChannel, single: str
) -> None:
    with RawClient(broker.port, opens=2) as first, RawClient(broker.port) as second:
        consume(first, single, "a")
        consume(first, single, "b", channel=2)
        consume(second, single, "c")
        publish(channel, single, b"1", b"2")
        assert delivery(first) == ("a", b"1", False)
        first.say(CLOSE_CHANNEL)
        first.expect(connection.ChannelCloseOk, 1)
        assert delivery(first) == ("b", b"1", True)
        first.say(basic.BasicAck(delivery_tag=1), channel=2)
        assert delivery(first) == ("b", b"2", False)
        first.say(CLOSE_CHANNEL, channel=2)
        first.expect(connection.ChannelCloseOk, 2)
        assert delivery(second) == ("c", b"2", True)


@pytest.mark.parametrize("how", ["channel", "connection", "lost"])
def test_nobody_is_active_for_a_moment_who_goes_with_the_same_channel(
    broker: AmqpBroker, channel: BlockingChannel, single: str, how: str
) -> None:
    with RawClient(broker.port) as first, RawClient(broker.port) as second:
        consume(first, single, "a")
        consume(first, single, "b")
        consume(first, single, "low", priority=-1)
        consume(second, single, "c", priority=-5)
        publish(channel, single, b"1")
        assert delivery(first) == ("a", b"1", False)
        if how == "lost":
            first.socket.shutdown(socket.SHUT_RDWR)
        else:
            first.say(*([CLOSE_CHANNEL] if how == "channel" else []))
            first.say(*([CLOSE] if how == "connection" else []), channel=0)
        assert delivery(second) == ("c", b"1", True)
        assert row_of(broker, single)["total_out"] == 2


def test_of_those_who_wait_the_highest_priority_is_next_and_has_the_queue_as_soon_as_nothing_is_held(
    broker: AmqpBroker, channel: BlockingChannel, single: str
) -> None:
    with consumers(broker) as some:
        some.begin("a", single)
        some.begin("b", single)
        publish(channel, single, b"1", b"2", b"3")
        assert some.heard(("a", b"1", False))
        some.begin("high", single, priority=7)
        assert some.heard()
        some.settle("a")
        assert some.heard(("high", b"2", False))
        some.channels["high"].basic_cancel("high")
        assert some.heard(("a", b"3", False))


def test_a_consumer_cannot_have_it_for_itself(channel: BlockingChannel, single: str) -> None:
    with pytest.raises(
        ChannelClosedByBroker, match=rf"ACCESS_REFUSED - queue '{single}' in vhost '/' in exclusive use"
    ):
        channel.basic_consume(single, lambda *_: None, exclusive=True)


def test_single_messages_are_got_beside_the_active_consumer(
    broker: AmqpBroker, channel: BlockingChannel, single: str
) -> None:
    with consumers(broker) as some:
        some.begin("a", single)
        publish(channel, single, b"1", b"2")
        assert some.heard(("a", b"1", False))
        method, _, body = channel.basic_get(single)
        assert body == b"2"
        channel.basic_nack(method.delivery_tag)
        some.settle("a")
        assert some.heard(("a", b"2", True))
    with consumers(broker) as others:
        # Who holds what it got is no consumer, and in nobody's way.
        assert channel.basic_get(single)[2] == b"2"
        others.begin("b", single)
        publish(channel, single, b"3")
        assert others.heard(("b", b"3", False))


@pytest.mark.parametrize(("value", "kind"), [(1, "signedint"), ("true", "longstr"), (None, "void")])
def test_what_is_no_truth_is_refused(channel: BlockingChannel, named: Named, value: Any, kind: str) -> None:
    queue = named("wrong")
    text = rf"invalid arg 'x-single-active-consumer' for queue '{queue}' in vhost '/': {{unacceptable_type,{kind}}}"
    with pytest.raises(ChannelClosedByBroker, match=text):
        channel.queue_declare(queue, arguments={"x-single-active-consumer": value})


@pytest.mark.parametrize(
    ("there", "again", "text"),
    [
        ({"x-single-active-consumer": True}, {}, "received none but current is the value 'true' of type 'bool'"),
        ({"x-single-active-consumer": False}, {}, "received none but current is the value 'false' of type 'bool'"),
        (
            {"x-single-active-consumer": True},
            {"x-single-active-consumer": False},
            "received 'false' but current is 'true'",
        ),
        ({}, {"x-single-active-consumer": True}, "received the value 'true' of type 'bool' but current is none"),
    ],
)
def test_a_queue_is_not_made_one_with_a_single_active_consumer_by_being_declared_again(
    channel: BlockingChannel, named: Named, there: dict[str, Any], again: dict[str, Any], text: str
) -> None:
    queue = named("again")
    channel.queue_declare(queue, arguments=there)
    channel.queue_declare(queue, arguments=there)
    with pytest.raises(ChannelClosedByBroker, match=f"inequivalent arg 'x-single-active-consumer' for .*: {text}"):
        channel.queue_declare(queue, arguments=again)


def test_a_queue_that_was_declared_natively_is_the_same(
    broker: AmqpBroker, channel: BlockingChannel, named: Named
) -> None:
    queue = named("native")
    code, _, said = broker.run(
        "queue", "create", queue, "--single-active-consumer", "--max-messages", "none", "--max-bytes", "none"
    )
    assert code == 0, said
    channel.queue_declare(queue, durable=True, arguments=SINGLE)
    with pytest.raises(ChannelClosedByBroker, match="received none but current is 'true'"):
        channel.queue_declare(queue, durable=True)


def test_a_consumer_and_a_native_receiver_stand_in_one_line(
    broker: AmqpBroker, channel: BlockingChannel, single: str
) -> None:
    with consumers(broker) as some:
        some.begin("a", single)
        publish(channel, single, b"1")
        assert some.heard(("a", b"1", False))
        code, out, said = broker.run("receive", "--queue", single, "--idle-exit", "300ms")
        assert (code, out) == (0, b""), said
        some.channels.pop("a").close()
    code, out, said = broker.run("receive", "--queue", single, "--count", "1")
    assert (code, out) == (0, b"1\n"), said


def test_messages_go_to_the_highest_priority_that_has_room(
    broker: AmqpBroker, channel: BlockingChannel, named: Named
) -> None:
    queue = channel.queue_declare(named("ranked")).method.queue
    with consumers(broker) as some:
        for name, priority in (("low", -3), ("usual", None), ("high", 2**62)):
            some.begin(name, queue, priority)
        publish(channel, queue, b"1", b"2", b"3", b"4")
        assert some.heard(("high", b"1", False), ("usual", b"2", False), ("low", b"3", False))
        some.settle("low")
        assert some.heard(("low", b"4", False))
        for name in ("low", "high"):
            some.settle(name)
        publish(channel, queue, b"5", b"6")
        assert some.heard(("high", b"5", False), ("low", b"6", False))
        some.channels["high"].basic_cancel("high")
        some.settle("usual")
        publish(channel, queue, b"7")
        assert some.heard(("usual", b"7", False))


@pytest.mark.parametrize("how", ["nack", "reject", "recover"])
def test_what_a_consumer_gives_back_it_gets_again_before_those_of_a_lower_priority(
    broker: AmqpBroker, channel: BlockingChannel, named: Named, how: str
) -> None:
    queue = channel.queue_declare(named("ranked")).method.queue
    with consumers(broker) as some:
        some.begin("low", queue)
        some.begin("high", queue, 1)
        publish(channel, queue, b"1")
        assert some.heard(("high", b"1", False))
        its = some.channels["high"]
        if how == "recover":
            its.basic_recover(requeue=True)
        else:
            (its.basic_nack if how == "nack" else its.basic_reject)(some.tags["high"], requeue=True)
        assert some.heard(("high", b"1", True))
        publish(channel, queue, b"2", b"3")
        assert some.heard(("low", b"2", False))
        some.settle("high")
        assert some.heard(("high", b"3", False))


@pytest.mark.parametrize(("value", "kind"), [("high", "longstr"), (True, "bool"), (None, "void"), ([1], "array")])
def test_a_priority_that_is_no_integer_is_refused(
    channel: BlockingChannel, named: Named, value: Any, kind: str
) -> None:
    queue = channel.queue_declare(named("ranked")).method.queue
    text = f"PRECONDITION_FAILED - invalid arg 'x-priority' for queue '{queue}' in vhost '/': \"expected integer, got {kind}\""
    with pytest.raises(ChannelClosedByBroker) as raised:
        channel.basic_consume(queue, lambda *_: None, arguments={"x-priority": value})
    assert raised.value.reply_text == text


def test_a_queue_that_is_not_there_is_told_before_a_priority_that_cannot_be(
    channel: BlockingChannel, named: Named
) -> None:
    with pytest.raises(ChannelClosedByBroker, match="NOT_FOUND"):
        channel.basic_consume(named("nowhere"), lambda *_: None, arguments={"x-priority": "high"})


def test_who_is_active_who_waits_and_with_which_priority_is_shown(
    broker: AmqpBroker, channel: BlockingChannel, single: str, named: Named
) -> None:
    one, other = named("one"), named("other")
    with (
        consumers(broker, client_properties={"connection_name": one}) as first,
        consumers(broker, client_properties={"connection_name": other}) as second,
    ):
        first.begin("a", single, priority=3)
        second.begin("b", single, priority=2)
        second.begin("c", single)
        rows = {row["client_id"]: row for row in asked(broker, lambda client: client.connections())}
        assert [(rows[name]["in_line"], rows[name]["priority"]) for name in (one, other)] == [(0, 3), (2, 2)]
        row = row_of(broker, single)
        assert (row["active"], row["single_active_consumer"]) == (rows[one]["id"], True)
        code, out, said = broker.run("queue", "show", single)
        assert code == 0, said
        line = f"single active consumer: 2 receivers wait in line behind connection {rows[one]['id']}"
        assert line in out.decode()
        code, out, said = broker.run("connection", "list", "--wide")
        assert code == 0, said
        assert "in line" in out.decode().splitlines()[1]
