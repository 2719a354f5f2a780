"""The end of a receiver's stream comes when the program has dealt with its last elements: what it says of them reaches the broker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, closing
from typing import Any

import pytest

from streams import Sink, Source
from streams.testkit import settle
from transport import Broker, BrokerConfig, Delivery, Receiver, Sender

COUNT = 5
STORED = 8
"""More than is taken: what was not taken is there for the next one."""


async def at_once(_delivery: Delivery) -> None:
    """Handling that takes no turn of the loop."""


async def slowly(_delivery: Delivery) -> None:
    """Handling during which everything else that can happen does."""
    await settle(0.01)


Handle = Callable[[Delivery], Awaitable[None]]


async def by_async_for(receiver: Receiver, handle: Handle) -> None:
    async for delivery in receiver.take(COUNT):
        await handle(delivery)
        delivery.acknowledge()


async def by_async_for_one_ahead(receiver: Receiver, handle: Handle) -> None:
    async for delivery in receiver.take(COUNT).iterate(prefetch=1):
        await handle(delivery)
        delivery.acknowledge()


async def by_closing(receiver: Receiver, handle: Handle) -> None:
    async with aclosing(receiver.take(COUNT).iterate()) as deliveries:
        async for delivery in deliveries:
            await handle(delivery)
            delivery.acknowledge()


async def by_take_while(receiver: Receiver, handle: Handle) -> None:
    async for delivery in receiver.take_while(lambda delivery: delivery.sequence < COUNT - 1, inclusive=True):
        await handle(delivery)
        delivery.acknowledge()


async def by_batches(receiver: Receiver, handle: Handle) -> None:
    one_by_one = Receiver(receiver.addresses, queue=receiver.queue_name, max_in_flight=1)
    async for batch in one_by_one.batches().take(COUNT):
        await settle(0.005)
        batch.acknowledge()


async def by_keeping_them_to_the_end(receiver: Receiver, handle: Handle) -> None:
    kept: list[Delivery] = []
    async for delivery in receiver.take(COUNT):
        kept.append(delivery)
        if len(kept) == COUNT:
            await handle(delivery)
            for each in kept:
                each.acknowledge()


async def by_a_queue(receiver: Receiver, handle: Handle) -> None:
    async with receiver.take(COUNT).to(Sink.queue()).run() as running:
        while (delivery := await running.value.pull()) is not None:
            await handle(delivery)
            delivery.acknowledge()


async def by_a_queue_that_is_filled_first(receiver: Receiver, handle: Handle) -> None:
    async with receiver.take(COUNT).to(Sink.queue()).run() as running:
        while len(running.value) < COUNT:
            await settle(0.001)
        await settle(0.01)
        async for delivery in running.value:
            await handle(delivery)
            delivery.acknowledge()


async def by_a_counted_pull(receiver: Receiver, handle: Handle) -> None:
    """The program knows how many come, and does not ask for the end."""
    async with receiver.take(COUNT).to(Sink.queue()).run() as running:
        for _ in range(COUNT):
            delivery = await running.value.pull()
            await handle(delivery)
            delivery.acknowledge()


async def by_workers(receiver: Receiver, handle: Handle) -> None:
    async def work(queue: Any, number: int) -> None:
        async for delivery in queue:
            # The first has come to the end long before the last is done.
            for _ in range(number):
                await handle(delivery)
            delivery.acknowledge()

    running = receiver.take(COUNT).to(Sink.queue()).run()
    async with asyncio.TaskGroup() as group:
        for number in range(COUNT):
            group.create_task(work(running.value, number))
        await running


async def by_foreach(receiver: Receiver, handle: Handle) -> None:
    await receiver.take(COUNT).to(Sink.foreach(lambda delivery: delivery.acknowledge())).run()


async def by_foreach_async(receiver: Receiver, handle: Handle) -> None:
    async def work(delivery: Delivery) -> None:
        await handle(delivery)
        delivery.acknowledge()

    await receiver.take(COUNT).to(Sink.foreach_async(3, work)).run()


async def by_map_async(receiver: Receiver, handle: Handle) -> None:
    async def work(delivery: Delivery) -> Delivery:
        await handle(delivery)
        return delivery

    assert await receiver.take(COUNT).map_async(3, work).to(Sink.acknowledge()).run() == COUNT


async def by_map_blocking(receiver: Receiver, handle: Handle) -> None:
    assert await receiver.take(COUNT).map_blocking(2, lambda delivery: delivery).to(Sink.acknowledge()).run() == COUNT


async def by_leaving_the_loop(receiver: Receiver, handle: Handle) -> None:
    async with aclosing(receiver.iterate()) as deliveries:
        async for delivery in deliveries:
            await handle(delivery)
            delivery.acknowledge()
            if delivery.sequence == COUNT - 1:
                break


async def by_stopping(receiver: Receiver, handle: Handle) -> None:
    done = asyncio.Event()

    def work(delivery: Delivery) -> None:
        if delivery.sequence < COUNT:
            delivery.acknowledge()
        if delivery.sequence == COUNT - 1:
            done.set()

    running = receiver.to(Sink.foreach(work)).run()
    await done.wait()
    await running.stop()


async def by_a_failure_behind_them(receiver: Receiver, handle: Handle) -> None:
    """What came before a failure is handled as ever."""

    def checked(delivery: Delivery) -> Delivery:
        if delivery.sequence == COUNT:
            raise ValueError("the sixth is bad")
        return delivery

    async def loop() -> None:
        async for delivery in receiver.map(checked):
            await handle(delivery)
            delivery.acknowledge()

    with pytest.raises(ValueError, match="the sixth is bad"):
        await loop()


WAYS = [value for name, value in list(globals().items()) if name.startswith("by_")]


@asynccontextmanager
async def with_eight(serve: Any) -> AsyncIterator[Any]:
    async with serve() as broker:
        messages = [b"%d" % number for number in range(STORED)]
        # One batch each, so that they do not come as one.
        await Source.from_iterable(messages).to(Sender(broker.send_address, queue="orders", max_batch_messages=1)).run()
        yield broker


@pytest.mark.parametrize("handle", [at_once, slowly])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_last_acknowledgements_are_not_lost(run: Any, serve: Any, way: Any, handle: Any) -> None:
    async def main() -> None:
        async with with_eight(serve) as broker:
            await way(Receiver(broker.receive_address, queue="orders"), handle)
            rest = await Receiver(broker.receive_address, queue="orders").take(STORED - COUNT).to(Sink.collect()).run()
            assert [delivery.sequence for delivery in rest] == list(range(COUNT, STORED))

    run(main)


def test_synchronous_code_does_not_lose_the_last_acknowledgements() -> None:
    addresses: list[str] = []
    started, left = threading.Event(), threading.Event()

    async def broker() -> None:
        free = "127.0.0.1:0"
        async with with_eight(lambda: Broker(BrokerConfig(send_address=free, receive_address=free))) as serving:
            addresses.append(serving.receive_address)
            started.set()
            await asyncio.to_thread(left.wait, 20)

    thread = threading.Thread(target=lambda: asyncio.run(broker()))
    thread.start()
    try:
        assert started.wait(20)
        receiver = Receiver(addresses[0], queue="orders")
        with closing(receiver.take(COUNT).iterate_blocking()) as deliveries:
            for delivery in deliveries:
                delivery.acknowledge()
        rest = receiver.take(STORED - COUNT).to(Sink.collect()).run_blocking()
        assert [delivery.sequence for delivery in rest] == list(range(COUNT, STORED))
    finally:
        left.set()
        thread.join()
