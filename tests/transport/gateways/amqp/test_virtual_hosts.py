"""Virtual hosts: each has names, exchanges and rights of its own, and its clients see no beginnings of names (docs/amqp.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aio_pika
import kombu
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ProbableAccessDeniedError

from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.peers import PASSWORD, SECONDS, Guarded
from tests.transport.gateways.amqp.test_pika import Named, bodies, consumed

Channel = BlockingChannel


@pytest.fixture
def shop(guarded: Guarded) -> Iterator[Channel]:
    """A channel of who has rights in this virtual host alone."""
    with guarded.connected("ann", "shop") as connection:
        yield connection.channel()


@pytest.fixture
def europe(guarded: Guarded) -> Iterator[Channel]:
    """A channel in another virtual host."""
    with guarded.connected("root", "eu") as connection:
        yield connection.channel()


@pytest.fixture
def everything(guarded: Guarded) -> Iterator[Channel]:
    """A channel in the virtual host ``/``, which has all names of the broker."""
    with guarded.connected("root", "/") as connection:
        yield connection.channel()


def refused(does: Callable[[], object]) -> tuple[int, str]:
    """The code and the text with which a channel is closed."""
    with pytest.raises(ChannelClosedByBroker) as caught:
        does()
    return caught.value.reply_code, caught.value.reply_text


def test_messages_wait_in_a_virtual_host_and_come_by_the_names_that_are_its_own(shop: Channel, named: Named) -> None:
    exchange, queue = named("later"), named("q")
    shop.exchange_declare(exchange, "x-delayed-message", arguments={"x-delayed-type": "direct"})
    shop.queue_declare(queue)
    shop.queue_bind(queue, exchange, "k")
    shop.basic_publish(exchange, "k", b"m", pika.BasicProperties(headers={"x-delay": 50}))
    (method, properties, body), *_ = consumed(shop, queue, 1)
    assert (method.exchange, method.routing_key, body) == (exchange, "k", b"m")
    assert properties.headers == {"x-delay": -50}
    arguments = {"x-delayed-type": "fanout"}
    code, text = refused(lambda: shop.exchange_declare(exchange, "x-delayed-message", arguments=arguments))
    said = f"for exchange '{exchange}' in vhost 'shop': received 'fanout' but current is 'direct'"
    assert (code, text.endswith(f"inequivalent arg 'x-delayed-type' {said}")) == (406, True)


# Who comes in.


def test_a_virtual_host_that_is_not_there_and_one_without_rights_are_refused_with_rabbitmqs_texts(
    guarded: Guarded,
) -> None:
    texts = {
        ("root", "nowhere"): "NOT_ALLOWED - vhost nowhere not found",
        ("ann", "eu"): "NOT_ALLOWED - access to vhost 'eu' refused for user 'ann'",
        ("bob", "shop"): "NOT_ALLOWED - access to vhost 'shop' refused for user 'bob'",
        ("bob", "/"): "NOT_ALLOWED - access to vhost '/' refused for user 'bob'",
    }
    for (user, host), text in texts.items():
        with pytest.raises(ProbableAccessDeniedError) as caught, guarded.connected(user, host):
            pass
        assert str(caught.value) == f"ConnectionClosedByBroker: (530) {text!r}" or str(caught.value).endswith(
            f'"{text}"'
        )


def test_rights_are_those_on_the_names_with_their_beginning(
    guarded: Guarded, europe: Channel, everything: Channel, named: Named
) -> None:
    queue, exchange = named("orders"), named("news")
    with guarded.connected("ann", "/") as connection:
        # She has the names of her virtual host here too, and no others.
        assert connection.channel().queue_declare(f"shop/{queue}").method.queue == f"shop/{queue}"
        for does, text in (
            (
                lambda c: c.queue_declare(queue),
                f"configure access to queue '{queue}' in vhost '/' refused for user 'ann'",
            ),
            (
                lambda c: c.exchange_declare(exchange),
                f"configure access to exchange '{exchange}' in vhost '/' refused for user 'ann'",
            ),
            (lambda c: c.basic_get(queue), f"read access to queue '{queue}' in vhost '/' refused for user 'ann'"),
            (
                lambda c: c.queue_bind(f"shop/{queue}", "amq.topic"),
                "read access to exchange 'amq.topic' in vhost '/' refused for user 'ann'",
            ),
            (
                lambda c: published(c, "", f"shop/{queue}"),
                "write access to exchange 'amq.default' in vhost '/' refused for user 'ann'",
            ),
        ):
            assert refused(lambda does=does: does(connection.channel())) == (403, f"ACCESS_REFUSED - {text}")  # type: ignore[misc]
    assert europe.queue_declare(queue).method.queue == queue
    assert everything.queue_declare(f"europe.{queue}", passive=True).method.queue == f"europe.{queue}"


def test_the_log_of_who_did_what_names_the_right_that_the_client_hears_of(tmp_path: Path) -> None:
    with Guarded(tmp_path) as broker, broker.connected("ann", "/") as connection:
        for does in (
            lambda c: c.queue_declare("orders"),
            lambda c: c.queue_declare("orders", passive=True),
            lambda c: c.queue_delete("orders"),
            lambda c: c.queue_bind("orders", "amq.topic"),
            lambda c: c.queue_bind("shop/orders", "amq.topic"),
            lambda c: c.basic_get("orders"),
            lambda c: c.basic_consume("orders", print),
            lambda c: c.exchange_declare("news"),
            lambda c: published(c, "news", "k"),
            lambda c: published(c, "", "orders"),
        ):
            connection.channel().queue_declare("shop/orders")
            _, text = refused(lambda does=does: does(connection.channel()))  # type: ignore[misc]
            right = text.removeprefix("ACCESS_REFUSED - ").partition(" ")[0]
            (resource,) = [
                name for name in ("shop/orders", "orders", "news", "amq.topic", "amq.default") if f"'{name}'" in text
            ]
            while " refused: " not in (said := broker.line(broker.stderr).decode()):
                pass
            assert f" refused: ann may not {right} {resource} (" in said, (text, said)


def published(channel: Channel, exchange: str, key: str) -> None:
    """Publish, and hear what becomes of it."""
    channel.confirm_delivery()
    channel.basic_publish(exchange, key, b"x")


# What is in one.


def test_the_same_names_are_others_in_each_virtual_host(shop: Channel, europe: Channel, named: Named) -> None:
    queue = named("orders")
    for channel, body in ((shop, b"shop"), (europe, b"europe")):
        assert channel.queue_declare(queue).method.queue == queue
        channel.basic_publish("", queue, body)
    for channel, body in ((shop, b"shop"), (europe, b"europe")):
        method, _, found = channel.basic_get(queue, auto_ack=True)
        assert (method.exchange, method.routing_key, found, method.message_count) == ("", queue, body, 0)
    shop.queue_delete(queue)
    assert europe.queue_declare(queue, passive=True).method.queue == queue


def test_the_broker_calls_a_queue_by_its_whole_name(guarded: Guarded, shop: Channel, named: Named) -> None:
    queue = named("orders")
    shop.queue_declare(queue, durable=True)
    shop.basic_publish("", queue, b"tea", pika.BasicProperties(app_id="till"))
    shop.connection.process_data_events()
    words = ("--queue", f"shop/{queue}", "--count", "1", "--jsonl", *guarded.administrator)
    code, out, said = guarded.run("receive", *words)
    assert code == 0, said
    assert b'"routing_key":"%s"' % queue.encode() in out


@pytest.mark.parametrize("exchange", ["amq.direct", "amq.topic", "amq.fanout", "amq.headers", "amq.match"])
def test_the_exchanges_that_are_there_from_the_start_are_of_their_virtual_host_alone(
    shop: Channel, europe: Channel, everything: Channel, named: Named, exchange: str
) -> None:
    queue = named("orders")
    for channel in (shop, europe, everything):
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, exchange, "k", {"x-match": "any", "k": "v"})
    properties = pika.BasicProperties(headers={"k": "v"})
    shop.basic_publish(exchange, "k", b"in shop", properties)
    everything.basic_publish(exchange, "k", b"in /", properties)
    ((method, _, body),) = consumed(shop, queue, 1, auto_ack=True)
    assert (method.exchange, method.routing_key, body) == (exchange, "k", b"in shop")
    assert bodies(everything, queue) == [b"in /"]
    assert bodies(europe, queue) == []
    text = f"ACCESS_REFUSED - deletion of system exchange '{exchange}' in vhost 'shop' not allowed"
    assert refused(lambda: shop.exchange_delete(exchange)) == (403, text)


def test_what_the_default_exchange_has_no_queue_for_comes_back_as_it_was_published(
    shop: Channel, europe: Channel, everything: Channel, named: Named
) -> None:
    queue = named("orders")
    europe.queue_declare(queue)
    # What the empty key would lead to, if its virtual host's beginning stood before it.
    everything.queue_declare("shop/")
    shop.confirm_delivery()
    longest = "k" * 255
    for key in (queue, f"europe.{queue}", longest, ""):
        with pytest.raises(pika.exceptions.UnroutableError) as caught:
            shop.basic_publish("", key, b"where", mandatory=True)
        (back,) = caught.value.messages
        assert (back.method.exchange, back.method.routing_key, back.body) == ("", key, b"where")
    assert bodies(europe, queue) == []


def test_dead_letters_and_what_no_binding_takes_stay_in_their_virtual_host(
    shop: Channel, everything: Channel, named: Named
) -> None:
    dead, rest, news, dropped = (named(each) for each in ("dead", "rest", "news", "dropped"))
    for channel in (shop, everything):
        # Durable exchanges of the same name, here and there.
        channel.exchange_declare(dead, "direct")
        channel.exchange_declare(rest, "fanout")
        for each in (dead, rest):
            channel.queue_declare(each)
    orders = named("orders")
    for channel in (shop, everything):
        channel.queue_bind(dead, dead, orders)
        channel.queue_bind(rest, rest)
    shop.queue_declare(orders, arguments={"x-dead-letter-exchange": dead})
    shop.queue_declare(dropped, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    shop.exchange_declare(news, "direct", arguments={"alternate-exchange": rest})
    for queue in (orders, dropped):
        shop.basic_publish("", queue, queue.encode())
        method, _, _ = shop.basic_get(queue)
        shop.basic_reject(method.delivery_tag, requeue=False)
    # Its key is still the one that it was published with: the queue's name, as its client knows it.
    found = consumed(shop, dead, 2, auto_ack=True)
    assert sorted(body for _, _, body in found) == sorted([orders.encode(), dropped.encode()])
    by_exchange = {method.exchange: method.routing_key for method, _, body in found}
    assert by_exchange[dead] == orders
    assert by_exchange[""] == dead
    deaths = {death["queue"]: death["routing-keys"] for _, said, _ in found for death in said.headers["x-death"]}
    assert deaths == {orders: [orders], dropped: [dropped]}
    shop.cancel()
    shop.basic_publish(news, "nobody", b"left over")
    assert consumed(shop, rest, 1, auto_ack=True)[0][0].exchange == news
    assert bodies(everything, dead) + bodies(everything, rest) == []


def test_a_queue_that_the_server_names_and_direct_replies_are_of_the_virtual_host(
    guarded: Guarded, shop: Channel
) -> None:
    own = shop.queue_declare("", exclusive=True).method.queue
    assert own.startswith("amq.gen-")
    shop.basic_publish("", own, b"mine")
    assert bodies(shop, own) == [b"mine"]
    tag = shop.basic_consume("amq.rabbitmq.reply-to", lambda *message: replies.append(message), auto_ack=True)
    replies: list[Any] = []
    asks = shop.queue_declare("", exclusive=True).method.queue
    shop.basic_publish("", asks, b"how much?", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    _, properties, _ = shop.basic_get(asks, auto_ack=True)
    assert properties.reply_to.startswith("amq.rabbitmq.reply-to.")
    with guarded.connected("ann", "shop") as connection:
        answers = connection.channel()
        assert answers.queue_declare(properties.reply_to, passive=True).method.consumer_count == 1
        answers.basic_publish("", properties.reply_to, b"two")
        shop.connection.process_data_events(SECONDS)
    ((_, method, _, body),) = replies
    assert (method.consumer_tag, method.exchange, method.routing_key, body) == (tag, "", properties.reply_to, b"two")


def test_a_consumer_hears_that_its_queue_is_gone_whoever_deletes_it(
    guarded: Guarded, shop: Channel, named: Named
) -> None:
    queue = named("orders")
    shop.queue_declare(queue, durable=True)
    shop.basic_consume(queue, lambda *_: None)
    code, _, said = guarded.run("queue delete", f"shop/{queue}", *guarded.administrator)
    assert code == 0, said
    shop.start_consuming()
    assert shop.consumer_tags == []


# What is told.

ERRORS: list[tuple[str, int, str, Callable[[Channel, str], object]]] = [
    ("passive", 404, "no queue '{q}-x' in vhost 'shop'", lambda c, q: c.queue_declare(q + "-x", passive=True)),
    ("publish", 404, "no exchange '{q}' in vhost 'shop'", lambda c, q: published(c, q, "k")),
    ("bind", 404, "no exchange '{q}' in vhost 'shop'", lambda c, q: c.queue_bind(q, q)),
    (
        "reserved",
        403,
        "queue name 'amq.x' contains reserved prefix 'amq.*'",
        lambda c, q: c.queue_declare("amq.x"),
    ),
    (
        "durable",
        406,
        "inequivalent arg 'durable' for queue '{q}' in vhost 'shop': received 'false' but current is 'true'",
        lambda c, q: c.queue_declare(q),
    ),
    (
        "dead letters",
        406,
        (
            "inequivalent arg 'x-dead-letter-exchange' for queue '{q}' in vhost 'shop': "
            "received the value 'b' of type 'longstr' but current is none"
        ),
        lambda c, q: c.queue_declare(q, durable=True, arguments={"x-dead-letter-exchange": "b"}),
    ),
    (
        "type",
        406,
        "inequivalent arg 'type' for exchange 'amq.topic' in vhost 'shop': received 'fanout' but current is 'topic'",
        lambda c, q: c.exchange_declare("amq.topic", "fanout", durable=True),
    ),
    (
        "alternate",
        406,
        "inequivalent arg 'alternate-exchange' for exchange '{q}-a' in vhost 'shop': received 'b' but current is 'a'",
        lambda c, q: [c.exchange_declare(q + "-a", arguments={"alternate-exchange": each}) for each in "ab"],
    ),
    (
        "white space",
        406,
        "the queue name 'a b' has white space or unprintable characters",
        lambda c, q: c.queue_declare("a b"),
    ),
    (
        "commit",
        406,
        (
            "partial tx completion: nothing of the transaction is done: queue '{q}-full' is full: "
            "0 of max_messages 1 messages are stored, and the 2 that the transaction publishes there do not fit"
        ),
        lambda c, q: overfilled(c, f"{q}-full"),
    ),
]


def overfilled(channel: Channel, queue: str) -> None:
    """A transaction publishes more to a queue than that takes."""
    channel.queue_declare(queue, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.tx_select()
    for body in (b"1", b"2"):
        channel.basic_publish("", queue, body)
    channel.tx_commit()


@pytest.mark.parametrize(("code", "text", "does"), [pytest.param(*case[1:], id=case[0]) for case in ERRORS])
def test_errors_have_names_as_the_client_has_them(
    shop: Channel, named: Named, code: int, text: str, does: Callable[[Channel, str], object]
) -> None:
    queue = named("orders")
    shop.queue_declare(queue, durable=True)
    name = {403: "ACCESS_REFUSED", 404: "NOT_FOUND", 406: "PRECONDITION_FAILED"}[code]
    assert refused(lambda: does(shop, queue)) == (code, f"{name} - {text.format(q=queue)}")


def test_a_queue_that_was_declared_natively_is_compared_by_its_names_in_the_virtual_host(
    guarded: Guarded, shop: Channel, named: Named
) -> None:
    queue = named("orders")
    words = ("--max-messages", "none", "--max-bytes", "none", "--ttl", "1s", "--dead-letter-exchange", "shop/dead")
    code, _, said = guarded.run("queue create", f"shop/{queue}", *words, *guarded.administrator)
    assert code == 0, said
    same = {"x-message-ttl": 1000, "x-dead-letter-exchange": "dead"}
    assert shop.queue_declare(queue, durable=True, arguments=same).method.queue == queue
    text = (
        f"PRECONDITION_FAILED - inequivalent arg 'x-dead-letter-exchange' for queue '{queue}' in vhost 'shop': "
        "received 'other' but current is 'dead'"
    )
    other = same | {"x-dead-letter-exchange": "other"}
    assert refused(lambda: shop.queue_declare(queue, durable=True, arguments=other)) == (406, text)


def test_why_a_client_is_blocked_is_said_with_the_name_that_it_knows(
    guarded: Guarded, shop: Channel, named: Named
) -> None:
    queue = named("full")
    shop.queue_declare(queue, arguments={"x-max-length": 1, "x-overflow": "block"})
    told: list[str] = []
    with guarded.connected("ann", "shop") as connection:
        connection.add_on_connection_blocked_callback(lambda _, frame: told.append(frame.method.reason))
        publisher = connection.channel()
        # A little more than may wait: the rest is to fit the sockets, for pika goes on when all is written.
        for _ in range(24):
            publisher.basic_publish("", queue, bytes(1 << 16))
        while not told:
            connection.process_data_events(SECONDS)
        shop.queue_delete(queue)
    assert told[0].startswith(f"queue {queue} is full (")


# A broker without users.


def test_a_virtual_host_outlives_its_broker_and_may_have_no_beginning(tmp_path: Any) -> None:
    options = "--data", str(tmp_path / "data"), "--amqp-virtual-hosts", "shop, prod="
    for turn in range(2):
        with AmqpBroker(*options) as broker, broker.drained():
            for host, name in (("shop", "shop/orders"), ("prod", "plain")):
                where = pika.ConnectionParameters("127.0.0.1", broker.port, host)
                with pika.BlockingConnection(where) as connection:
                    channel = connection.channel()
                    channel.queue_declare("orders" if host == "shop" else "plain", durable=True, passive=turn > 0)
                    channel.queue_bind(name.removeprefix("shop/"), "amq.topic", "#")
                    channel.confirm_delivery()
                    channel.basic_publish("amq.topic", host, b"x")
                assert broker.statistics(name)["ready"] == turn + 1


def test_a_virtual_host_whose_exchange_is_another_is_said_at_the_start(tmp_path: Any) -> None:
    data = str(tmp_path / "data")
    with AmqpBroker("--data", data) as broker:
        code, _, said = broker.run("exchange create", "shop/amq.topic", "--kind", "fanout")
        assert code == 0, said
    with pytest.raises(
        AssertionError, match=r"the virtual host 'shop' cannot have amq[.]topic: exchange 'shop/amq[.]topic' is there"
    ):
        AmqpBroker("--data", data, "--amqp-virtual-hosts", "shop")


# Other clients, unchanged.


def test_aio_pika_finds_its_virtual_host_by_its_address(guarded: Guarded, everything: Channel, named: Named) -> None:
    queue = named("orders")
    where = f"amqp://ann:{quote(PASSWORD)}@127.0.0.1:{guarded.port}/shop"

    async def use() -> None:
        async with asyncio.timeout(SECONDS), await aio_pika.connect(where) as connection:
            channel = await connection.channel()
            declared = await channel.declare_queue(queue, durable=True)
            await channel.default_exchange.publish(aio_pika.Message(b"tea"), queue, mandatory=True)
            message = await declared.get(no_ack=True)
            assert message is not None
            assert (message.body, message.routing_key) == (b"tea", queue)

    asyncio.run(use())
    assert everything.queue_declare(f"shop/{queue}", passive=True).method.message_count == 0


def test_kombu_finds_its_virtual_host_by_its_address(guarded: Guarded, everything: Channel, named: Named) -> None:
    queue = named("orders")
    where = f"amqp://ann:{quote(PASSWORD)}@127.0.0.1:{guarded.port}/shop"
    with kombu.Connection(where, transport_options={"confirm_publish": True}) as connection:
        simple = connection.SimpleQueue(queue)
        simple.put({"tea": 1})
        message = simple.get(timeout=SECONDS)
        assert (message.payload, message.delivery_info["exchange"]) == ({"tea": 1}, queue)
        message.ack()
        simple.close()
    assert everything.exchange_declare(f"shop/{queue}", passive=True)
