"""Demand goes through the broker: a consumer of pika that takes one at a time holds back a native sender, and nothing piles up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from threading import Thread

import pika

from streams import Source
from tests.transport.gateways.amqp.conftest import AmqpBroker
from transport import Administration, Sender

Named = Callable[[str], str]
MESSAGES, SIZE = 3_000, 10_000
LIMIT, PREFETCH, BATCH = 50, 10, 10
AHEAD = LIMIT + 2 * BATCH
"""Messages that the sender may have taken of its source beyond those that are acknowledged: the queue's, and two batches that wait."""
SETTLED = 500
"""Messages after which the broker has all the memory that it will need."""
MOST_GROWTH = 6 << 20
SECONDS = 60


def resident(pid: int) -> int:
    """Bytes."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        (line,) = [each for each in file if each.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


def test_a_consumer_with_a_prefetch_of_ten_holds_back_a_native_sender_and_memory_stays(
    broker: AmqpBroker, named: Named
) -> None:
    queue = named("held-back")
    taken = 0

    def messages() -> Iterator[bytes]:
        nonlocal taken
        for _ in range(MESSAGES):
            taken += 1
            yield bytes(SIZE)

    async def send() -> None:
        async with asyncio.timeout(SECONDS):
            async with Administration(broker.sending) as administration:
                await administration.create_queue(queue, max_messages=LIMIT)
            sender = Sender(broker.sending, queue=queue, max_batch_messages=BATCH)
            await Source.from_iterable(messages()).to(sender).run()

    sending = Thread(target=asyncio.run, args=(send(),))
    sending.start()
    broker.until(queue, lambda row: row["ready"] == LIMIT)
    parameters = pika.ConnectionParameters("127.0.0.1", broker.port)
    ahead, before = 0, 0
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=PREFETCH)
        for number, (method, _, _) in enumerate(channel.consume(queue, inactivity_timeout=SECONDS)):
            assert method is not None, f"{number} came"
            ahead = max(ahead, taken - number)
            if number == SETTLED:
                before = resident(broker.process.pid)
            channel.basic_ack(method.delivery_tag)
            if number == MESSAGES - 1:
                break
    sending.join(SECONDS)
    assert not sending.is_alive()
    assert taken == MESSAGES
    assert ahead <= AHEAD
    assert resident(broker.process.pid) - before < MOST_GROWTH
