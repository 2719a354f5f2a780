"""kombu, unchanged: what Celery sends and receives by (docs/amqp.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import kombu
import pytest
from amqp.exceptions import AccessRefused
from kombu import Connection, Consumer, Exchange, Message, Producer, Queue, pools
from kombu.exceptions import OperationalError
from kombu.mixins import ConsumerMixin

from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.peers import (
    NOTICED_SECONDS,
    PASSWORD,
    SECONDS,
    USER,
    Lasting,
    Secured,
    frozen,
    lasting,
)

Named = Callable[[str], str]


def to(port: int, **options: Any) -> Connection:
    """A connection that is made when it is used."""
    confirmed = {"confirm_publish": True, "read_timeout": SECONDS, "write_timeout": SECONDS}
    return Connection(f"amqp://guest:guest@127.0.0.1:{port}//", transport_options=confirmed, **options)


@pytest.fixture
def connection(broker: AmqpBroker) -> Iterator[Connection]:
    with to(broker.port) as connection:
        yield connection


@pytest.fixture
def queue(connection: Connection, named: Named) -> Queue:
    """Bound to an exchange of its own, both declared."""
    exchange = Exchange(named("tasks"), "direct", durable=False)
    found = Queue(named("tasks"), exchange, named("key"), durable=False)(connection.default_channel)
    found.declare()
    return found


class Collected:
    """What came to a consumer, and what its messages are."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.messages: list[Message] = []

    def __call__(self, body: Any, message: Message) -> None:
        self.bodies.append(body)
        self.messages.append(message)


def until(connection: Connection, holds: Callable[[], object]) -> None:
    """Drain events until it holds."""
    while not holds():
        connection.drain_events(timeout=SECONDS)


def ticking(connection: Connection, seconds: float) -> None:
    """Keep the heartbeat, and drain what comes, for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        connection.heartbeat_check()
        try:
            connection.drain_events(timeout=0.25)
        except TimeoutError:
            continue


def test_a_producer_declares_publishes_and_a_consumer_gets_it_all(connection: Connection, queue: Queue) -> None:
    headers = {"n": 1, "t": True, "x": None, "d": Decimal("1.5"), "at": datetime(2024, 2, 29), "l": [1, {"a": "b"}]}
    producer = Producer(connection, queue.exchange, queue.routing_key)
    body = {"args": [1, 2], "text": "\u00fcber"}
    producer.publish(body, serializer="json", headers=headers, correlation_id="c", reply_to="r", priority=3)
    producer.publish(body, serializer="json", compression="zlib", declare=[queue], retry=True)
    got = Collected()
    with Consumer(connection, [queue], callbacks=[got], accept=["json"]):
        until(connection, lambda: len(got.bodies) == 2)
    assert got.bodies == [body, body]
    first, second = got.messages
    assert {name: first.headers[name] for name in headers} == headers
    assert (first.content_type, first.content_encoding) == ("application/json", "utf-8")
    assert {name: first.properties[name] for name in ("correlation_id", "reply_to", "priority", "delivery_mode")} == {
        "correlation_id": "c",
        "reply_to": "r",
        "priority": 3,
        "delivery_mode": 2,
    }
    assert first.delivery_info["exchange"] == queue.exchange.name
    assert second.headers["compression"] == "application/x-gzip"


def test_what_no_queue_takes_comes_back(connection: Connection, queue: Queue) -> None:
    back: list[tuple[Any, ...]] = []
    channel = connection.channel()
    producer = Producer(channel, queue.exchange, on_return=lambda *said: back.append(said))
    producer.publish("lost", routing_key="nowhere", mandatory=True)
    ((error, exchange, key, message),) = back
    assert (error.reply_code, exchange, key, message.body) == (312, queue.exchange.name, "nowhere", "lost")


def test_messages_are_acknowledged_given_back_and_rejected(connection: Connection, queue: Queue) -> None:
    producer = Producer(connection, queue.exchange, queue.routing_key)
    for number in range(3):
        producer.publish(number)
    got = Collected()
    with Consumer(connection, [queue], callbacks=[got], prefetch_count=3):
        until(connection, lambda: len(got.bodies) == 3)
        first, second, third = got.messages
        first.requeue()
        second.reject()
        third.ack()
        until(connection, lambda: len(got.bodies) == 4)
        assert (got.bodies[3], got.messages[3].delivery_info["redelivered"]) == (0, True)
        got.messages[3].ack()
    assert queue.get() is None


def test_the_prefetch_of_a_running_consumer_changes_as_celery_does_for_tasks_to_come(
    connection: Connection, queue: Queue
) -> None:
    producer = Producer(connection.channel(), queue.exchange, queue.routing_key)
    for number in range(8):
        producer.publish(number)
    got = Collected()
    with Consumer(connection, [queue], callbacks=[got], prefetch_count=2) as consumer:
        until(connection, lambda: len(got.bodies) == 2)
        for most in (3, 4, 5):
            consumer.qos(prefetch_count=most)
            until(connection, lambda most=most: len(got.bodies) == most)
        assert queue.queue_declare(passive=True).message_count == 3
        consumer.qos(prefetch_count=0)
        until(connection, lambda: len(got.bodies) == 8)
        consumer.recover(requeue=True)
        until(connection, lambda: len(got.bodies) == 16)
    assert got.bodies == [*range(8), *range(8)]
    assert connection.transport.qos_semantics_matches_spec(connection.connection)


def test_a_drain_without_events_ends_in_time_and_the_connection_goes_on(connection: Connection, queue: Queue) -> None:
    got = Collected()
    with Consumer(connection, [queue], callbacks=[got]):
        with pytest.raises(TimeoutError):
            connection.drain_events(timeout=0.2)
        Producer(connection.channel(), queue.exchange, queue.routing_key).publish("later")
        until(connection, lambda: got.bodies)
    assert got.bodies == ["later"]


def test_a_simple_queue_is_put_to_and_got_from(connection: Connection, named: Named) -> None:
    with connection.SimpleQueue(named("simple")) as simple:
        simple.put({"n": 1}, headers={"h": 1})
        simple.put("two", compression="bzip2")
        assert simple.qsize() == len(simple) == 2
        first, second = simple.get(timeout=SECONDS), simple.get(timeout=SECONDS)
        assert (first.payload, first.headers["h"], second.payload) == ({"n": 1}, 1, "two")
        with pytest.raises(simple.Empty):
            simple.get(timeout=0.2)
        with pytest.raises(simple.Empty):
            simple.get_nowait()
        first.ack()
        second.requeue()
        again = simple.get(timeout=SECONDS)
        assert again.payload == "two"
        again.ack()
    with connection.SimpleQueue(named("simple"), no_ack=True) as simple:
        simple.put("last")
        assert simple.get(timeout=SECONDS).payload == "last"
        assert simple.clear() == 0


def test_exchanges_and_queues_are_bound_declared_purged_unbound_and_deleted(
    connection: Connection, named: Named
) -> None:
    channel = connection.default_channel
    outer = Exchange(named("outer"), "topic", durable=False)(channel)
    inner = Exchange(named("inner"), "fanout", durable=False)(channel)
    outer.declare()
    inner.declare()
    inner.bind_to(outer, "a.*")
    bindings = [kombu.binding(outer, "b.*"), kombu.binding(inner, "")]
    queue = Queue(named("many"), bindings=bindings, durable=False, queue_arguments={"x-message-ttl": 60_000})(channel)
    queue.declare()
    producer = Producer(channel, outer)
    for key in ("a.1", "b.1", "c.1"):
        producer.publish(key, routing_key=key)
    assert [queue.get(no_ack=True).payload for _ in range(2)] == ["a.1", "b.1"]
    assert queue.get() is None
    inner.unbind_from(outer, "a.*")
    producer.publish("gone", routing_key="a.2")
    assert queue.purge() == 0
    assert queue.delete() == 0
    outer.delete()
    inner.delete(if_unused=True)


def test_an_error_of_a_channel_is_a_channel_error_and_the_connection_goes_on(
    connection: Connection, queue: Queue
) -> None:
    with pytest.raises(connection.channel_errors, match="inequivalent arg 'durable'"):
        Queue(queue.name, durable=True)(connection.channel()).declare()
    with pytest.raises(connection.channel_errors, match="no queue"):
        Queue(queue.name + "-nowhere")(connection.channel()).queue_declare(passive=True)
    with pytest.raises(connection.channel_errors, match="no exchange"):
        Producer(connection.channel()).publish("x", exchange=queue.name + "-nowhere", routing_key="x")
    assert queue.queue_declare(passive=True).message_count == 0


def test_a_consumer_that_was_cancelled_by_the_end_of_its_queue_raises_so_that_programs_consume_again(
    broker: AmqpBroker, connection: Connection, queue: Queue
) -> None:
    with to(broker.port) as other, Consumer(other, [queue(other.channel())], callbacks=[Collected()]):
        queue.delete()
        with pytest.raises(other.connection_errors, match="cancel"):
            other.drain_events(timeout=SECONDS)


def test_pools_of_connections_and_producers_are_shared_and_come_back(broker: AmqpBroker, named: Named) -> None:
    # A pool of the process is found by its address, and has no connection before one is asked for.
    where = to(broker.port)
    queue = Queue(named("pooled"), Exchange(named("pooled"), durable=False), named("pooled"), durable=False)
    try:
        for number in range(6):
            with pools.producers[where].acquire(block=True, timeout=SECONDS) as producer:
                producer.publish(
                    number, exchange=queue.exchange, routing_key=queue.routing_key, declare=[queue], retry=True
                )
        with pools.connections[where].acquire(block=True, timeout=SECONDS) as pooled:
            bound = queue(pooled.default_channel)
            assert [bound.get(no_ack=True).payload for _ in range(6)] == list(range(6))
    finally:
        pools.reset()


def test_ensure_publishes_through_a_broker_that_was_killed_and_comes_again(tmp_path: Path) -> None:
    with lasting(tmp_path) as broker, to(broker.port) as connection:
        queue = Queue("orders", Exchange("orders", "direct"), "orders")
        producer = Producer(connection)
        failures: list[object] = []

        def comes_again(error: object, _: float) -> None:
            failures.append(error)
            if len(failures) == 1:
                broker.start()

        policy = {"max_retries": 50, "interval_start": 0, "interval_step": 0.05, "errback": comes_again}
        said = {"exchange": queue.exchange, "routing_key": "orders", "declare": [queue], "retry": True}
        producer.publish("before", retry_policy=policy, **said)
        broker.kill()
        producer.publish("after", retry_policy=policy, **said)
        assert failures
        bound = queue(connection.default_channel)
        assert [bound.get(no_ack=True).payload for _ in range(2)] == ["before", "after"]
        broker.kill()
        with to(broker.port) as late, pytest.raises(OperationalError, match="refused"):
            late.ensure_connection(max_retries=1, interval_start=0, timeout=SECONDS)


class Worker(ConsumerMixin):
    """Consumes as long as there is something to do, and connects again by itself."""

    def __init__(self, connection: Connection, queue: Queue, broker: Lasting) -> None:
        self.connection = connection
        self.got: list[Any] = []
        self._queue = queue
        self._broker = broker
        self.lost = 0

    def get_consumers(self, consumer: Any, channel: Any) -> list[Any]:
        return [consumer([self._queue], callbacks=[self.take], prefetch_count=1)]

    def on_connection_error(self, exc: object, interval: float) -> None:
        self.lost += 1

    def on_connection_revived(self) -> None:
        self.lost += 1

    def take(self, body: Any, message: Message) -> None:
        self.got.append((body, bool(message.delivery_info["redelivered"])))
        if len(self.got) == 2:
            # What it holds was not acknowledged.
            self._broker.restart()
            return
        message.ack()
        if body == 2:
            self.should_stop = True


def test_a_worker_goes_on_where_the_broker_was_killed_while_it_held_a_message(tmp_path: Path) -> None:
    with lasting(tmp_path) as broker:
        queue = Queue("jobs", Exchange("jobs", "direct"), "jobs")
        with to(broker.port) as connection:
            for number in range(3):
                Producer(connection).publish(
                    number, exchange=queue.exchange, routing_key="jobs", declare=[queue], retry=True
                )
        with to(broker.port) as connection:
            worker = Worker(connection, queue, broker)
            worker.run(timeout=SECONDS)
            # The acknowledgement of the first may not have been on the disk.
            assert [body for body, _ in worker.got] in ([0, 1, 1, 2], [0, 1, 0, 1, 2])
            assert (1, True) in worker.got
            assert worker.lost
            assert queue(connection.channel()).get() is None


def test_a_heartbeat_keeps_a_connection_and_a_frozen_broker_is_noticed() -> None:
    with AmqpBroker() as broker, to(broker.port, heartbeat=1) as connection:
        connection.connect()
        ticking(connection, 2.5)
        assert connection.default_channel.queue_declare("alive", auto_delete=False).queue == "alive"
        with frozen(broker), pytest.raises(connection.connection_errors):
            ticking(connection, NOTICED_SECONDS)
        connection.collect()


def test_a_client_that_gives_no_sign_loses_what_it_held_and_may_come_again(
    broker: AmqpBroker, connection: Connection, queue: Queue
) -> None:
    Producer(connection, queue.exchange, queue.routing_key).publish("held")
    with to(broker.port, heartbeat=1) as silent:
        held, again = Collected(), Collected()
        Consumer(silent, [queue(silent.default_channel)], callbacks=[held]).consume()
        until(silent, lambda: held.bodies)
        with Consumer(connection, [queue], callbacks=[again]):
            until(connection, lambda: again.bodies)
        assert again.messages[0].delivery_info["redelivered"]
        with pytest.raises(silent.recoverable_connection_errors, match=r"silent for \d"):
            ticking(silent, SECONDS)
        silent.collect()
        assert silent.ensure_connection(max_retries=1, timeout=SECONDS)


def test_users_come_in_by_the_address_and_a_wrong_password_is_told(secured: Secured, named: Named) -> None:
    for where, options in (
        (f"amqp://{USER}:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{secured.port}//", {}),
        (
            f"amqps://{USER}:{PASSWORD.replace(' ', '%20')}@localhost:{secured.tls_port}//",
            {"ssl": {"ca_certs": secured.ca, "server_hostname": "localhost"}},
        ),
    ):
        with Connection(where, **options) as connection, connection.SimpleQueue(named("users")) as simple:
            simple.put("in")
            assert simple.get(timeout=SECONDS).payload == "in"
    wrong = Connection(f"amqp://{USER}:wrong@127.0.0.1:{secured.port}//")
    with wrong, pytest.raises(AccessRefused, match="Login was refused"):
        wrong.connect()
