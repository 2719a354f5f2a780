"""``python -m tests.fault.amqp_demand``: what consumers of AMQP that hold much, or are slow, cost the broker in memory.

``unacknowledged``: a million messages go to a client without a prefetch limit, which settles none of them; then it goes, and all are
back; then another has them all, and acknowledges them at once. ``held-back``: a consumer of pika with a prefetch of 10 takes a hundred a
second, and a native sender that could do far more is held back by a queue that blocks. ``consumers``: a hundred thousand of them on some
connections come, get a message each, and are gone in one moment. All print the broker's resident memory, and fail where it is beyond its
limit.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from contextlib import closing
from itertools import count
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any, Final

import pika
import typer

from streams import Source
from tests.fault.attackers import MIB, Watch
from tests.fault.exchange_limits import Watched, watched
from tests.fault.kill_process import Broker, ReservedPort
from tests.transport.gateways.amqp.async_amqp import AsyncClient
from tests.transport.gateways.amqp.raw_amqp import published
from transport import Administration, Sender, parse_address
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.layout import FRAME_BODY, FRAME_HEAD, HEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_UNACKNOWLEDGED_MIB: Final = 250
"""Of the broker with a million messages that a client holds."""
MOST_GROWTH_MIB: Final = 8
"""Of the broker while one that is slow holds back one that is not."""
AT_ONCE: Final = 10_000
"""Messages that are published before their confirms are waited for."""
SECONDS: Final = 300.0
QUEUE: Final = "held"
LIMIT: Final = 1_000
"""Messages of the queue that blocks."""
PREFETCH, RATE = 10, 100
CONNECTIONS, CHANNELS = 10, 4
"""That consumers are on."""
SYNCED_AFTER: Final = 1_000
"""Consumers that are asked for before the answer to one more thing is waited for."""
MOST_A_CONSUMER: Final = 12 << 10
"""Bytes of the broker's memory that one takes."""
WARM_UP: Final = 3.0
"""Seconds after which the memory is looked at first."""

app = typer.Typer()


class Counting(AsyncClient):
    """A consumer that counts what it gets.

    Attributes:
        got: messages.
        wanted: how many are waited for.
    """

    def __init__(self) -> None:
        super().__init__()
        self.got = self.wanted = 0
        self._counts = False
        self._skip = 0
        self._head = bytearray()
        self._all = asyncio.Event()

    def count(self, wanted: int) -> None:
        """From now on only deliveries come: look at their frames' heads alone."""
        self._counts, self.wanted = True, wanted

    async def all(self) -> None:
        """Wait until all have come."""
        await self._all.wait()

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        if not self._counts:
            super().data_received(data)
            return
        at, end = 0, len(data)
        while True:
            step = min(self._skip, end - at)
            at += step
            self._skip -= step
            if at == end:
                break
            more = data[at : at + HEAD_BYTES - len(self._head)]
            self._head += more
            at += len(more)
            if len(self._head) < HEAD_BYTES:
                break
            kind, _, size = FRAME_HEAD.unpack(self._head)
            self._head.clear()
            self._skip = size + 1
            self.got += kind == FRAME_BODY
        if self.got >= self.wanted:
            self._all.set()


async def publish(client: AsyncClient, queue: str, messages: int, body: bytes) -> None:
    """So many, each confirmed."""
    await client.ask(basic.ConfirmSelect(), basic.ConfirmSelectOk)
    done = 0
    while done < messages:
        some = min(AT_ONCE, messages - done)
        client.transport.write(published(queue, body) * some)
        done += some
        while (await client.until(basic.BasicAck))[1].delivery_tag < done:
            pass


async def hold(messages: int, size: int) -> list[tuple[str, float, int]]:
    """What each step took: seconds, and the broker's memory behind it."""
    figures: list[tuple[str, float, int]] = []
    with tempfile.TemporaryDirectory(prefix="penstock-amqp-") as folder, closing(ReservedPort()) as port:
        host, number = parse_address(port.address)
        async with Broker(("--data", f"{folder}/data", "--amqp", port.address)) as broker, asyncio.timeout(SECONDS):
            await broker.start()
            watch, began = Watch(broker.pid), time.monotonic()

            def note(what: str) -> None:
                nonlocal began
                figures.append((what, time.monotonic() - began, watch.now()))
                began = time.monotonic()

            note("nothing")
            watching = asyncio.create_task(watch.run())
            publisher = await AsyncClient.open(host, number)
            await publisher.ask(entity.QueueDeclare(queue=QUEUE, durable=True), entity.QueueDeclareOk)
            consumer = await Counting.open(host, number)
            await consumer.ask(basic.BasicConsume(queue=QUEUE), basic.BasicConsumeOk)
            consumer.count(messages)
            await publish(publisher, QUEUE, messages, bytes(size))
            await consumer.all()
            note(f"{messages} messages are held by one client")
            consumer.transport.abort()
            async with Administration(broker.send_address) as administration:
                while (await administration.queue(QUEUE))["ready"] < messages:
                    pass
            note("it has gone, and they are back")
            other = await Counting.open(host, number)
            await other.ask(basic.BasicConsume(queue=QUEUE), basic.BasicConsumeOk)
            other.count(messages)
            await other.all()
            note("another has them")
            other.say(basic.BasicAck(delivery_tag=messages, multiple=True))
            async with Administration(broker.send_address) as administration:
                while (await administration.queue(QUEUE))["stored_messages"]:
                    pass
            note("all are acknowledged at once")
            watching.cancel()
            figures.append(("the most there was", 0.0, watch.peak))
            await broker.stop()
    return figures


@app.command()
def unacknowledged(
    messages: Annotated[int, typer.Option(min=1)] = 1_000_000,
    size: Annotated[int, typer.Option(min=1, help="Bytes of each.")] = 100,
) -> None:
    """A client without a prefetch limit holds very many."""
    figures = asyncio.run(hold(messages, size))
    for what, seconds, memory in figures:
        typer.echo(f"{memory / MIB:6.0f} MiB  {seconds:6.1f} s  {what}")
    most = max(memory for _, _, memory in figures)
    if most > MOST_UNACKNOWLEDGED_MIB * MIB:
        typer.echo(f"the broker took {most / MIB:.0f} MiB, {MOST_UNACKNOWLEDGED_MIB} are allowed")
        sys.exit(1)


class Slow:
    """A consumer of pika that takes so many a second.

    Args:
        port: the broker's.
        seconds: for which it does.
    """

    def __init__(self, port: int, seconds: float) -> None:
        self.taken = 0
        self._connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
        self._channel = self._connection.channel()
        self._channel.basic_qos(prefetch_count=PREFETCH)
        self._channel.basic_consume(QUEUE, self._delivered)
        self._seconds = seconds
        self._waiting: list[int] = []

    def run(self) -> None:
        """Take messages until the time is over."""
        self._connection.call_later(0, self._take)
        self._connection.call_later(self._seconds, self._channel.stop_consuming)
        self._channel.start_consuming()
        self._connection.close()

    def _delivered(self, _channel: Any, method: Any, _properties: Any, _body: bytes) -> None:
        self._waiting.append(method.delivery_tag)

    def _take(self) -> None:
        self._connection.call_later(1 / RATE, self._take)
        if self._waiting:
            self._channel.basic_ack(self._waiting.pop(0))
            self.taken += 1


async def hold_back(seconds: float, size: int) -> tuple[int, int, list[int]]:
    """Messages that were pulled from the sender's source and that the consumer took, and the broker's memory, first, last and most."""
    pulled = 0

    def messages() -> Iterator[bytes]:
        nonlocal pulled
        for pulled in count(1):  # noqa: B007 - it is what is counted
            yield bytes(size)

    with tempfile.TemporaryDirectory(prefix="penstock-amqp-") as folder, closing(ReservedPort()) as port:
        async with Broker(("--data", f"{folder}/data", "--amqp", port.address)) as broker:
            await broker.start()
            watch = Watch(broker.pid)
            async with Administration(broker.send_address) as administration:
                await administration.create_queue(QUEUE, max_messages=LIMIT)
            sending = asyncio.create_task(
                Source.from_iterable(messages()).to(Sender(broker.send_address, queue=QUEUE)).run()
            )
            loop = asyncio.get_running_loop()
            slow = await loop.run_in_executor(None, Slow, parse_address(port.address)[1], seconds)
            first: list[int] = []
            loop.call_later(WARM_UP, lambda: first.append(watch.now()))
            watching = asyncio.create_task(watch.run())
            taking = Thread(target=slow.run, daemon=True)
            taking.start()
            await loop.run_in_executor(None, taking.join)
            memory = [*first, watch.now(), watch.peak]
            watching.cancel()
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            await broker.stop()
    return pulled, slow.taken, memory


@app.command()
def held_back(
    seconds: Annotated[float, typer.Option(min=5)] = 30.0,
    size: Annotated[int, typer.Option(min=1, help="Bytes of each.")] = 10_000,
) -> None:
    """A slow consumer of pika holds back a native sender."""
    pulled, taken, (first, last, most) = asyncio.run(hold_back(seconds, size))
    typer.echo(f"{taken} taken in {seconds:.0f} s, {pulled} pulled from the sender's source: {pulled - taken} ahead")
    typer.echo(f"{first / MIB:.1f} MiB after {WARM_UP:.0f} s, {last / MIB:.1f} at the end, {most / MIB:.1f} at most")
    if most - first > MOST_GROWTH_MIB * MIB:
        typer.echo(f"the broker took {(most - first) / MIB:.0f} MiB more, {MOST_GROWTH_MIB} are allowed")
        sys.exit(1)


async def consume(many: int) -> tuple[int, int]:
    """Have so many consumers come, get a message each, and go; the broker's memory before and with them."""
    with closing(ReservedPort()) as port:
        host, number = parse_address(port.address)
        async with watched(False, "--amqp", port.address) as broker:
            watch = Watch(broker.broker.pid)
            before = watch.now()
            clients = [await Counting.open(host, number) for _ in range(CONNECTIONS)]
            await clients[0].ask(entity.QueueDeclare(queue=QUEUE), entity.QueueDeclareOk)
            each = many // (CONNECTIONS * CHANNELS)
            for client in clients:
                for channel in range(2, CHANNELS + 1):
                    await client.ask(connection.ChannelOpen(), connection.ChannelOpenOk, channel)
            async with broker.step(f"{many} consumers come"):
                await asyncio.gather(*(_consumers_of(client, each) for client in clients))
            memory = watch.now()
            await _messages_for_all(broker, host, number, clients, each * CHANNELS)
            async with broker.step("all have gone"):
                for client in clients:
                    client.transport.abort()
                looking = await AsyncClient.open(host, number)
                passive = entity.QueueDeclare(queue=QUEUE, passive=True)
                while (await looking.ask(passive, entity.QueueDeclareOk)).consumer_count:
                    pass
    return before, memory


async def _consumers_of(client: AsyncClient, each: int) -> None:
    for channel in range(1, CHANNELS + 1):
        await client.ask(basic.BasicQos(prefetch_count=1), basic.BasicQosOk, channel)
        for tag in range(each):
            client.say(basic.BasicConsume(queue=QUEUE, consumer_tag=f"{tag}", nowait=True), channel=channel)
            if tag % SYNCED_AFTER == 0:
                await client.ask(basic.BasicQos(prefetch_count=1), basic.BasicQosOk, channel)
        await client.ask(basic.BasicQos(prefetch_count=1), basic.BasicQosOk, channel)


async def _messages_for_all(broker: Watched, host: str, port: int, clients: list[Counting], each: int) -> None:
    """A message for each, and all of them back again."""
    publisher = await AsyncClient.open(host, port)
    for client in clients:
        client.count(each)
    async with broker.step("each has a message"):
        await publish(publisher, QUEUE, each * len(clients), b"x")
        await asyncio.gather(*(client.all() for client in clients))
    publisher.transport.abort()


@app.command()
def consumers(many: Annotated[int, typer.Option("--count", min=CONNECTIONS * CHANNELS)] = 100_000) -> None:
    """Very many consumers."""
    before, memory = asyncio.run(consume(many))
    each = (memory - before) / many
    typer.echo(f"{memory / MIB:.0f} MiB with {many} consumers: {each / 1024:.1f} KiB each")
    if each > MOST_A_CONSUMER:
        typer.echo(f"{MOST_A_CONSUMER / 1024:.0f} KiB each are allowed")
        sys.exit(1)


if __name__ == "__main__":
    app()
