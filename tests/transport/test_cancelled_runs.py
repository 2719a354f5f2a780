"""A run that its program cancels returns what it held, and nothing of that counts as a failure: in whatever way it is cancelled."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from streams import Sink, Source
from transport import Administration, Broker, BrokerConfig, Receiver, Sender

STORED = 6


class Handling:
    """Deliveries that are at work and will not end."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def __call__(self, delivery: Any) -> Any:
        self.begun.set()
        await asyncio.Event().wait()


async def cancel_when_begun(handling: Handling, task: Any) -> None:
    await handling.begun.wait()
    task.cancel()


async def by_gather(receiver: Receiver) -> None:
    handling = Handling()
    canceller = asyncio.create_task(cancel_when_begun(handling, asyncio.current_task()))
    await asyncio.gather(receiver.map_async(4, handling).to(Sink.acknowledge()).run(), asyncio.Event().wait())
    await canceller


async def by_awaiting(receiver: Receiver) -> None:
    handling = Handling()
    canceller = asyncio.create_task(cancel_when_begun(handling, asyncio.current_task()))
    await receiver.map_async(4, handling).to(Sink.acknowledge()).run()
    await canceller


async def by_a_group(receiver: Receiver) -> None:
    handling = Handling()
    canceller = asyncio.create_task(cancel_when_begun(handling, asyncio.current_task()))
    async with asyncio.TaskGroup() as group:
        group.create_task(receiver.map_async(4, handling).to(Sink.acknowledge()).run())
    await canceller


async def by_cancel_and_leaving(receiver: Receiver) -> None:
    handling = Handling()
    running = receiver.map_async(4, handling).to(Sink.acknowledge()).run()
    await cancel_when_begun(handling, running)
    raise asyncio.CancelledError


@pytest.mark.event_loop
@pytest.mark.parametrize("way", [by_gather, by_awaiting, by_a_group, by_cancel_and_leaving])
def test_what_a_cancelled_run_had_at_work_has_not_failed_though_its_loop_shuts_down_at_once(way: Any) -> None:
    free = "127.0.0.1:0"
    addresses: list[str] = []
    started, left = threading.Event(), threading.Event()

    async def broker() -> None:
        async with Broker(BrokerConfig(send_address=free, receive_address=free)) as serving:
            addresses.extend((serving.send_address, serving.receive_address))
            async with Administration(serving.send_address) as administration:
                await administration.create_queue("orders", max_receives=1)
            started.set()
            await asyncio.to_thread(left.wait, 20)

    async def states() -> dict[str, int]:
        async with Administration(addresses[0]) as administration:
            return {str(queue["name"]): queue["ready"] for queue in await administration.queues()}

    thread = threading.Thread(target=lambda: asyncio.run(broker()))
    thread.start()
    try:
        assert started.wait(20)
        messages = [b"%d" % number for number in range(STORED)]
        Source.from_iterable(messages).to(Sender(addresses[0], queue="orders")).run_blocking()
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(way(Receiver(addresses[1], queue="orders")))
        assert asyncio.run(states()) == {"orders": STORED}, "nothing is among the dead letters"
    finally:
        left.set()
        thread.join()
