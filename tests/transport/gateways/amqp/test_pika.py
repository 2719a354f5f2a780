"""pika, unchanged: what its users do with RabbitMQ they do with the broker (docs/amqp.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    NackError,
    ProbableAccessDeniedError,
    UnroutableError,
)

from tests.transport.gateways.amqp.conftest import AmqpBroker
from transport.gateways.amqp.contents import MAX_MESSAGE_BYTES
from transport.wire.frames import MAX_BODY_BYTES

Named = Callable[[str], str]
NATIVE_BYTES = MAX_BODY_BYTES - (256 << 10)
"""Of a body that fits a native frame, with its key and its properties."""
SECONDS = 30


@contextmanager
def connected(broker: AmqpBroker, **parameters: Any) -> Iterator[pika.BlockingConnection]:
    """A connection that is closed when it is over, if nobody has."""
    connection = pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", broker.port, blocked_connection_timeout=SECONDS, **parameters)
    )
    try:
        yield connection
    finally:
        if connection.is_open:
            connection.close()


@pytest.fixture
def channel(broker: AmqpBroker) -> Iterator[BlockingChannel]:
    with connected(broker) as connection:
        yield connection.channel()


@pytest.fixture
def queue(channel: BlockingChannel, named: Named) -> str:
    return channel.queue_declare(named("orders")).method.queue


def bodies(channel: BlockingChannel, queue: str, most: int = 100) -> list[bytes]:
    """What is ready in a queue, taken out."""
    found = []
    while len(found) < most:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append(body)
    return found


def consumed(channel: BlockingChannel, queue: str, number: int, **options: Any) -> list[tuple[Any, Any, bytes]]:
    """So many deliveries; none is settled."""
    found = []
    for method, properties, body in channel.consume(queue, inactivity_timeout=SECONDS, **options):
        assert method is not None, f"{len(found)} came, {number} were to come"
        found.append((method, properties, body))
        if len(found) == number:
            return found
    raise AssertionError("the consumer is cancelled")


def test_what_is_published_is_got_with_all_its_properties(channel: BlockingChannel, queue: str) -> None:
    sent = pika.BasicProperties(
        content_type="application/json",
        content_encoding="utf-8",
        headers={"n": 1, "t": True, "s": "text", "deep": {"list": [1, "x", None]}, "b": b"\xff\x00"},
        delivery_mode=2,
        priority=3,
        correlation_id="c-1",
        reply_to="answers",
        message_id="m-1",
        timestamp=1_700_000_000,
        type="kind",
        app_id="shop",
    )
    channel.basic_publish("", queue, b"hello", sent)
    channel.basic_publish("", queue, b"")
    method, properties, body = channel.basic_get(queue)
    assert (method.exchange, method.routing_key, method.redelivered, method.message_count) == ("", queue, False, 1)
    assert body == b"hello"
    assert properties == sent
    assert channel.basic_get(queue)[1:] == (pika.BasicProperties(), b"")
    assert channel.basic_get(queue) == (None, None, None)


def test_a_message_of_several_frames_comes_in_one_piece(channel: BlockingChannel, queue: str) -> None:
    large = bytes(range(256)) * 4_096
    channel.basic_publish("", queue, large)
    assert bodies(channel, queue) == [large]


def test_a_message_that_is_announced_too_large_is_refused_at_its_header(
    broker: AmqpBroker, channel: BlockingChannel, queue: str
) -> None:
    channel.basic_publish("", queue, bytes(NATIVE_BYTES))
    assert channel.queue_declare(queue, passive=True).method.message_count == 1
    code, out, said = broker.run("receive", "--queue", queue, "--count", "1", "--length-prefixed")
    assert (code, len(out)) == (0, 4 + NATIVE_BYTES), said

    def publish_too_much() -> None:
        # Announced, and never sent: its frame is what pika would write.
        header = pika.frame.Header(channel.channel_number, MAX_MESSAGE_BYTES + 1, pika.BasicProperties())
        method = pika.frame.Method(channel.channel_number, pika.spec.Basic.Publish(routing_key=queue))
        channel._impl.connection._output_marshaled_frames([method.marshal(), header.marshal()])
        channel.queue_declare(queue, passive=True)

    with pytest.raises(ChannelClosedByBroker) as caught:
        publish_too_much()
    sizes = f"message size {MAX_MESSAGE_BYTES + 1} is larger than configured max size {MAX_MESSAGE_BYTES}"
    assert (caught.value.reply_code, caught.value.reply_text) == (406, f"PRECONDITION_FAILED - {sizes}")
    # The connection lives on.
    assert channel.connection.channel().queue_declare(queue, passive=True).method.message_count == 0


def test_publishes_are_confirmed_and_what_no_queue_takes_comes_back(channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"stored", mandatory=True)
    channel.basic_publish("", queue + "-nowhere", b"lost, and nobody asked")
    with pytest.raises(UnroutableError) as caught:
        channel.basic_publish("", queue + "-nowhere", b"lost", pika.BasicProperties(message_id="7"), mandatory=True)
    (back,) = caught.value.messages
    assert (back.method.reply_code, back.method.reply_text) == (312, "NO_ROUTE")
    assert (back.method.exchange, back.method.routing_key) == ("", queue + "-nowhere")
    assert (back.body, back.properties.message_id) == (b"lost", "7")
    assert bodies(channel, queue) == [b"stored"]


def test_a_queue_that_rejects_what_is_too_much_says_so_to_each_message(channel: BlockingChannel, named: Named) -> None:
    name = named("small")
    channel.queue_declare(name, arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    channel.confirm_delivery()
    channel.basic_publish("", name, b"1")
    channel.basic_publish("", name, b"2")
    with pytest.raises(NackError):
        channel.basic_publish("", name, b"3")
    assert bodies(channel, name, most=1) == [b"1"]
    channel.basic_publish("", name, b"4")
    assert bodies(channel, name) == [b"2", b"4"]


def test_consumers_hold_as_many_as_their_prefetch_says_and_acknowledgements_bring_the_next(
    channel: BlockingChannel, queue: str
) -> None:
    for number in range(10):
        channel.basic_publish("", queue, b"%d" % number)
    channel.basic_qos(prefetch_count=3)
    found: list[tuple[int, bytes]] = []
    channel.basic_consume(
        queue, lambda _c, method, _p, body: found.append((method.delivery_tag, body)), consumer_tag="c"
    )
    while len(found) < 3:
        channel.connection.process_data_events(SECONDS)
    assert channel.queue_declare(queue, passive=True).method.message_count == 7
    channel.basic_ack(2, multiple=True)
    while len(found) < 5:
        channel.connection.process_data_events(SECONDS)
    assert channel.queue_declare(queue, passive=True).method.message_count == 5
    assert found == [(number + 1, b"%d" % number) for number in range(5)]
    assert channel.queue_declare(queue, passive=True).method.consumer_count == 1
    channel.basic_cancel("c")
    channel.basic_ack(0, multiple=True)
    assert bodies(channel, queue) == [b"%d" % number for number in range(5, 10)]


def test_prefetch_that_changes_holds_for_consumers_that_run(channel: BlockingChannel, queue: str) -> None:
    for number in range(20):
        channel.basic_publish("", queue, b"%d" % number)
    found: list[int] = []
    channel.basic_qos(prefetch_count=2)
    channel.basic_consume(queue, lambda _c, method, _p, _b: found.append(method.delivery_tag))

    def until(number: int) -> None:
        while len(found) < number:
            channel.connection.process_data_events(SECONDS)
        # Behind this answer all would be here that had been sent before it.
        channel.queue_declare(queue, passive=True)
        channel.connection.process_data_events()
        assert len(found) == number

    until(2)
    channel.basic_qos(prefetch_count=5)
    until(5)
    channel.basic_qos(prefetch_count=3)
    channel.basic_ack(2, multiple=True)
    until(5)
    channel.basic_ack(4, multiple=True)
    until(7)
    channel.basic_qos(prefetch_count=0)
    until(20)
    channel.basic_qos(prefetch_count=1)
    channel.basic_nack(20, multiple=False, requeue=True)
    until(20)


def test_a_limit_for_the_whole_channel_is_shared_by_its_consumers(
    channel: BlockingChannel, queue: str, named: Named
) -> None:
    other = channel.queue_declare(named("others")).method.queue
    for number in range(4):
        channel.basic_publish("", queue, b"%d" % number)
        channel.basic_publish("", other, b"%d" % number)
    found: list[int] = []
    channel.basic_qos(prefetch_count=3, global_qos=True)
    for each in (queue, other):
        channel.basic_consume(each, lambda _c, method, _p, _b: found.append(method.delivery_tag))
    while len(found) < 3:
        channel.connection.process_data_events(SECONDS)
    # Behind this answer all would be here that had been sent before it.
    channel.queue_declare(queue, passive=True)
    channel.connection.process_data_events()
    assert found == [1, 2, 3]
    while len(found) < 8:
        channel.basic_ack(found[-1], multiple=True)
        channel.connection.process_data_events(SECONDS)
    assert found == list(range(1, 9))


def test_a_publisher_that_is_too_fast_for_its_queue_is_held_back_and_hears_why(
    broker: AmqpBroker, channel: BlockingChannel, named: Named
) -> None:
    name = named("full")
    channel.queue_declare(name, arguments={"x-max-length": 4, "x-overflow": "block"})
    said: list[str] = []
    with connected(broker) as connection:
        connection.add_on_connection_blocked_callback(lambda _, frame: said.append(frame.method.reason))
        connection.add_on_connection_unblocked_callback(lambda *_: said.append("unblocked"))
        publisher = connection.channel()
        # A little more than may wait: the rest is to fit the sockets, for pika goes on when all is written.
        for number in range(24):
            publisher.basic_publish("", name, b"%02d" % number + bytes(1 << 16))
        while not said:
            connection.process_data_events(SECONDS)
        assert "4 messages" in said[0]
        for taken, (method, _, body) in enumerate(channel.consume(name, inactivity_timeout=SECONDS)):
            assert body[:2] == b"%02d" % taken
            channel.basic_ack(method.delivery_tag)
            if taken == 23:
                break
        while said[-1] != "unblocked":
            connection.process_data_events(SECONDS)


def test_what_is_requeued_is_in_its_old_place_and_says_that_it_was_delivered(
    channel: BlockingChannel, queue: str
) -> None:
    for number in range(3):
        channel.basic_publish("", queue, b"%d" % number)
    taken = [channel.basic_get(queue)[0].delivery_tag for _ in range(3)]
    channel.basic_nack(taken[1], requeue=True)
    channel.basic_reject(taken[0], requeue=True)
    channel.basic_nack(taken[2], requeue=False)
    again = [channel.basic_get(queue) for _ in range(3)]
    assert [body for _, _, body in again] == [b"0", b"1", None]
    assert [method.redelivered for method, _, _ in again[:2]] == [True, True]


def test_recover_gives_all_back_that_is_not_settled(channel: BlockingChannel, queue: str) -> None:
    channel.basic_publish("", queue, b"a")
    channel.basic_get(queue)
    channel.basic_recover(requeue=True)
    method, _, body = channel.basic_get(queue)
    assert (method.redelivered, body) == (True, b"a")


def test_what_a_connection_holds_goes_back_when_it_ends(
    broker: AmqpBroker, channel: BlockingChannel, queue: str
) -> None:
    channel.basic_publish("", queue, b"a")
    with connected(broker) as other:
        assert consumed(other.channel(), queue, 1)[0][2] == b"a"
        assert channel.basic_get(queue) == (None, None, None)
    ((method, _, body),) = consumed(channel, queue, 1)
    assert (method.redelivered, body) == (True, b"a")


def test_messages_go_through_exchanges_of_each_kind(channel: BlockingChannel, queue: str, named: Named) -> None:
    for kind, key, matching, other in (
        ("direct", "k", "k", "j"),
        ("topic", "a.*.#", "a.b.c", "b"),
        ("fanout", "", "whatever", None),
    ):
        exchange = named(kind)
        channel.exchange_declare(exchange, kind)
        channel.queue_bind(queue, exchange, key)
        channel.basic_publish(exchange, matching, b"one")
        if other is not None:
            channel.basic_publish(exchange, other, b"none")
        method, _, body = channel.basic_get(queue, auto_ack=True)
        assert (method.exchange, method.routing_key, body) == (exchange, matching, b"one")
        assert bodies(channel, queue) == []
        channel.queue_unbind(queue, exchange, key)
        channel.basic_publish(exchange, matching, b"bound no more")
        assert bodies(channel, queue) == []
        channel.exchange_delete(exchange)


def test_exchanges_are_bound_to_exchanges(channel: BlockingChannel, queue: str, named: Named) -> None:
    outer, inner = named("outer"), named("inner")
    channel.exchange_declare(outer, "direct")
    channel.exchange_declare(inner, "fanout", internal=True)
    channel.exchange_bind(inner, outer, "k")
    channel.queue_bind(queue, inner)
    channel.basic_publish(outer, "k", b"through two")
    assert bodies(channel, queue) == [b"through two"]
    channel.exchange_unbind(inner, outer, "k")
    channel.basic_publish(outer, "k", b"through one")
    assert bodies(channel, queue) == []


def test_queues_are_found_purged_and_deleted(channel: BlockingChannel, named: Named) -> None:
    name = channel.queue_declare("").method.queue
    assert name.startswith("amq.gen-")
    for number in range(3):
        channel.basic_publish("", name, b"%d" % number)
    assert channel.queue_declare(name, passive=True).method.message_count == 3
    assert channel.queue_purge(name).method.message_count == 3
    channel.basic_publish("", name, b"left")
    assert channel.queue_delete(name).method.message_count == 1
    assert channel.queue_delete(name).method.message_count == 0


WRONG: list[tuple[str, int, str, Callable[[BlockingChannel, str], object]]] = [
    ("passive", 404, "no queue '{q}-x' in vhost '/'", lambda c, q: c.queue_declare(q + "-x", passive=True)),
    ("get", 404, "no queue '{q}-x' in vhost '/'", lambda c, q: c.basic_get(q + "-x")),
    ("consume", 404, "no queue '{q}-x' in vhost '/'", lambda c, q: c.basic_consume(q + "-x", print)),
    ("purge", 404, "no queue '{q}-x' in vhost '/'", lambda c, q: c.queue_purge(q + "-x")),
    ("bind", 404, "no exchange '{q}-x' in vhost '/'", lambda c, q: c.queue_bind(q, q + "-x")),
    ("exchange", 404, "no exchange '{q}-x' in vhost '/'", lambda c, q: c.exchange_declare(q + "-x", passive=True)),
    (
        "reserved queue",
        403,
        "queue name 'amq.mine' contains reserved prefix 'amq.*'",
        lambda c, _: c.queue_declare("amq.mine"),
    ),
    (
        "reserved",
        403,
        "exchange name 'amq.mine' contains reserved prefix 'amq.*'",
        lambda c, _: c.exchange_declare("amq.mine"),
    ),
    ("default", 403, "operation not permitted on the default exchange", lambda c, q: c.queue_bind(q, "")),
    ("kind", 406, "unknown exchange type 'odd'", lambda c, q: c.exchange_declare(q + "-e", "odd")),
    (
        "durable",
        406,
        "inequivalent arg 'durable' for queue '{q}' in vhost '/': received 'true' but current is 'false'",
        lambda c, q: c.queue_declare(q, durable=True),
    ),
    (
        "ttl",
        406,
        "inequivalent arg 'x-message-ttl' for queue '{q}' in vhost '/': received the value '1000' of type 'signedint' but current is none",
        lambda c, q: c.queue_declare(q, arguments={"x-message-ttl": 1000}),
    ),
    (
        "exchange type",
        406,
        "inequivalent arg 'type' for exchange 'amq.topic' in vhost '/': received 'fanout' but current is 'topic'",
        lambda c, _: c.exchange_declare("amq.topic", "fanout", durable=True),
    ),
    (
        "no tag",
        406,
        "unknown delivery tag 7",
        lambda c, q: (c.basic_ack(7), c.basic_get(q)),
    ),
    (
        "consumer priority",
        406,
        "invalid arg 'x-priority' for queue '{q}' in vhost '/': \"expected integer, got longstr\"",
        lambda c, q: c.basic_consume(q, print, arguments={"x-priority": "first"}),
    ),
]


@pytest.mark.parametrize(("code", "text", "does"), [pytest.param(*case[1:], id=case[0]) for case in WRONG])
def test_what_cannot_be_closes_its_channel_with_rabbitmqs_code_and_text(
    broker: AmqpBroker, channel: BlockingChannel, queue: str, code: int, text: str, does: Callable[..., object]
) -> None:
    with connected(broker) as connection:
        wrong, other = connection.channel(), connection.channel()
        with pytest.raises(ChannelClosedByBroker) as caught:
            does(wrong, queue)
        name = {403: "ACCESS_REFUSED", 404: "NOT_FOUND", 406: "PRECONDITION_FAILED"}[code]
        assert (caught.value.reply_code, caught.value.reply_text) == (code, f"{name} - {text.format(q=queue)}")
        assert other.queue_declare(queue, passive=True).method.queue == queue


def test_what_is_not_there_closes_the_connection_and_says_so(broker: AmqpBroker, queue: str) -> None:
    with connected(broker) as connection, pytest.raises(ConnectionClosedByBroker) as caught:
        connection.channel().flow(False)
    assert caught.value.reply_code == 540


def test_a_transaction_publishes_and_settles_at_its_commit_and_a_rollback_undoes_it(
    broker: AmqpBroker, channel: BlockingChannel, queue: str, named: Named
) -> None:
    done = channel.queue_declare(named("done")).method.queue
    for body in (b"one", b"two", b"three"):
        channel.basic_publish("", queue, body)
    assert channel.queue_declare(queue, passive=True).method.message_count == 3
    with connected(broker) as connection:
        transacted = connection.channel()
        transacted.tx_select()
        for _ in range(3):
            transacted.basic_get(queue)
        transacted.basic_publish("", done, b"never")
        transacted.basic_ack(3, multiple=True)
        transacted.tx_rollback()
        transacted.basic_publish("", done, b"one done")
        transacted.basic_ack(1)
        transacted.basic_nack(2, requeue=True)
        transacted.basic_reject(3, requeue=False)
        assert channel.queue_declare(done, passive=True).method.message_count == 0
        assert channel.queue_declare(queue, passive=True).method.message_count == 0
        transacted.tx_commit()
        assert bodies(channel, done) == [b"one done"]
        assert bodies(channel, queue) == [b"two"]
        transacted.basic_publish("", done, b"never")
    assert bodies(channel, done) == []


def test_a_transaction_excludes_confirms_and_what_no_queue_takes_comes_back_with_its_commit(
    broker: AmqpBroker, named: Named
) -> None:
    with connected(broker) as connection:
        transacted = connection.channel()
        transacted.tx_select()
        returned: list[tuple[str, bytes]] = []
        transacted.add_on_return_callback(lambda _, method, __, body: returned.append((method.routing_key, body)))
        nobody = named("nobody")
        transacted.basic_publish("", nobody, b"lost", mandatory=True)
        connection.process_data_events(0)
        assert returned == []
        transacted.tx_commit()
        connection.process_data_events(0)
        assert returned == [(nobody, b"lost")]
        with pytest.raises(ChannelClosedByBroker) as caught:
            transacted.confirm_delivery()
        assert caught.value.reply_text == "PRECONDITION_FAILED - cannot switch from tx to confirm mode"


def test_an_exclusive_queue_is_its_connections_alone_and_gone_with_it(
    broker: AmqpBroker, channel: BlockingChannel, named: Named
) -> None:
    name = named("mine")
    with connected(broker) as connection:
        own = connection.channel()
        own.queue_declare(name, exclusive=True)
        own.queue_declare(name, exclusive=True)
        channel.basic_publish("", name, b"anybody may publish")
        assert consumed(own, name, 1)[0][2] == b"anybody may publish"
        for does in (
            lambda other: other.queue_declare(name),
            lambda other: other.queue_declare(name, exclusive=True),
            lambda other: other.queue_declare(name, passive=True),
            lambda other: other.basic_consume(name, print),
            lambda other: other.basic_get(name),
            lambda other: other.queue_purge(name),
            lambda other: other.queue_bind(name, "amq.direct"),
            lambda other: other.queue_delete(name),
        ):
            with pytest.raises(ChannelClosedByBroker) as caught:
                does(channel.connection.channel())
            assert caught.value.reply_code == 405
            assert f"cannot obtain exclusive access to locked queue '{name}' in vhost '/'" in caught.value.reply_text
    with connected(broker) as connection:
        # The queue is gone behind the connection's end, which its broker hears of by itself.
        until_gone(connection, name)


def until_gone(connection: pika.BlockingConnection, name: str) -> None:
    """Ask for a queue until it is not there."""
    code = 405
    while code == 405:
        with pytest.raises(ChannelClosedByBroker) as caught:
            connection.channel().queue_declare(name, passive=True)
        code = caught.value.reply_code
    assert code == 404


def test_a_queue_that_goes_with_its_last_consumer_goes(
    broker: AmqpBroker, channel: BlockingChannel, named: Named
) -> None:
    name = named("brief")
    channel.queue_declare(name, auto_delete=True)
    with connected(broker) as connection:
        other = connection.channel()
        first, second = other.basic_consume(name, print), other.basic_consume(name, print)
        other.basic_cancel(first)
        assert channel.queue_declare(name, passive=True).method.consumer_count == 1
        other.basic_cancel(second)
        with pytest.raises(ChannelClosedByBroker) as caught:
            other.queue_declare(name, passive=True)
        assert caught.value.reply_code == 404


def test_an_unknown_virtual_host_is_refused(broker: AmqpBroker) -> None:
    with pytest.raises(ProbableAccessDeniedError) as caught, connected(broker, virtual_host="shop"):
        pass
    assert str(caught.value) == "ConnectionClosedByBroker: (530) 'NOT_ALLOWED - vhost shop not found'"


def test_a_consumer_hears_that_its_queue_is_gone(broker: AmqpBroker, channel: BlockingChannel, queue: str) -> None:
    with connected(broker) as connection:
        other = connection.channel()
        other.basic_consume(queue, lambda *_: None)
        channel.queue_delete(queue)
        other.start_consuming()
        assert other.consumer_tags == []


def test_a_consumer_that_wants_its_queue_for_itself_gets_it_or_hears_that_others_are_there(
    broker: AmqpBroker, channel: BlockingChannel, queue: str
) -> None:
    channel.basic_consume(queue, lambda *_: None, exclusive=True, consumer_tag="only")
    with connected(broker) as connection, pytest.raises(ChannelClosedByBroker) as caught:
        connection.channel().basic_consume(queue, lambda *_: None)
    assert caught.value.reply_text == f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"
    with connected(broker) as connection:
        # It is for itself among consumers: RabbitMQ refuses no basic.get for it.
        assert connection.channel().basic_get(queue) == (None, None, None)
    channel.basic_cancel("only")
    with connected(broker) as connection:
        assert connection.channel().basic_consume(queue, lambda *_: None)


def test_what_pika_publishes_a_native_receiver_gets_and_the_other_way_round(
    broker: AmqpBroker, channel: BlockingChannel, queue: str
) -> None:
    broker.fill(queue, [b"sent natively"])
    method, properties, body = channel.basic_get(queue, auto_ack=True)
    assert (method.exchange, method.routing_key, body) == ("", queue, b"sent natively")
    assert properties == pika.BasicProperties()
    channel.basic_publish("", queue, b"published")
    channel.connection.process_data_events()
    code, out, said = broker.run("receive", "--queue", queue, "--count", "1")
    assert (code, out) == (0, b"published\n"), said


def test_a_message_that_has_expired_is_not_delivered_and_one_without_end_is(
    channel: BlockingChannel, queue: str, named: Named
) -> None:
    dead = channel.queue_declare(named("dead")).method.queue
    late = named("late")
    channel.queue_declare(late, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    channel.basic_publish("", late, b"brief", pika.BasicProperties(expiration="50"))
    channel.basic_publish("", late, b"for ever")
    ((_, _, body),) = consumed(channel, dead, 1)
    assert body == b"brief"
    assert bodies(channel, late) == [b"for ever"]


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"expiration": "soon"}, "invalid expiration 'soon': no_integer"),
        ({"expiration": "9" * 200}, f"invalid expiration '{'9' * 80}': {{value_too_large,{'9' * 40}}}"),
        ({"expiration": "316224000001"}, "invalid expiration '316224000001': {value_too_large,316224000001}"),
        ({"expiration": "-01"}, "invalid expiration '-01': {value_negative,-1}"),
        ({"expiration": "60000 ms"}, "invalid expiration '60000 ms': {leftover_string,\" ms\"}"),
    ],
)
def test_a_message_that_cannot_be_published_closes_the_channel(
    channel: BlockingChannel, queue: str, properties: dict[str, str], text: str
) -> None:
    channel.basic_publish("", queue, b"a", pika.BasicProperties(**properties))
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare(queue, passive=True)
    assert (caught.value.reply_code, caught.value.reply_text) == (406, f"PRECONDITION_FAILED - {text}")
