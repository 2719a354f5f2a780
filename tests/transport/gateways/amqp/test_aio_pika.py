"""aio-pika, unchanged: connections that are made again, iterators over queues, and many tasks on one channel (docs/amqp.md)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aio_pika
import pytest
from aio_pika import DeliveryMode, ExchangeType, Message
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import (
    AMQPConnectionError,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    ConnectionClosed,
    DeliveryError,
    ProbableAuthenticationError,
    PublishError,
    QueueEmpty,
)
from aio_pika.patterns import Master, RejectMessage

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
Run = Callable[[Callable[[], Any]], None]


def address(port: int, **query: object) -> str:
    """Where a client connects, with its options."""
    options = "&".join(f"{name}={value}" for name, value in {"timeout": SECONDS, **query}.items())
    return f"amqp://guest:guest@127.0.0.1:{port}/?{options}"


@asynccontextmanager
async def connected(port: int, **query: object) -> AsyncIterator[AbstractConnection]:
    connection = await aio_pika.connect(address(port, **query), timeout=SECONDS)
    async with connection:
        yield connection


@asynccontextmanager
async def queue_of(port: int, name: str, **query: object) -> AsyncIterator[tuple[AbstractChannel, AbstractQueue]]:
    """A channel that confirms, and a queue."""
    async with connected(port, **query) as connection:
        channel = await connection.channel()
        yield channel, await channel.declare_queue(name)


async def publish(channel: AbstractChannel, queue: str, *bodies: str) -> None:
    """Publish, all at once, and wait for all confirms."""
    sent = [channel.default_exchange.publish(Message(body.encode()), queue) for body in bodies]
    await asyncio.gather(*sent)


async def bodies(queue: AbstractQueue) -> list[bytes]:
    """What is ready, taken out."""
    found = []
    while (message := await queue.get(no_ack=True, fail=False)) is not None:
        found.append(message.body)
    return found


class Collected:
    """What came to a consumer."""

    def __init__(self) -> None:
        self.messages: list[AbstractIncomingMessage] = []
        self._came = asyncio.Event()

    async def __call__(self, message: AbstractIncomingMessage) -> None:
        self.messages.append(message)
        self._came.set()

    async def until(self, number: int) -> list[AbstractIncomingMessage]:
        """Once so many have come."""
        async with asyncio.timeout(SECONDS):
            while len(self.messages) < number:
                self._came.clear()
                await self._came.wait()
        return self.messages


def test_a_message_comes_with_every_property_and_headers_of_every_type(
    run: Run, broker: AmqpBroker, named: Named
) -> None:
    headers: dict[str, Any] = {
        "true": True,
        "small": -5,
        "large": 1 << 40,
        "float": 2.5,
        "text": "\u00fcber",
        "bytes": bytearray(b"\x00\xff"),
        "decimal": Decimal("12.5"),
        "when": datetime(2024, 2, 29, 12, 30, tzinfo=UTC),
        "table": {"inner": {"deep": 1}},
        "array": [1, "two", False, None, {"three": 3}],
        "none": None,
    }

    async def main() -> None:
        async with queue_of(broker.port, named("all")) as (channel, queue):
            sent = Message(
                b"body",
                headers=headers,
                content_type="text/plain",
                content_encoding="utf-8",
                delivery_mode=DeliveryMode.PERSISTENT,
                priority=7,
                correlation_id="c",
                reply_to="answers",
                message_id="m",
                timestamp=datetime(2024, 2, 29, 12, 30, tzinfo=UTC),
                type="kind",
                app_id="shop",
            )
            await channel.default_exchange.publish(sent, queue.name)
            got = await queue.get(timeout=SECONDS)
            await got.ack()
            assert got.body == b"body"
            assert got.headers == headers
            for name in (
                "content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "reply_to", "message_id",
                "timestamp", "type", "app_id",
            ):  # fmt: skip
                assert getattr(got, name) == getattr(sent, name), name
            with pytest.raises(QueueEmpty):
                await queue.get()

    run(main)


def test_publishes_are_confirmed_together_and_what_no_queue_takes_comes_back(
    run: Run, broker: AmqpBroker, named: Named
) -> None:
    async def main() -> None:
        async with queue_of(broker.port, named("kept")) as (channel, queue):
            await publish(channel, queue.name, *map(str, range(500)))
            assert await bodies(queue) == [b"%d" % each for each in range(500)]
            back: list[AbstractIncomingMessage] = []
            channel.return_callbacks.add(lambda _, message: back.append(message))
            await channel.default_exchange.publish(Message(b"lost"), "nowhere", mandatory=True)
            assert [(message.body, message.routing_key) for message in back] == [(b"lost", "nowhere")]
        async with connected(broker.port) as connection:
            strict = await connection.channel(on_return_raises=True)
            with pytest.raises(PublishError):
                await strict.default_exchange.publish(Message(b"lost"), "nowhere", mandatory=True)
            assert await strict.default_exchange.publish(Message(b"nobody asks"), "nowhere", mandatory=False)

    run(main)


def test_a_full_queue_rejects_and_the_publisher_hears_it(run: Run, broker: AmqpBroker, named: Named) -> None:
    async def main() -> None:
        async with connected(broker.port) as connection:
            channel = await connection.channel()
            limits = {"x-max-length": 1, "x-overflow": "reject-publish"}
            queue = await channel.declare_queue(named("small"), arguments=limits)
            await publish(channel, queue.name, "1")
            with pytest.raises(DeliveryError):
                await publish(channel, queue.name, "2")
            assert await bodies(queue) == [b"1"]

    run(main)


def test_a_prefetch_that_changes_while_messages_come_counts_at_once(run: Run, broker: AmqpBroker, named: Named) -> None:
    async def main() -> None:
        async with queue_of(broker.port, named("q")) as (channel, queue):
            await publish(channel, queue.name, *map(str, range(10)))
            await channel.set_qos(prefetch_count=2)
            got = Collected()
            tag = await queue.consume(got)
            await got.until(2)
            assert (await queue.declare()).message_count == 8
            await channel.set_qos(prefetch_count=5)
            await got.until(5)
            assert (await queue.declare()).message_count == 5
            await channel.set_qos(prefetch_count=1)
            for message in got.messages[:4]:
                await message.ack()
            assert (await queue.declare()).message_count == 5
            await got.messages[4].ack()
            await got.until(6)
            await queue.cancel(tag)
            await got.messages[5].nack(requeue=True)
            assert [int(message.body) for message in got.messages] == list(range(6))
            assert await bodies(queue) == [b"%d" % each for each in range(5, 10)]

    run(main)


def test_what_is_given_back_comes_again_and_what_is_rejected_does_not(
    run: Run, broker: AmqpBroker, named: Named
) -> None:
    async def main() -> None:
        async with queue_of(broker.port, named("q")) as (channel, queue):
            await publish(channel, queue.name, "0", "1", "2")
            first, second, third = [await queue.get() for _ in range(3)]
            await first.reject(requeue=True)
            await second.nack(requeue=False)
            async with third.process(requeue=True, ignore_processed=True):
                await third.reject(requeue=True)
            again = [await queue.get() for _ in range(2)]
            assert [(message.body, message.redelivered) for message in again] == [(b"0", True), (b"2", True)]
            with pytest.raises(ValueError, match="a defect of the program"):
                async with again[0].process(requeue=True):
                    raise ValueError("a defect of the program")
            async with again[1].process():
                pass
            assert await bodies(queue) == [b"0"]

    run(main)


def test_an_iterator_over_a_queue_gives_back_what_it_did_not_come_to(
    run: Run, broker: AmqpBroker, named: Named
) -> None:
    async def main() -> None:
        async with queue_of(broker.port, named("q")) as (channel, queue):
            await publish(channel, queue.name, *map(str, range(6)))
            await channel.set_qos(prefetch_count=3)
            seen = []
            async with queue.iterator(timeout=SECONDS) as messages:
                async for message in messages:
                    async with message.process():
                        seen.append(message.body)
                    if len(seen) == 2:
                        break
            assert seen == [b"0", b"1"]
            assert await bodies(queue) == [b"2", b"3", b"4", b"5"]
            async with queue.iterator(timeout=0.2) as messages:
                with pytest.raises(asyncio.TimeoutError):
                    await anext(messages)

    run(main)


def test_a_consumer_whose_queue_is_deleted_hears_it(run: Run, broker: AmqpBroker, named: Named) -> None:
    async def main() -> None:
        async with queue_of(broker.port, named("q")) as (_, queue), connected(broker.port) as connection:
            other = await connection.channel()
            gone: asyncio.Queue[str] = asyncio.Queue()
            below = await other.get_underlay_channel()
            below.on_consumer_cancel_callbacks.add(lambda frame: gone.put_nowait(frame.consumer_tag))
            tag = await (await other.get_queue(queue.name)).consume(Collected())
            await queue.delete(if_unused=False, if_empty=False)
            async with asyncio.timeout(SECONDS):
                assert await gone.get() == tag
            assert await other.declare_queue(queue.name)

    run(main)


def test_exchanges_of_each_kind_are_declared_bound_unbound_and_deleted(
    run: Run, broker: AmqpBroker, named: Named
) -> None:
    async def main() -> None:
        async with queue_of(broker.port, named("q")) as (channel, queue):
            inner = await channel.declare_exchange(named("inner"), ExchangeType.FANOUT)
            for kind, key, good, bad in (
                (ExchangeType.DIRECT, "k", "k", "j"),
                (ExchangeType.TOPIC, "a.#", "a.b.c", "b"),
            ):
                outer = await channel.declare_exchange(named(kind.value), kind)
                await inner.bind(outer, key)
                await queue.bind(inner)
                for each in (good, bad):
                    await outer.publish(Message(each.encode()), each)
                assert await bodies(queue) == [good.encode()]
                await inner.unbind(outer, key)
                await outer.publish(Message(b"gone"), good)
                await outer.delete()
            await queue.unbind(inner)
            await inner.delete(if_unused=True)
            await publish(channel, queue.name, "1", "2")
            assert (await queue.purge()).message_count == 2
            assert (await queue.delete()).message_count == 0

    run(main)


def test_an_error_closes_its_channel_alone_and_the_channel_is_opened_again(
    run: Run, broker: AmqpBroker, named: Named
) -> None:
    async def main() -> None:
        async with connected(broker.port) as connection:
            other = await connection.channel()
            channel = await connection.channel()
            with pytest.raises(ChannelNotFoundEntity, match="no queue 'nowhere' in vhost '/'"):
                await channel.declare_queue("nowhere", passive=True)
            await channel.reopen()
            queue = await channel.declare_queue(named("q"))
            with pytest.raises(ChannelPreconditionFailed, match="inequivalent arg 'durable'"):
                await channel.declare_queue(named("q"), durable=True)
            await channel.reopen()
            with pytest.raises(ChannelNotFoundEntity, match="no exchange 'nowhere' in vhost '/'"):
                await channel.get_exchange("nowhere")
            await channel.reopen()
            await other.declare_exchange(named("gone"))
            exchange = await channel.get_exchange(named("gone"))
            await other.exchange_delete(named("gone"))
            with pytest.raises(ChannelNotFoundEntity, match="no exchange"):
                await exchange.publish(Message(b"lost"), "k")
            await channel.reopen()
            await publish(channel, queue.name, "1")
            assert await bodies(queue) == [b"1"]

    run(main)


def test_a_robust_connection_comes_again_with_its_queues_bindings_and_consumers(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        with lasting(tmp_path) as broker:
            connection = await aio_pika.connect_robust(address(broker.port, reconnect_interval=0.05), timeout=SECONDS)
            async with connection:
                back = asyncio.Event()
                connection.reconnect_callbacks.add(lambda *_: back.set())
                channel = await connection.channel()
                await channel.set_qos(prefetch_count=1)
                exchange = await channel.declare_exchange("jobs", ExchangeType.TOPIC, durable=True)
                stored = await channel.declare_queue("stored", durable=True)
                passing = await channel.declare_queue("passing", durable=False)
                await stored.bind(exchange, "#")
                await passing.bind(exchange, "#")
                got = Collected()
                await stored.consume(got)
                await exchange.publish(Message(b"before", delivery_mode=DeliveryMode.PERSISTENT), "a")
                (held,) = await got.until(1)
                assert not held.redelivered
                await asyncio.to_thread(broker.restart)
                async with asyncio.timeout(SECONDS):
                    await back.wait()
                again = (await got.until(2))[1]
                assert (again.body, again.redelivered) == (b"before", True)
                await again.ack()
                await exchange.publish(Message(b"after"), "b")
                assert (await got.until(3))[2].body == b"after"
                await got.messages[2].ack()
                assert await bodies(passing) == [b"after"]

    run(main)


def test_a_robust_consumer_comes_again_once_its_queue_is_there_again(
    run: Run, broker: AmqpBroker, named: Named
) -> None:
    async def main() -> None:
        where = address(broker.port, reconnect_interval=0.05)
        async with queue_of(broker.port, named("q")) as (channel, queue):
            connection = await aio_pika.connect_robust(where, timeout=SECONDS)
            async with connection:
                robust = await (await connection.channel()).declare_queue(named("q"))
                got = Collected()
                await robust.consume(got, no_ack=True)
                await publish(channel, named("q"), "before")
                await got.until(1)
                await queue.delete(if_unused=False, if_empty=False)
                await queue.declare()
                await publish(channel, named("q"), "after")
                assert [message.body for message in await got.until(2)] == [b"before", b"after"]

    run(main)


def test_a_master_hands_tasks_to_workers(run: Run, broker: AmqpBroker, named: Named) -> None:
    async def main() -> None:
        async with connected(broker.port) as connection:
            master = Master(await connection.channel())
            done: asyncio.Queue[int] = asyncio.Queue()

            async def double(*, number: int) -> None:
                if number == 3:
                    raise RejectMessage(requeue=False)
                done.put_nowait(2 * number)

            worker = await master.create_worker(named("double"), double, durable=False)
            for number in range(5):
                await master.create_task(named("double"), {"number": number})
            async with asyncio.timeout(SECONDS):
                assert sorted([await done.get() for _ in range(4)]) == [0, 2, 4, 8]
            await worker.close()

    run(main)


def test_a_heartbeat_keeps_an_idle_connection(run: Run, broker: AmqpBroker, named: Named) -> None:
    async def main() -> None:
        async with queue_of(broker.port, named("q"), heartbeat=1) as (channel, queue):
            # Nothing is published: the deadline is three heartbeats, and only heartbeats pass.
            with pytest.raises(asyncio.TimeoutError):
                async with queue.iterator(timeout=3) as messages:
                    await anext(messages)
            await publish(channel, queue.name, "alive")
            assert await bodies(queue) == [b"alive"]

    run(main)


def test_a_broker_that_says_nothing_is_noticed(run: Run) -> None:
    async def main() -> None:
        with AmqpBroker() as broker:
            connection = await aio_pika.connect(address(broker.port, heartbeat=1), timeout=SECONDS)
            gone = asyncio.Event()
            connection.close_callbacks.add(lambda *_: gone.set())
            with frozen(broker):
                async with asyncio.timeout(NOTICED_SECONDS):
                    await gone.wait()
            assert connection.is_closed or not connection.connected.is_set()
            await connection.close()

    run(main)


def test_a_client_that_gives_no_sign_loses_what_it_held(run: Run, broker: AmqpBroker, named: Named) -> None:
    silent = asyncio.new_event_loop()

    async def hold() -> AbstractConnection:
        connection = await aio_pika.connect(address(broker.port, heartbeat=1), timeout=SECONDS)
        channel = await connection.channel()
        queue = await channel.declare_queue(named("q"))
        await publish(channel, queue.name, "held")
        assert (await queue.get()).body == b"held"
        return connection

    async def main() -> None:
        async with queue_of(broker.port, named("q")) as (_, queue):
            got = Collected()
            await queue.consume(got)
            since = asyncio.get_running_loop().time()
            (again,) = await got.until(1)
            assert again.redelivered
            await again.ack()
            assert asyncio.get_running_loop().time() - since < MOST_SILENT_SECONDS

    try:
        connection = silent.run_until_complete(hold())
        # Its loop stands still.
        run(main)
        silent.run_until_complete(connection.close())
    finally:
        silent.run_until_complete(silent.shutdown_asyncgens())
        silent.close()


def test_what_is_published_just_before_the_end_is_stored(run: Run, broker: AmqpBroker, named: Named) -> None:
    async def main() -> None:
        async with queue_of(broker.port, named("q")) as (_, queue):
            for number in range(10):
                async with connected(broker.port) as leaving:
                    channel = await leaving.channel(publisher_confirms=False)
                    await publish(channel, queue.name, str(number))
            assert sorted(await bodies(queue)) == [b"%d" % number for number in range(10)]

    run(main)


def test_users_come_in_under_tls_and_renew_their_password(run: Run, secured: Secured, named: Named) -> None:
    login = f"{USER}:{quote(PASSWORD)}"

    async def main() -> None:
        connection = await aio_pika.connect(
            f"amqps://{login}@localhost:{secured.tls_port}/", ssl_context=secured.context(), timeout=SECONDS
        )
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(named("tls"))
            await publish(channel, queue.name, "x" * 300_000)
            assert await bodies(queue) == [b"x" * 300_000]
            await connection.update_secret(PASSWORD, reason="renewed", timeout=SECONDS)
            await publish(channel, queue.name, "after")
            with pytest.raises((ConnectionClosed, AMQPConnectionError), match="New secret was refused"):
                await connection.update_secret("wrong", reason="a mistake", timeout=SECONDS)
        with pytest.raises(ProbableAuthenticationError, match="Login was refused"):
            await aio_pika.connect(f"amqp://{USER}:wrong@127.0.0.1:{secured.port}/", timeout=SECONDS)
        async with await aio_pika.connect(f"amqp://{login}@127.0.0.1:{secured.port}/", timeout=SECONDS) as connection:
            found = await (await connection.channel()).get_queue(named("tls"))
            assert await bodies(found) == [b"after"]

    run(main)


def test_a_secret_is_renewed_where_nobody_is_asked_for_one(run: Run, broker: AmqpBroker) -> None:
    async def main() -> None:
        async with connected(broker.port) as connection:
            await connection.update_secret("anything", reason="renewed", timeout=SECONDS)
            assert await connection.channel()

    run(main)
