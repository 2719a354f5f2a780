"""py-amqp, unchanged: the client below kombu and Celery (docs/amqp.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import amqp
import pytest
from amqp.exceptions import (
    AccessRefused,
    ConnectionForced,
    MessageNacked,
    NotAllowed,
    NotFound,
    PreconditionFailed,
    RecoverableConnectionError,
)

from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.peers import (
    MOST_SILENT_SECONDS,
    NOTICED_SECONDS,
    PASSWORD,
    SECONDS,
    USER,
    Secured,
    frozen,
    lasting,
)

Named = Callable[[str], str]


@contextmanager
def connected(port: int, **options: Any) -> Iterator[amqp.Connection]:
    """A connection that is closed when it is over, if nobody has."""
    timeouts = dict.fromkeys(("connect_timeout", "read_timeout", "write_timeout"), SECONDS)
    connection = amqp.Connection(f"127.0.0.1:{port}", **timeouts, **options)
    try:
        connection.connect()
        yield connection
    finally:
        if connection.connected:
            connection.close()


@pytest.fixture
def connection(broker: AmqpBroker) -> Iterator[amqp.Connection]:
    with connected(broker.port, confirm_publish=True) as connection:
        yield connection


@pytest.fixture
def channel(connection: amqp.Connection) -> amqp.Channel:
    return connection.channel()


@pytest.fixture
def queue(channel: amqp.Channel, named: Named) -> str:
    return str(channel.queue_declare(named("tasks"), auto_delete=False).queue)


def fill(channel: amqp.Channel, queue: str, number: int) -> None:
    """So many messages, whose bodies count from 0."""
    for each in range(number):
        channel.basic_publish(amqp.Message(str(each)), routing_key=queue)


def bodies(channel: amqp.Channel, queue: str) -> list[Any]:
    """What is ready, taken out."""
    found = []
    while (message := channel.basic_get(queue, no_ack=True)) is not None:
        found.append(message.body)
    return found


def until(connection: amqp.Connection, holds: Callable[[], object]) -> None:
    """Read what comes until it holds."""
    while not holds():
        connection.drain_events(timeout=SECONDS)


def ticking(connection: amqp.Connection, seconds: float) -> None:
    """Keep the heartbeat, and read what comes, for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        connection.heartbeat_tick()
        try:
            connection.drain_events(timeout=0.25)
        except TimeoutError:
            continue


def test_a_message_comes_with_every_property_and_headers_of_every_type(channel: amqp.Channel, queue: str) -> None:
    headers = {
        "true": True,
        "small": -5,
        "large": 1 << 40,
        "float": 2.5,
        "text": "\u00fcber",
        "decimal": Decimal("-12.34"),
        "when": datetime(2024, 2, 29, 12, 30),
        "table": {"inner": {"deep": 1}},
        "array": [1, "two", False, None, {"three": 3}, [4]],
        "none": None,
        "empty": {},
    }
    properties = {
        "content_type": "application/x-python",
        "content_encoding": "utf-8",
        "application_headers": headers,
        "delivery_mode": 2,
        "priority": 9,
        "correlation_id": "c",
        "reply_to": "answers",
        "message_id": "m",
        "timestamp": 1_709_209_800,
        "type": "kind",
        "user_id": "guest",
        "app_id": "shop",
    }
    channel.basic_publish(amqp.Message(b"body", **properties), routing_key=queue)
    message = channel.basic_get(queue, no_ack=True)
    assert message.body == "body"
    assert message.properties == properties
    assert message.delivery_info["routing_key"] == queue
    assert message.delivery_info["exchange"] == ""
    assert channel.basic_get(queue) is None


def test_what_no_queue_takes_comes_back_before_its_confirm(channel: amqp.Channel, queue: str) -> None:
    back: list[tuple[Any, ...]] = []
    channel.events["basic_return"].add(lambda *said: back.append(said))
    channel.basic_publish(amqp.Message("lost"), routing_key=queue + "-nowhere", mandatory=True)
    channel.basic_publish(amqp.Message("kept"), routing_key=queue, mandatory=True)
    ((error, exchange, key, message),) = back
    assert (error.reply_code, error.reply_text) == (312, "NO_ROUTE")
    assert (exchange, key, message.body) == ("", queue + "-nowhere", "lost")
    assert bodies(channel, queue) == ["kept"]


def test_a_full_queue_rejects_and_the_publisher_hears_it(channel: amqp.Channel, named: Named) -> None:
    name = named("small")
    limits = {"x-max-length": 1, "x-overflow": "reject-publish"}
    channel.queue_declare(name, auto_delete=False, arguments=limits)
    channel.basic_publish(amqp.Message("1"), routing_key=name)
    with pytest.raises(MessageNacked):
        channel.basic_publish(amqp.Message("2"), routing_key=name)
    assert bodies(channel, name) == ["1"]


def test_a_prefetch_that_changes_while_messages_come_counts_at_once(
    connection: amqp.Connection, channel: amqp.Channel, queue: str
) -> None:
    fill(channel, queue, 10)
    channel.basic_qos(0, 2, False)
    held: list[amqp.Message] = []
    channel.basic_consume(queue, callback=held.append)
    until(connection, lambda: len(held) == 2)
    assert channel.queue_declare(queue, passive=True).message_count == 8
    channel.basic_qos(0, 5, False)
    until(connection, lambda: len(held) == 5)
    assert channel.queue_declare(queue, passive=True).message_count == 5
    channel.basic_qos(0, 1, False)
    channel.basic_ack(held[3].delivery_tag, multiple=True)
    assert channel.queue_declare(queue, passive=True).message_count == 5
    channel.basic_ack(held[4].delivery_tag)
    until(connection, lambda: len(held) == 6)
    assert [message.body for message in held] == [str(each) for each in range(6)]


def test_what_is_given_back_comes_again_and_what_is_rejected_does_not(channel: amqp.Channel, queue: str) -> None:
    fill(channel, queue, 4)
    first, second, _, fourth = (channel.basic_get(queue) for _ in range(4))
    channel.basic_reject(first.delivery_tag, requeue=True)
    channel.basic_reject(second.delivery_tag, requeue=False)
    channel.basic_ack(fourth.delivery_tag)
    channel.basic_recover(requeue=True)
    again = [channel.basic_get(queue) for _ in range(2)]
    assert [(message.body, message.delivery_info["redelivered"]) for message in again] == [("0", True), ("2", True)]
    assert channel.basic_get(queue) is None


def test_a_consumer_is_cancelled_by_its_client_and_by_the_end_of_its_queue(
    connection: amqp.Connection, channel: amqp.Channel, queue: str
) -> None:
    gone: list[str] = []
    other = connection.channel()
    held: list[amqp.Message] = []
    channel.basic_consume(queue, "mine", callback=held.append)
    channel.basic_cancel("mine")
    fill(other, queue, 1)
    assert other.queue_declare(queue, passive=True)[1:] == (1, 0)
    tag = channel.basic_consume(queue, callback=held.append, on_cancel=gone.append)
    until(connection, lambda: held)
    other.queue_delete(queue)
    until(connection, lambda: gone)
    assert gone == [tag]


def test_exchanges_are_declared_bound_unbound_and_deleted(channel: amqp.Channel, queue: str, named: Named) -> None:
    outer, inner = named("outer"), named("inner")
    channel.exchange_declare(outer, "topic", auto_delete=False)
    channel.exchange_declare(inner, "direct", auto_delete=False)
    channel.exchange_bind(inner, outer, "a.#")
    channel.queue_bind(queue, inner, "a.b")
    for key in ("a.b", "a.c", "b"):
        channel.basic_publish(amqp.Message(key), outer, key)
    assert bodies(channel, queue) == ["a.b"]
    channel.queue_unbind(queue, inner, "a.b")
    channel.exchange_unbind(inner, outer, "a.#")
    channel.exchange_delete(inner)
    channel.exchange_delete(outer)
    fill(channel, queue, 2)
    assert channel.queue_purge(queue) == 2
    assert channel.queue_delete(queue) == 0


def test_headers_decide_where_a_message_and_a_dead_letter_go(channel: amqp.Channel, queue: str, named: Named) -> None:
    exchange, source = named("by-headers"), named("source")
    channel.exchange_declare(exchange, "headers", auto_delete=False)
    channel.queue_bind(queue, exchange, arguments={"x-match": "all", "kind": "x", "size": 3})
    for headers in ({"kind": "x", "size": 3}, {"kind": "x", "size": "3"}, {"kind": "y", "size": 3}, {"kind": "x"}, {}):
        channel.basic_publish(amqp.Message(repr(headers), application_headers=headers), exchange)
    assert bodies(channel, queue) == ["{'kind': 'x', 'size': 3}"]
    channel.queue_declare(source, auto_delete=False, arguments={"x-dead-letter-exchange": exchange})
    for size in (2, 3):
        sent = amqp.Message(f"dead {size}", application_headers={"kind": "x", "size": size})
        channel.basic_publish(sent, routing_key=source)
        channel.basic_reject(channel.basic_get(source).delivery_tag, requeue=False)
    held: list[amqp.Message] = []
    channel.basic_consume(queue, callback=held.append, no_ack=True)
    until(channel.connection, lambda: held)
    assert [message.body for message in held] == ["dead 3"]


def test_what_asks_for_no_answer_gets_none_and_is_done(channel: amqp.Channel, named: Named) -> None:
    queue, exchange = named("q"), named("e")
    quiet = {"auto_delete": False, "nowait": True}
    channel.exchange_declare(exchange, "direct", **quiet)
    channel.exchange_declare(exchange + "-outer", "fanout", **quiet)
    channel.exchange_bind(exchange, exchange + "-outer", nowait=True)
    channel.queue_declare(queue, **quiet)
    channel.queue_bind(queue, exchange, "k", nowait=True)
    for each in (exchange, exchange + "-outer"):
        channel.basic_publish(amqp.Message(each), each, "k")
    held: list[amqp.Message] = []
    channel.basic_consume(queue, "c", callback=held.append, nowait=True)
    until(channel.connection, lambda: len(held) == 2)
    channel.basic_cancel("c", nowait=True)
    channel.basic_recover_async(requeue=True)
    assert channel.queue_declare(queue, passive=True)[1:] == (2, 0)
    channel.queue_purge(queue, nowait=True)
    channel.exchange_unbind(exchange, exchange + "-outer", nowait=True)
    channel.exchange_delete(exchange, nowait=True)
    assert channel.queue_declare(queue, passive=True).message_count == 0
    channel.queue_delete(queue, nowait=True)
    with pytest.raises(NotFound):
        channel.queue_declare(queue, passive=True)


def test_an_error_closes_the_channel_and_the_same_number_is_opened_again(
    connection: amqp.Connection, channel: amqp.Channel, queue: str
) -> None:
    with pytest.raises(NotFound, match="no queue 'nowhere' in vhost '/'"):
        channel.queue_declare("nowhere", passive=True)
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'durable'"):
        channel.queue_declare(queue, durable=True, auto_delete=False)
    fill(channel, queue, 1)
    channel.basic_ack(5)
    with pytest.raises(PreconditionFailed, match="unknown delivery tag 5"):
        channel.basic_get(queue)
    with pytest.raises(NotFound, match="no exchange 'nowhere' in vhost '/'"):
        channel.basic_publish(amqp.Message("x"), "nowhere")
    assert bodies(channel, queue) == ["0"]
    assert connection.connected


def test_what_is_published_before_a_mistake_is_stored(broker: AmqpBroker, channel: amqp.Channel, queue: str) -> None:
    held: list[amqp.Message] = []
    with connected(broker.port) as connection:
        for number in range(20):
            publisher = connection.channel()
            publisher.basic_publish(amqp.Message(f"{number}"), routing_key=queue)
            if number % 2:
                publisher.basic_publish(amqp.Message("lost"), queue + "-nowhere")
            else:
                publisher.basic_ack(99)
            with pytest.raises((NotFound, PreconditionFailed)):
                publisher.queue_declare(queue, passive=True)
    channel.basic_consume(queue, callback=held.append, no_ack=True)
    until(channel.connection, lambda: len(held) == 20)
    assert {message.body for message in held} == set(map(str, range(20)))


def test_what_is_published_just_before_the_connection_is_closed_is_stored(
    broker: AmqpBroker, channel: amqp.Channel, queue: str, named: Named
) -> None:
    channel.exchange_declare(named("fan"), "fanout", auto_delete=False)
    channel.queue_bind(queue, named("fan"))
    for number in range(20):
        with connected(broker.port) as leaving:
            publisher = leaving.channel()
            for exchange in ("", named("fan")):
                publisher.basic_publish(amqp.Message(f"{number} {exchange}"), exchange, queue)
    expected = {f"{number} {exchange}" for number in range(20) for exchange in ("", named("fan"))}
    assert set(bodies(channel, queue)) == expected


def test_what_is_published_by_a_client_that_ends_without_a_word_is_stored(
    broker: AmqpBroker, channel: amqp.Channel, queue: str
) -> None:
    held: list[amqp.Message] = []
    for number in range(20):
        leaving = amqp.Connection(f"127.0.0.1:{broker.port}")
        leaving.connect()
        publisher = leaving.channel()
        publisher.basic_publish(amqp.Message(f"{number}"), routing_key=queue)
        if number % 2:
            # What waits behind a publish is done too.
            publisher.queue_bind(queue, "amq.fanout", f"{number}", nowait=True)
            publisher.basic_publish(amqp.Message(f"{number} again"), routing_key=queue)
        leaving.collect()
    channel.basic_consume(queue, callback=held.append, no_ack=True)
    until(channel.connection, lambda: len(held) == 30)
    assert {message.body for message in held} == {
        *map(str, range(20)),
        *(f"{number} again" for number in range(1, 20, 2)),
    }
    for number in range(1, 20, 2):
        channel.queue_unbind(queue, "amq.fanout", f"{number}")


def test_a_connection_that_keeps_its_heartbeat_stays(broker: AmqpBroker, named: Named) -> None:
    with connected(broker.port, heartbeat=1) as connection:
        channel = connection.channel()
        assert connection.heartbeat == 1
        ticking(connection, 3)
        assert channel.queue_declare(named("alive"), auto_delete=False).message_count == 0


def test_a_client_that_gives_no_sign_is_given_up_within_two_heartbeats_and_what_it_held_comes_again(
    broker: AmqpBroker, connection: amqp.Connection, channel: amqp.Channel, queue: str
) -> None:
    fill(channel, queue, 1)
    with connected(broker.port, heartbeat=1) as silent:
        held: list[amqp.Message] = []
        silent.channel().basic_consume(queue, callback=held.append)
        until(silent, lambda: held)
        since = time.monotonic()
        again: list[amqp.Message] = []
        channel.basic_consume(queue, callback=again.append)
        until(connection, lambda: again)
        assert time.monotonic() - since < MOST_SILENT_SECONDS
        assert again[0].delivery_info["redelivered"]
        with pytest.raises(ConnectionForced, match=r"silent for \d"):
            ticking(silent, SECONDS)
        silent.collect()


def test_a_broker_that_says_nothing_is_noticed() -> None:
    with AmqpBroker() as broker, connected(broker.port, heartbeat=1) as connection:
        with frozen(broker), pytest.raises((ConnectionForced, RecoverableConnectionError)):
            ticking(connection, NOTICED_SECONDS)
        connection.collect()


def test_after_the_broker_was_killed_what_was_confirmed_is_there(tmp_path: Path) -> None:
    with lasting(tmp_path) as broker:
        with connected(broker.port, confirm_publish=True) as connection:
            channel = connection.channel()
            channel.queue_declare("orders", durable=True, auto_delete=False)
            channel.basic_publish(amqp.Message("stored", delivery_mode=2), routing_key="orders")
            broker.restart()
            with pytest.raises((OSError, RecoverableConnectionError)):
                channel.queue_declare("orders", passive=True)
            connection.collect()
        with connected(broker.port) as connection:
            assert bodies(connection.channel(), "orders") == ["stored"]


def test_a_virtual_host_that_is_not_there_is_named(broker: AmqpBroker) -> None:
    with pytest.raises(NotAllowed, match="vhost shop not found"), connected(broker.port, virtual_host="shop"):
        pass


@pytest.mark.parametrize("mechanism", ["AMQPLAIN", "PLAIN"])
def test_users_come_in_by_their_password_and_no_other(secured: Secured, named: Named, mechanism: str) -> None:
    said: dict[str, Any] = {"userid": USER, "login_method": mechanism}
    with connected(secured.port, password=PASSWORD, **said) as connection:
        assert connection.channel().queue_declare(named("mine"), auto_delete=False).queue == named("mine")
    with pytest.raises(AccessRefused) as refused, connected(secured.port, password="wrong", **said):
        pass
    assert f"Login was refused using authentication mechanism {mechanism}" in str(refused.value)


def test_it_comes_by_tls(secured: Secured, named: Named) -> None:
    trusted = {"ca_certs": secured.ca, "server_hostname": "localhost"}
    with connected(secured.tls_port, userid=USER, password=PASSWORD, ssl=trusted) as connection:
        channel = connection.channel()
        channel.queue_declare(named("tls"), auto_delete=False)
        channel.basic_publish(amqp.Message("x" * 200_000), routing_key=named("tls"))
        assert bodies(channel, named("tls")) == ["x" * 200_000]


def test_a_transaction_is_seen_whole_or_not_at_all(broker: AmqpBroker, named: Named) -> None:
    queue, done = named("work"), named("done")
    with connected(broker.port) as connection, connected(broker.port) as looking:
        channel, other = connection.channel(), looking.channel()
        for name in (queue, done):
            other.queue_declare(name, auto_delete=False)
        for body in ("a", "b"):
            other.basic_publish(amqp.Message(body), routing_key=queue)
        assert other.queue_declare(queue, passive=True).message_count == 2
        channel.tx_select()
        for _ in range(2):
            channel.basic_get(queue)
        channel.basic_ack(1)
        channel.basic_publish(amqp.Message("a done"), routing_key=done)
        assert other.basic_get(done) is None
        channel.tx_rollback()
        channel.basic_ack(2, multiple=True)
        channel.basic_publish(amqp.Message("both done"), routing_key=done)
        channel.tx_commit()
        assert other.basic_get(done, no_ack=True).body == "both done"
        assert other.queue_declare(queue, passive=True).message_count == 0
        with pytest.raises(PreconditionFailed, match="cannot switch from tx to confirm mode"):
            channel.confirm_select()
