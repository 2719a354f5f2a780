"""Attackers that speak AMQP: deaf ones, greedy ones, slow ones, and some that have a great deal begun."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from secrets import token_hex
from typing import TYPE_CHECKING

from streams.testkit import settle
from tests.fault.amqp_sessions import header
from tests.transport.gateways.amqp.raw_amqp import FRAME_MAX, HANDSHAKE, methods, published
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.layout import FRAME_BODY, FRAME_HEAD
from transport.gateways.amqp.negotiation import CHANNEL_MAX
from transport.gateways.amqp.protocol import MAX_MESSAGE_BYTES
from transport.gateways.amqp.receiving import MOST_CONSUMERS
from transport.gateways.amqp.tables import Table

if TYPE_CHECKING:
    from tests.fault.attacks import Raw

    Connect = Callable[..., Awaitable[Raw]]

PAUSE = 1.0
"""Seconds between two bytes of a slow one."""
MESSAGES = 4_000
"""Of a kilobyte, that a deaf one has stored itself; they go with its queue."""
FULL = Table.of({"x-max-length": 10, "x-overflow": "block"})


async def _opened(connect: Connect, channels: int = 1) -> Raw:
    raw = await connect(None, port="amqp")
    raw.blind()
    opens = b"".join(methods(number, connection.ChannelOpen()) for number in range(1, channels + 1))
    await raw.send(HANDSHAKE + opens)
    return raw


async def _own_queue(raw: Raw, arguments: Table | None = None) -> str:
    queue = f"attacked.{token_hex(8)}"
    await raw.send(methods(1, entity.QueueDeclare(queue=queue, exclusive=True, arguments=arguments or Table())))
    return queue


async def deaf_consumer(connect: Connect) -> None:
    """Wants everything, without a limit, and reads nothing of it."""
    raw = await _opened(connect)
    queue = await _own_queue(raw)
    await raw.send(published(queue, bytes(1024)) * MESSAGES)
    await raw.send(methods(1, *(basic.BasicConsume(queue=queue, nowait=True) for _ in range(20))))
    raw.deaf()
    await raw.until_cut()


async def slow_consumer(connect: Connect) -> None:
    """The same, and reads a byte a second."""
    raw = await _opened(connect)
    queue = await _own_queue(raw)
    await raw.send(published(queue, bytes(1024)) * MESSAGES)
    raw.deaf()
    await raw.send(methods(1, basic.BasicConsume(queue=queue)))
    while True:
        raw.read_one()
        await settle(PAUSE)


async def slow_publisher(connect: Connect) -> None:
    """Says a message a byte a second."""
    raw = await _opened(connect)
    for byte in published(await _own_queue(raw), bytes(1024)):
        await raw.send(bytes([byte]))
        await settle(PAUSE)


async def unread_answers(connect: Connect) -> None:
    """Asks again and again, and reads no answer."""
    raw = await _opened(connect)
    queue = await _own_queue(raw)
    raw.deaf()
    await raw.flood(methods(1, entity.QueueDeclare(queue=queue, exclusive=True), basic.BasicGet(queue=queue)))


async def unread_returns(connect: Connect) -> None:
    """Messages that no queue takes, which it wants back and does not read."""
    raw = await _opened(connect)
    raw.deaf()
    await raw.flood(published("k" * 255, bytes(1024), exchange="amq.direct", mandatory=True))


async def unread_confirms(connect: Connect) -> None:
    """Messages one by one, each on another channel, whose confirms nobody reads."""
    raw = await _opened(connect, 100)
    queue = await _own_queue(raw)
    raw.deaf()
    await raw.send(b"".join(methods(number, basic.ConfirmSelect()) for number in range(1, 101)))
    one = b"".join(published(queue, b"", number) for number in range(1, 101))
    await raw.flood(one + methods(1, entity.QueuePurge(queue=queue)))


async def greedy(connect: Connect) -> None:
    """Publishes into a queue that takes no more, as fast as it is read, and consumes elsewhere, so that it is read on."""
    raw = await _opened(connect)
    other = await _own_queue(raw)
    queue = await _own_queue(raw, FULL)
    await raw.send(methods(1, basic.BasicConsume(queue=other)))
    await raw.flood(published(queue, bytes(100_000)))


async def begun(connect: Connect) -> None:
    """Two largest messages that are nearly there, on two channels."""
    raw = await _opened(connect, 2)
    part = FRAME_MAX - 8
    for number in (1, 2):
        await raw.send(methods(number, basic.BasicPublish(routing_key="q")) + header(number, MAX_MESSAGE_BYTES))
        for _ in range(MAX_MESSAGE_BYTES // part - 1):
            await raw.send(FRAME_HEAD.pack(FRAME_BODY, number, part) + bytes(part) + b"\xce")
    await raw.until_cut()


async def many_channels(connect: Connect) -> None:
    """All channels there may be, each confirming, again and again."""
    raw = await _opened(connect)
    numbers = range(2, CHANNEL_MAX + 1)
    opens = b"".join(methods(number, connection.ChannelOpen(), basic.ConfirmSelect()) for number in numbers)
    close = connection.ChannelClose(reply_code=200, reply_text="", class_id=0, method_id=0)
    await raw.flood(opens + b"".join(methods(number, close) for number in numbers))


async def many_consumers(connect: Connect) -> None:
    """As many consumers as a channel may have, come and gone."""
    raw = await _opened(connect)
    queue = await _own_queue(raw)
    tags = [f"{number}" for number in range(MOST_CONSUMERS)]
    come = methods(1, *(basic.BasicConsume(queue=queue, consumer_tag=tag, nowait=True) for tag in tags))
    await raw.flood(come + methods(1, *(basic.BasicCancel(consumer_tag=tag, nowait=True) for tag in tags)))


KINDS: dict[str, Callable[[Connect], Awaitable[None]]] = {
    "amqp-deaf-consumer": deaf_consumer,
    "amqp-slow-consumer": slow_consumer,
    "amqp-slow-publisher": slow_publisher,
    "amqp-unread-answers": unread_answers,
    "amqp-unread-returns": unread_returns,
    "amqp-unread-confirms": unread_confirms,
    "amqp-greedy": greedy,
    "amqp-begun": begun,
    "amqp-channels": many_channels,
    "amqp-consumers": many_consumers,
}
"""Every kind by its name."""
