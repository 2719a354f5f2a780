"""The two ends of a queue over AMQP, by the clients that programs use: pika, aio-pika and py-amqp.

Each message is confirmed and acknowledged. A publisher has so many messages unconfirmed at most, as far as its client can: py-amqp's
waits for each. A consumer acknowledges each message by itself.
"""

from __future__ import annotations

import asyncio
import time
from itertools import count
from typing import Any, Final

from benchmarks._amqp_raw import HOST, Confirmed
from benchmarks._processes import BenchmarkError
from benchmarks._worker import Parent

PERSISTENT: Final = 2


class _Work:
    """When one end began, and what it took."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._started = self._cpu = self._used = self._ended = 0.0

    def begin(self) -> None:
        self._started, self._cpu = time.monotonic(), time.process_time()

    def end(self) -> None:
        self._ended, self._used = time.monotonic(), time.process_time() - self._cpu

    def say(self, messages: int) -> None:
        self._parent.say(started=self._started, ended=self._ended, messages=messages, cpu_s=self._used)


# pika


def _select(port: int) -> tuple[Any, Any]:
    """A class of connections, and how one is made."""
    import pika  # noqa: PLC0415 - each role loads its own client

    return pika, pika.ConnectionParameters(HOST, port, heartbeat=0)


def pika_publish(parent: Parent, port: int, queue: str, messages: int, size: int, window: int) -> None:
    """By pika's asynchronous connection."""
    pika, parameters = _select(port)
    body, properties = bytes(size), pika.BasicProperties(delivery_mode=PERSISTENT)
    confirmed, work = Confirmed(messages), _Work(parent)
    sent = 0
    channel: Any = None

    def opened(connection: Any) -> None:
        connection.channel(on_open_callback=channel_opened)

    def channel_opened(found: Any) -> None:
        nonlocal channel
        channel = found
        channel.confirm_delivery(ack_nack_callback=told, callback=begin)

    def begin(_: Any) -> None:
        parent.say(ready=True)
        parent.wait()
        work.begin()
        fill()

    def told(frame: Any) -> None:
        if frame.method.NAME != "Basic.Ack":
            raise BenchmarkError(f"message {frame.method.delivery_tag} was not confirmed")
        confirmed.hear(frame.method.delivery_tag, frame.method.multiple)
        fill()

    def fill() -> None:
        nonlocal sent
        while sent < messages and sent - confirmed.count < window:
            channel.basic_publish("", queue, body, properties)
            sent += 1
        if confirmed.count == messages:
            work.end()
            connection.close()

    connection = pika.SelectConnection(
        parameters, on_open_callback=opened, on_close_callback=lambda closed, _: closed.ioloop.stop()
    )
    connection.ioloop.start()
    work.say(confirmed.count)


def pika_consume(parent: Parent, port: int, queue: str, messages: int, window: int) -> None:
    """Likewise."""
    pika, parameters = _select(port)
    work = _Work(parent)
    taken = 0

    def opened(connection: Any) -> None:
        connection.channel(on_open_callback=channel_opened)

    def channel_opened(channel: Any) -> None:
        channel.basic_qos(prefetch_count=window)
        channel.basic_consume(queue, take, callback=lambda _: parent.say(ready=True))

    def take(channel: Any, method: Any, _properties: Any, _body: bytes) -> None:
        nonlocal taken
        if not taken:
            work.begin()
        taken += 1
        channel.basic_ack(method.delivery_tag)
        if taken == messages:
            work.end()
            connection.close()

    connection = pika.SelectConnection(
        parameters, on_open_callback=opened, on_close_callback=lambda closed, _: closed.ioloop.stop()
    )
    connection.ioloop.start()
    work.say(taken)


# aio-pika


def aio_pika_publish(parent: Parent, port: int, queue: str, messages: int, size: int, window: int) -> None:
    """By tasks, each of which awaits the confirm of one message at a time."""
    import aio_pika  # noqa: PLC0415 - each role loads its own client

    work, numbers, body = _Work(parent), count(), bytes(size)

    async def publish(exchange: Any) -> None:
        while next(numbers) < messages:
            message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            confirmation = await exchange.publish(message, queue)
            if type(confirmation).__name__ != "Ack":
                raise BenchmarkError(f"a message was not confirmed but {confirmation}")

    async def run() -> None:
        async with await aio_pika.connect(host=HOST, port=port) as connection:
            channel = await connection.channel(publisher_confirms=True)
            parent.say(ready=True)
            await parent.told()
            work.begin()
            async with asyncio.TaskGroup() as group:
                for _ in range(window):
                    group.create_task(publish(channel.default_exchange))
            work.end()

    asyncio.run(run())
    work.say(messages)


def aio_pika_consume(parent: Parent, port: int, queue: str, messages: int, window: int) -> None:
    """By a callback."""
    import aio_pika  # noqa: PLC0415 - each role loads its own client

    work = _Work(parent)
    begun, taken = False, 0

    async def run() -> None:
        done = asyncio.Event()

        async def take(message: Any) -> None:
            nonlocal begun, taken
            if not begun:
                begun = True
                work.begin()
            # Each has a task of its own: the one that is taken last need not be the one that is acknowledged last.
            await message.ack()
            taken += 1
            if taken == messages:
                work.end()
                done.set()

        async with await aio_pika.connect(host=HOST, port=port) as connection:
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=window)
            found = await channel.get_queue(queue, ensure=False)
            await found.consume(take)
            parent.say(ready=True)
            await done.wait()

    asyncio.run(run())
    work.say(taken)


# py-amqp


def py_amqp_publish(parent: Parent, port: int, queue: str, messages: int, size: int, window: int) -> None:  # noqa: ARG001 - it waits for each
    """One message at a time, as its ``confirm_publish`` has it."""
    import amqp  # noqa: PLC0415 - each role loads its own client

    work, body = _Work(parent), bytes(size)
    with amqp.Connection(f"{HOST}:{port}", confirm_publish=True) as connection:
        channel = connection.channel()
        parent.say(ready=True)
        parent.wait()
        work.begin()
        for _ in range(messages):
            channel.basic_publish(amqp.Message(body, delivery_mode=PERSISTENT), routing_key=queue)
        work.end()
    work.say(messages)


def py_amqp_consume(parent: Parent, port: int, queue: str, messages: int, window: int) -> None:
    """By a callback."""
    import amqp  # noqa: PLC0415 - each role loads its own client

    work = _Work(parent)
    taken = 0
    with amqp.Connection(f"{HOST}:{port}") as connection:
        channel = connection.channel()

        def take(message: Any) -> None:
            nonlocal taken
            if not taken:
                work.begin()
            taken += 1
            channel.basic_ack(message.delivery_tag)

        channel.basic_qos(0, window, a_global=False)
        channel.basic_consume(queue, callback=take)
        parent.say(ready=True)
        while taken < messages:
            connection.drain_events()
        work.end()
    work.say(taken)
