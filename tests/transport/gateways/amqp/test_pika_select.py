"""pika's connections that are told of everything by callbacks, unchanged: on its own loop and on asyncio's (docs/amqp.md).

The blocking one is in test_pika.py; its heartbeats, users and TLS are here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.exceptions import (
    AMQPConnectionError,
    AMQPHeartbeatTimeout,
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ConnectionClosedByClient,
    ProbableAuthenticationError,
    StreamLostError,
)

from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.peers import NOTICED_SECONDS, PASSWORD, SECONDS, USER, Secured, frozen, lasting

Named = Callable[[str], str]


class OnSelect:
    """A connection on pika's own loop."""

    def __init__(self) -> None:
        self.loop: Any = None

    def connect(self, parameters: pika.ConnectionParameters, **told: Any) -> Any:
        self.connection: Any = pika.SelectConnection(parameters, **told)
        self.loop = self.connection.ioloop
        return self.connection

    def run(self, seconds: float) -> None:
        late = self.loop.call_later(seconds, self.loop.stop)
        self.loop.start()
        self.loop.remove_timeout(late)

    def stop(self) -> None:
        self.loop.stop()

    def close(self) -> None:
        self.loop.close()


class OnAsyncio:
    """A connection on asyncio's."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()

    def connect(self, parameters: pika.ConnectionParameters, **told: Any) -> Any:
        self.connection: Any = AsyncioConnection(parameters, custom_ioloop=self.loop, **told)
        return self.connection

    def run(self, seconds: float) -> None:
        late = self.loop.call_later(seconds, self.loop.stop)
        self.loop.run_forever()
        late.cancel()

    def stop(self) -> None:
        self.loop.stop()

    def close(self) -> None:
        self.loop.close()


class Driver:
    """Runs a connection's loop until it has called back.

    Attributes:
        connection: the connection, which is open.
        gone: why it is not any more.
    """

    def __init__(self, adapter: type[OnSelect | OnAsyncio], parameters: pika.ConnectionParameters) -> None:
        self._on = adapter()
        self.gone: list[BaseException] = []
        self.connection = self._on.connect(
            parameters,
            on_open_callback=lambda _: self._on.stop(),
            on_open_error_callback=self._closed,
            on_close_callback=self._closed,
        )
        self._on.run(SECONDS)
        if self.gone:
            self._on.close()
            raise self.gone[0]
        assert self.connection.is_open, "it has not opened in time"

    def _closed(self, _: Any, why: BaseException) -> None:
        self.gone.append(why)
        self._on.stop()

    def answer(self, begin: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What something calls back with, that is begun with ``callback``."""
        came: list[Any] = []

        def callback(said: Any) -> None:
            came.append(said)
            self._on.stop()

        begin(*arguments, callback=callback, **options)
        self.until(lambda: came)
        return came[0]

    def until(self, holds: Callable[[], object], seconds: float = SECONDS) -> None:
        """Run until it holds; whatever is to make it hold stops the loop."""
        while not holds():
            before = len(self.gone)
            self._on.run(seconds)
            assert holds() or len(self.gone) == before, self.gone

    def stop(self, *_: Any) -> None:
        """Have `until` look again."""
        self._on.stop()

    def pause(self, seconds: float) -> None:
        """Run for so long, whatever happens."""
        self._on.run(seconds)

    def channel(self) -> Any:
        """A channel that is open."""
        came: list[Any] = []

        def opened(channel: Any) -> None:
            came.append(channel)
            self._on.stop()

        self.connection.channel(on_open_callback=opened)
        self.until(lambda: came)
        return came[0]

    def close(self) -> None:
        """Close the connection, if nobody has, and its loop."""
        if self.connection.is_open:
            self.connection.close()
        self.until(lambda: self.gone)
        self._on.close()


ADAPTERS = [OnSelect, OnAsyncio]


def parameters(port: int, **options: Any) -> pika.ConnectionParameters:
    return pika.ConnectionParameters("127.0.0.1", port, blocked_connection_timeout=SECONDS, **options)


@pytest.fixture(params=ADAPTERS, ids=["select", "asyncio"])
def driver(request: pytest.FixtureRequest, broker: AmqpBroker) -> Iterator[Driver]:
    driven = Driver(request.param, parameters(broker.port))
    try:
        yield driven
    finally:
        driven.close()


@contextmanager
def blocking(port: int, **options: Any) -> Iterator[pika.BlockingConnection]:
    connection = pika.BlockingConnection(parameters(port, **options))
    try:
        yield connection
    finally:
        if connection.is_open:
            connection.close()


class Collected:
    """What came to a consumer."""

    def __init__(self, driver: Driver, channel: Any) -> None:
        self.messages: list[tuple[Any, Any, bytes]] = []
        self._driver, self._channel = driver, channel

    def __call__(self, _: Any, method: Any, properties: Any, body: bytes) -> None:
        self.messages.append((method, properties, body))
        self._driver.stop()

    def until(self, number: int) -> list[bytes]:
        self._driver.until(lambda: len(self.messages) >= number)
        return [body for _, _, body in self.messages]


def test_publishes_are_confirmed_and_what_no_queue_takes_comes_back_first(driver: Driver, named: Named) -> None:
    channel = driver.channel()
    queue = driver.answer(channel.queue_declare, named("q")).method.queue
    told: list[tuple[str, int]] = []

    def confirmed(frame: Any) -> None:
        told.append((frame.method.NAME, frame.method.delivery_tag if frame.method.multiple is False else -1))
        driver.stop()

    channel.add_on_return_callback(lambda _c, method, _p, body: told.append((method.reply_text, int(body))))
    driver.answer(channel.confirm_delivery, confirmed)
    channel.basic_publish("", "nowhere", b"7", mandatory=True)
    driver.until(lambda: len(told) == 2)
    assert told == [("NO_ROUTE", 7), ("Basic.Ack", 1)]
    numbers: list[int] = []
    channel.add_on_return_callback(lambda *_: numbers.append(-1))
    for number in range(300):
        channel.basic_publish("", queue, b"%d" % number, pika.BasicProperties(delivery_mode=2), mandatory=True)
    assert driver.answer(channel.queue_declare, queue, passive=True).method.message_count == 300
    driver.until(lambda: told[-1] in (("Basic.Ack", 301), ("Basic.Ack", -1)))
    assert not numbers


def test_headers_come_as_they_were_with_every_type_that_pika_has(driver: Driver, named: Named) -> None:
    headers = {
        "true": True,
        "small": -5,
        "large": 1 << 40,
        "decimal": Decimal("12.5"),
        "when": datetime(2024, 2, 29, 12, 30, tzinfo=UTC),
        "text": "\u00fcber",
        "bytes": b"\x00\xff",
        "table": {"inner": {"deep": [1, {"x": None}]}},
        "array": [1, "two", False, None],
        "none": None,
        "": "no name",
    }
    channel = driver.channel()
    queue = driver.answer(channel.queue_declare, named("q")).method.queue
    sent = pika.BasicProperties(headers=headers, user_id="guest", cluster_id="c", priority=255)
    channel.basic_publish("", queue, b"", sent)
    found: list[Any] = []

    def got(_c: Any, _m: Any, properties: Any, _b: bytes) -> None:
        found.append(properties)
        driver.stop()

    channel.basic_get(queue, got, auto_ack=True)
    driver.until(lambda: found)
    assert found == [sent]


def test_consumers_are_paced_changed_settled_and_cancelled(driver: Driver, named: Named) -> None:
    channel = driver.channel()
    queue = driver.answer(channel.queue_declare, named("q")).method.queue
    for number in range(10):
        channel.basic_publish("", queue, b"%d" % number)
    driver.answer(channel.basic_qos, prefetch_count=2)
    got = Collected(driver, channel)
    consumed = driver.answer(channel.basic_consume, queue, got, consumer_tag="mine")
    assert consumed.method.consumer_tag == "mine"
    assert got.until(2) == [b"0", b"1"]
    assert driver.answer(channel.queue_declare, queue, passive=True).method.message_count == 8
    driver.answer(channel.basic_qos, prefetch_count=4)
    assert got.until(4) == [b"0", b"1", b"2", b"3"]
    channel.basic_ack(2, multiple=True)
    channel.basic_nack(3, requeue=False)
    channel.basic_reject(4, requeue=True)
    # Each is answered as it is settled, so what is given back comes behind what was free before.
    assert got.until(8)[4:] == [b"4", b"5", b"6", b"3"]
    assert [method.redelivered for method, _, _ in got.messages[4:]] == [False, False, False, True]
    assert driver.answer(channel.basic_cancel, "mine").method.consumer_tag == "mine"
    driver.answer(channel.basic_recover, requeue=True)
    bodies: list[bytes] = []

    def found(_: Any, _method: Any, _properties: Any, body: bytes) -> None:
        bodies.append(body)
        driver.stop()

    for expected in range(3, 10):
        channel.basic_get(queue, found, auto_ack=True)
        driver.until(lambda expected=expected: bodies[-1:] == [b"%d" % expected])
    assert driver.answer(channel.queue_delete, queue).method.message_count == 0


def test_a_consumer_hears_that_its_queue_is_gone(driver: Driver, named: Named) -> None:
    channel, other = driver.channel(), driver.channel()
    queue = driver.answer(channel.queue_declare, named("q")).method.queue
    gone: list[str] = []

    def cancelled(frame: Any) -> None:
        gone.append(frame.method.consumer_tag)
        driver.stop()

    channel.add_on_cancel_callback(cancelled)
    tag = driver.answer(channel.basic_consume, queue, lambda *_: None).method.consumer_tag
    other.queue_delete(queue)
    driver.until(lambda: gone)
    assert gone == [tag]


def test_exchanges_are_declared_bound_unbound_and_deleted(driver: Driver, named: Named) -> None:
    channel = driver.channel()
    queue = driver.answer(channel.queue_declare, named("q")).method.queue
    driver.answer(channel.exchange_declare, named("outer"), "topic")
    driver.answer(channel.exchange_declare, named("inner"), "fanout")
    driver.answer(channel.exchange_bind, named("inner"), named("outer"), routing_key="a.*")
    driver.answer(channel.queue_bind, queue, named("inner"))
    channel.basic_publish(named("outer"), "a.b", b"1")
    channel.basic_publish(named("outer"), "b.a", b"2")
    assert driver.answer(channel.queue_declare, queue, passive=True).method.message_count == 1
    driver.answer(channel.queue_unbind, queue, named("inner"))
    driver.answer(channel.exchange_unbind, named("inner"), named("outer"), routing_key="a.*")
    driver.answer(channel.exchange_delete, named("inner"))
    driver.answer(channel.exchange_delete, named("outer"))
    assert driver.answer(channel.queue_purge, queue).method.message_count == 1


def test_an_error_closes_its_channel_alone_and_another_is_opened(driver: Driver, named: Named) -> None:
    wrong, other = driver.channel(), driver.channel()
    why: list[BaseException] = []

    def closed(_: Any, reason: BaseException) -> None:
        why.append(reason)
        driver.stop()

    wrong.add_on_close_callback(closed)
    # What comes behind the mistake is passed over.
    wrong.queue_declare(named("nowhere"), passive=True)
    wrong.basic_publish("", "nowhere", b"x" * 200_000)
    driver.until(lambda: why)
    assert isinstance(why[0], ChannelClosedByBroker)
    assert (why[0].reply_code, why[0].reply_text) == (404, f"NOT_FOUND - no queue '{named('nowhere')}' in vhost '/'")
    for channel in (other, driver.channel()):
        assert driver.answer(channel.queue_declare, named("q")).method.queue == named("q")
    driver.answer(other.flow, True)
    assert driver.connection.is_open


def test_channels_are_closed_by_the_client_and_their_numbers_used_again(driver: Driver, named: Named) -> None:
    for _ in range(3):
        channel = driver.channel()
        assert channel.channel_number == 1
        closed: list[BaseException] = []
        channel.add_on_close_callback(lambda _, why, closed=closed: (closed.append(why), driver.stop()))
        channel.basic_publish("", named("nobody"), b"lost")
        channel.close()
        driver.until(lambda closed=closed: closed)
    driver.connection.close()
    driver.until(lambda: driver.gone)
    assert isinstance(driver.gone[0], ConnectionClosedByClient)


def test_limits_that_a_client_asks_for_are_kept_both_ways(broker: AmqpBroker, named: Named) -> None:
    with (
        pytest.raises(AMQPConnectionError, match=r"frame_max = 4096 is lower than the minimum allowed value \(8192\)"),
        blocking(broker.port, frame_max=4_096),
    ):
        pass
    with blocking(broker.port, frame_max=8_192, channel_max=2, heartbeat=0) as connection:
        first, second = connection.channel(), connection.channel()
        with pytest.raises(pika.exceptions.NoFreeChannels):
            connection.channel()
        queue = first.queue_declare(named("q")).method.queue
        first.confirm_delivery()
        large = bytes(range(256)) * 800
        first.basic_publish("", queue, large, pika.BasicProperties(headers={"text": "x" * 6_000}))
        first.basic_publish("", queue, large)
        method, properties, body = second.basic_get(queue)
        assert (body, properties.headers) == (large, {"text": "x" * 6_000})
        second.basic_ack(method.delivery_tag)
        _, _, body = next(first.consume(queue, inactivity_timeout=SECONDS))
        assert body == large


def test_a_secret_is_renewed(driver: Driver) -> None:
    came: list[Any] = []
    driver.connection.update_secret("anything", "renewed", lambda frame: (came.append(frame), driver.stop()))
    driver.until(lambda: came)
    assert came[0].method.NAME == "Connection.UpdateSecretOk"


@pytest.mark.parametrize("adapter", ADAPTERS, ids=["select", "asyncio"])
def test_a_connection_that_is_lost_is_made_again_and_what_it_held_comes_again(
    tmp_path: Path, adapter: type[OnSelect | OnAsyncio]
) -> None:
    with lasting(tmp_path) as broker:
        first = Driver(adapter, parameters(broker.port))
        channel = first.channel()
        first.answer(channel.queue_declare, "orders", durable=True)
        first.answer(channel.confirm_delivery, first.stop)
        channel.basic_publish("", "orders", b"kept", pika.BasicProperties(delivery_mode=2))
        got = Collected(first, channel)
        first.answer(channel.basic_consume, "orders", got)
        got.until(1)
        broker.kill()
        first.until(lambda: first.gone)
        assert isinstance(first.gone[0], StreamLostError)
        first.close()
        with pytest.raises(AMQPConnectionError):
            Driver(adapter, parameters(broker.port))
        broker.start()
        second = Driver(adapter, parameters(broker.port))
        channel = second.channel()
        got = Collected(second, channel)
        second.answer(channel.basic_consume, "orders", got)
        assert got.until(1) == [b"kept"]
        assert got.messages[0][0].redelivered
        second.close()


def test_heartbeats_keep_an_idle_connection_and_a_frozen_broker_is_noticed() -> None:
    with AmqpBroker() as broker:
        driver = Driver(OnSelect, parameters(broker.port, heartbeat=1))
        driver.pause(2.5)
        assert driver.connection.is_open
        with frozen(broker):
            driver.until(lambda: driver.gone, NOTICED_SECONDS)
        assert isinstance(driver.gone[0], AMQPHeartbeatTimeout)
        driver.close()


def test_a_blocking_client_that_does_not_come_to_its_heartbeats_loses_what_it_held(
    broker: AmqpBroker, named: Named
) -> None:
    with blocking(broker.port, heartbeat=1) as busy, blocking(broker.port) as other:
        channel = busy.channel()
        queue = channel.queue_declare(named("q")).method.queue
        channel.basic_publish("", queue, b"held")
        method, _, _ = next(channel.consume(queue, inactivity_timeout=SECONDS))
        assert not method.redelivered
        # It works on the message, and gives no sign.
        method, _, body = next(other.channel().consume(queue, inactivity_timeout=SECONDS))
        assert (method.redelivered, body) == (True, b"held")
        with pytest.raises(ConnectionClosedByBroker, match=r"silent for \d") as told:
            channel.queue_declare(queue, passive=True)
        assert told.value.reply_code == 320


def test_users_come_in_by_password_or_certificate_in_plain_and_under_tls(secured: Secured, named: Named) -> None:
    by_password = pika.PlainCredentials(USER, PASSWORD)
    trusted = pika.SSLOptions(secured.context(), "localhost")
    shown = pika.SSLOptions(secured.context(shown=True), "localhost")
    for port, options in (
        (secured.port, {"credentials": by_password}),
        (secured.tls_port, {"credentials": by_password, "ssl_options": trusted}),
        (secured.tls_port, {"credentials": pika.credentials.ExternalCredentials(), "ssl_options": shown}),
    ):
        with blocking(port, **options) as connection:
            channel = connection.channel()
            queue = channel.queue_declare(named("q")).method.queue
            channel.confirm_delivery()
            channel.basic_publish("", queue, b"x" * 300_000)
            assert channel.basic_get(queue, auto_ack=True)[2] == b"x" * 300_000
    with (
        pytest.raises(ProbableAuthenticationError, match="Login was refused"),
        blocking(secured.port, credentials=pika.PlainCredentials(USER, "wrong")),
    ):
        pass


@pytest.mark.parametrize("adapter", ADAPTERS, ids=["select", "asyncio"])
def test_it_comes_by_tls_on_each_loop_and_renews_its_password(
    secured: Secured, named: Named, adapter: type[OnSelect | OnAsyncio]
) -> None:
    trusted = pika.SSLOptions(secured.context(), "localhost")
    said = parameters(secured.tls_port, credentials=pika.PlainCredentials(USER, PASSWORD), ssl_options=trusted)
    driver = Driver(adapter, said)
    channel = driver.channel()
    queue = driver.answer(channel.queue_declare, named("q")).method.queue
    got = Collected(driver, channel)
    driver.answer(channel.basic_consume, queue, got, auto_ack=True)
    channel.basic_publish("", queue, b"x" * 300_000)
    assert got.until(1) == [b"x" * 300_000]
    came: list[Any] = []
    driver.connection.update_secret(PASSWORD, "renewed", lambda frame: (came.append(frame), driver.stop()))
    driver.until(lambda: came)
    driver.connection.update_secret("wrong", "a mistake", lambda _: None)
    driver.until(lambda: driver.gone)
    assert isinstance(driver.gone[0], ConnectionClosedByBroker)
    assert driver.gone[0].reply_text == "NOT_ALLOWED - New secret was refused by one of the backends"
    driver.close()
