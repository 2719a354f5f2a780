"""What becomes of deliveries that a program has when their run ends: what counts as a failure, and what is said too late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from streams import KillSwitches, Sink, Source
from transport import Administration, Receiver, Sender

STORED = 8


@asynccontextmanager
async def stored(serve: Any) -> AsyncIterator[tuple[Any, Receiver]]:
    async with serve() as broker:
        async with Administration(broker.send_address) as administration:
            await administration.create_queue("orders", max_receives=1)
        messages = [b"%d" % number for number in range(STORED)]
        await Source.from_iterable(messages).to(Sender(broker.send_address, queue="orders")).run()
        yield broker, Receiver(broker.receive_address, queue="orders")


async def states(broker: Any) -> dict[str, int]:
    async with Administration(broker.send_address) as administration:
        return {str(queue["name"]): queue["ready"] for queue in await administration.queues()}


async def leaving_take(receiver: Receiver) -> None:
    async for _ in receiver.take(5):
        break


async def leaving_take_while(receiver: Receiver) -> None:
    async for _ in receiver.take_while(lambda delivery: delivery.sequence < 5):
        break


async def leaving_take_within(receiver: Receiver) -> None:
    async for _ in receiver.take_within(5):
        break


async def leaving_behind_a_kill_switch(receiver: Receiver) -> None:
    switch = KillSwitches.shared("all")
    async for _ in receiver.via(switch.flow):
        switch.shutdown()
        break


async def failing_behind_take(receiver: Receiver) -> None:
    async def loop() -> None:
        async for _ in receiver.take(5):
            raise ValueError("the loop failed")

    with pytest.raises(ValueError, match="the loop failed"):
        await loop()


@pytest.mark.parametrize(
    "way",
    [leaving_take, leaving_take_while, leaving_take_within, leaving_behind_a_kill_switch, failing_behind_take],
    ids=lambda way: way.__name__,
)
def test_only_what_a_loop_had_in_its_hands_has_failed_when_it_is_left(run: Any, serve: Any, way: Any) -> None:
    async def main() -> None:
        async with stored(serve) as (broker, receiver):
            await way(receiver)
            # A loop that is left is closed a little later; so what is back and what has failed is waited for.
            assert await receiver.take(STORED - 1).to(Sink.acknowledge()).run() == STORED - 1
            dead = Receiver(broker.receive_address, queue="orders.dead").take(1)
            assert [delivery.payload for delivery in await dead.to(Sink.collect()).run()] == [b"0"]

    run(main)


def test_the_message_that_take_while_ends_at_has_not_failed(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with stored(serve) as (broker, receiver):
            mine = receiver.take_while(lambda delivery: delivery.sequence < 3)
            assert await mine.to(Sink.acknowledge()).run() == 3
            assert await states(broker) == {"orders": STORED - 3}

    run(main)


def test_the_batch_that_take_while_ends_at_has_not_failed(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with stored(serve) as (broker, receiver):
            await receiver.batches().take_while(lambda _batch: False).to(Sink.ignore()).run()
            assert await states(broker) == {"orders": STORED}

    run(main)


def test_the_message_that_take_while_ends_at_may_be_acknowledged_by_whoever_else_has_it(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with stored(serve) as (broker, receiver):
            seen: list[Any] = []
            passing = receiver.wire_tap(Sink.foreach(seen.append)).take_while(acknowledge_fourth)
            await passing.to(Sink.acknowledge()).run()
            assert await states(broker) == {"orders": STORED - 4}

    def acknowledge_fourth(delivery: Any) -> bool:
        if delivery.sequence == 3:
            asyncio.get_running_loop().call_soon(delivery.acknowledge)
        return bool(delivery.sequence < 3)

    run(main)


async def one_message(receiver: Receiver) -> list[Any]:
    return [await receiver.to(Sink.head()).run()]


async def several_messages(receiver: Receiver) -> list[Any]:
    return await receiver.take(3).to(Sink.collect()).run()


async def whole_batches(receiver: Receiver) -> list[Any]:
    return await receiver.batches().take(1).to(Sink.collect()).run()


@pytest.mark.parametrize("way", [one_message, several_messages, whole_batches], ids=lambda way: way.__name__)
def test_acknowledging_after_the_run_is_told_once_a_run(
    run: Any, serve: Any, caplog: pytest.LogCaptureFixture, way: Any
) -> None:
    async def main() -> None:
        async with stored(serve) as (broker, receiver):
            kept = await way(receiver)
            for _ in range(2):
                for delivery in kept:
                    delivery.acknowledge()
            assert sum((await states(broker)).values()) == STORED, "nothing was acknowledged"

    run(main)
    told = [record.getMessage() for record in caplog.records if record.name == "penstock.receiver"]
    assert len(told) == 1
    assert "queue orders: message 0 was acknowledged when the run of its receiver was over" in told[0]


def test_acknowledging_within_the_run_tells_nothing(run: Any, serve: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with stored(serve) as (broker, receiver):
            async for delivery in receiver.take(STORED):
                delivery.acknowledge()
                delivery.acknowledge()
            assert await states(broker) == {"orders": 0}
            delivery.acknowledge()

    run(main)
    assert not [record for record in caplog.records if record.name == "penstock.receiver"]
