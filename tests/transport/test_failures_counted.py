"""What counts towards ``max_receives``: what a receiver had in its hands when it failed, and nothing beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from streams import Sink, Source
from streams.testkit import TestSink
from transport import Administration, DeliveredBatch, Delivery, Receiver, Sender
from transport.wire.messages import Ack, Cancel, Deliver, Nack, Request

MESSAGES = 100
POISON = b"7"
MAX_RECEIVES = 3
ROUNDS = 6
"""Runs of a program: twice as many as a message that fails survives."""


class PoisonError(Exception):
    """What a handler raises on the poison message."""


async def filled(broker: Any, count: int = MESSAGES) -> None:
    async with Administration(broker.send_address) as administration:
        await administration.create_queue("orders", max_receives=MAX_RECEIVES)
    payloads = [b"%d" % number for number in range(count)]
    await Source.from_iterable(payloads).to(Sender(broker.send_address, queue="orders")).run()


async def counts(broker: Any) -> tuple[int, int, int]:
    """Messages that are ready, in flight, and dead letters."""
    async with Administration(broker.send_address) as administration:
        rows = {row["name"]: row for row in await administration.queues()}
    dead = rows.get("orders.dead", {"stored_messages": 0})
    return rows["orders"]["ready"], rows["orders"]["in_flight"], dead["stored_messages"]


async def are_ready(broker: Any, count: int) -> bool:
    return (await counts(broker))[0] == count


def receiver(broker: Any) -> Receiver:
    return Receiver(broker.receive_address, queue="orders")


def handle(delivery: Delivery) -> Delivery:
    if delivery.payload == POISON:
        raise PoisonError
    delivery.acknowledge()
    return delivery


async def by_sink(broker: Any) -> None:
    await receiver(broker).to(Sink.foreach(handle)).run()


async def by_map(broker: Any) -> None:
    await receiver(broker).map(handle).to(Sink.ignore()).run()


async def by_batches(broker: Any) -> None:
    def take(batch: DeliveredBatch) -> None:
        if POISON in batch.payloads():
            raise PoisonError
        batch.acknowledge()

    await receiver(broker).batches().to(Sink.foreach(take)).run()


async def by_loop(broker: Any) -> None:
    deliveries = receiver(broker).iterate()
    try:
        async for delivery in deliveries:
            handle(delivery)
    finally:
        await deliveries.aclose()


@pytest.mark.parametrize("program", [by_sink, by_map, by_loop])
def test_a_message_that_its_handler_fails_on_takes_none_of_its_neighbours(
    run: Any, serve: Any, program: Callable[[Any], Awaitable[None]]
) -> None:
    async def main() -> None:
        async with serve() as broker:
            await filled(broker)
            for _ in range(MAX_RECEIVES):
                with pytest.raises(PoisonError):
                    await program(broker)
            others = MESSAGES - 1 - int(POISON)
            assert await counts(broker) == (others, 0, 1)
            assert await receiver(broker).take(others).to(Sink.acknowledge()).run() == others
            assert await counts(broker) == (0, 0, 1)

    run(main)


def test_what_a_stream_gives_back_as_it_fails_is_not_delivered_to_it_again(run: Any, serve: Any) -> None:
    """It still had demand for hundreds, which its NACKs would have met before its CANCEL did."""

    async def main() -> None:
        async with serve() as broker:
            await filled(broker)
            for _ in range(2):
                with pytest.raises(PoisonError):
                    await by_sink(broker)
            rest = MESSAGES - int(POISON)
            again = await receiver(broker).take(rest).to(Sink.collect()).run()
            assert [delivery.delivery_count for delivery in again] == [3] * rest
            async with Administration(broker.send_address) as administration:
                (row,) = [row for row in await administration.queues() if row["name"] == "orders"]
            assert row["total_out"] == MESSAGES + 2 * rest

    run(main)


def test_a_receiver_that_has_withdrawn_its_demand_is_sent_nothing_more_and_keeps_what_it_holds(
    run: Any, serve: Any, peers: Any, until: Any
) -> None:
    async def main() -> None:
        async with serve() as broker:
            await filled(broker, 4)
            async with peers() as opened:
                first = await opened.open(broker.receive_address, "receiver", "orders")
                second = await opened.open(broker.receive_address, "receiver", "orders")
                first.send(Request(10, 10_000))
                assert len((await first.expect(Deliver)).batch) == 4
                first.send(Request(0, 0), Nack([(0, 2)], 0, failed=False), Request(20, 20_000))
                await until(lambda: are_ready(broker, 2))
                second.send(Request(10, 10_000))
                delivered = await second.expect(Deliver)
                assert (delivered.first, len(delivered.batch), delivered.delivery_count) == (0, 2, 2)
                first.send(Ack([(2, 2)]), Cancel(failed=False))
                assert await first.frame() is None
                second.send(Ack([(0, 2)]), Cancel(failed=False))
                assert await second.frame() is None
            assert await counts(broker) == (0, 0, 0)

    run(main)


def test_a_batch_that_its_handler_fails_on_is_what_it_had(run: Any, serve: Any) -> None:
    """The program took it whole, so nobody can say which message it was; other batches are none of it."""

    async def main() -> None:
        async with serve() as broker:
            async with Administration(broker.send_address) as administration:
                await administration.create_queue("orders", max_receives=1)
            for payloads in ([b"1", b"2"], [POISON, b"8"], [b"9"]):
                await Source.from_iterable(payloads).to(Sender(broker.send_address, queue="orders")).run()
            with pytest.raises(PoisonError):
                await by_batches(broker)
            ready, _, dead = await counts(broker)
            assert (ready, dead) == (1, 2)

    run(main)


def test_of_several_at_work_all_are_counted_and_what_waits_is_not(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            await filled(broker, 20)
            at_work: set[bytes] = set()
            full = asyncio.Event()

            async def work(delivery: Delivery) -> Delivery:
                at_work.add(delivery.payload)
                if len(at_work) == 4:
                    full.set()
                await full.wait()
                if delivery.payload == b"0":
                    raise PoisonError
                await asyncio.Event().wait()
                return delivery

            for _ in range(MAX_RECEIVES):
                at_work.clear()
                full.clear()
                with pytest.raises(PoisonError):
                    await receiver(broker).map_async(4, work).to(Sink.ignore()).run()
            assert await counts(broker) == (16, 0, 4)

    run(main)


def test_a_stream_that_its_program_ends_has_failed_on_nothing(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            await filled(broker, 20)
            for _ in range(ROUNDS):
                sink: TestSink[Delivery] = TestSink()
                running = receiver(broker).to(sink).run()
                await sink.expect_subscription()
                sink.request(10)
                await sink.expect_n(10)
                running.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await running
            assert await counts(broker) == (20, 0, 0)

    run(main)


def test_a_loop_that_is_left_counts_what_it_had_in_its_hands(run: Any, serve: Any) -> None:
    """Whether it was left by a failure nobody can see; what was asked for ahead has not been tried."""

    async def main() -> None:
        async with serve() as broker:
            await filled(broker, 20)
            for _ in range(MAX_RECEIVES):
                deliveries = receiver(broker).iterate(8)
                async for _delivery in deliveries:
                    break
                await deliveries.aclose()
            assert await counts(broker) == (19, 0, 1)

    run(main)


async def left_to_its_loop(address: str) -> None:
    """As most write it: nothing closes the generator but the end of the program."""
    async for delivery in Receiver(address, queue="orders"):
        handle(delivery)


async def queue_left_to_its_loop(address: str) -> None:
    running = Receiver(address, queue="orders").to(Sink.queue()).run()
    async for delivery in running.value:
        handle(delivery)


async def queue_of_a_block(address: str) -> None:
    async with Receiver(address, queue="orders").to(Sink.queue()).run() as running:
        async for delivery in running.value:
            handle(delivery)


@pytest.mark.parametrize("program", [left_to_its_loop, queue_left_to_its_loop, queue_of_a_block])
def test_a_program_that_ends_with_a_failure_of_its_loop_has_failed_on_that_message_alone(
    run: Any, serve: Any, program: Callable[[str], Awaitable[None]]
) -> None:
    """Its run is cancelled as the event loop shuts down, before anybody closes what it was read from."""

    async def main() -> None:
        async with serve() as broker:
            await filled(broker)
            for _ in range(MAX_RECEIVES):
                with pytest.raises(PoisonError):
                    await asyncio.to_thread(asyncio.run, program(broker.receive_address))
            others = MESSAGES - 1 - int(POISON)
            assert await counts(broker) == (others, 0, 1)

    run(main)


def test_an_explicit_reject_is_a_failure(run: Any, serve: Any, until: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            await filled(broker, 1)
            rejected = 0

            def reject(delivery: Delivery) -> None:
                nonlocal rejected
                rejected += 1
                delivery.reject()

            running = receiver(broker).to(Sink.foreach(reject)).run()
            await until(lambda: rejected == MAX_RECEIVES)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert rejected == MAX_RECEIVES
            assert await counts(broker) == (0, 0, 1)

    run(main)


@pytest.mark.parametrize(
    ("farewell", "dead"),
    [
        ([], 3),
        ([Cancel()], 3),
        ([Nack([(0, 3)], 0)], 3),
        ([Cancel(failed=False)], 0),
        ([Nack([(0, 3)], 0, failed=False)], 0),
        ([Nack([(0, 1)], 0), Cancel(failed=False)], 1),
    ],
    ids=["lost", "an older client", "nack", "cancel", "nack of what was not tried", "one failed"],
)
def test_what_a_client_says_at_its_end_is_what_counts(
    run: Any, serve: Any, peers: Any, until: Any, farewell: list[Any], dead: int
) -> None:
    async def main() -> None:
        async with serve() as broker:
            async with Administration(broker.send_address) as administration:
                await administration.create_queue("orders", max_receives=1)
            await Source.from_iterable([b"a", b"b", b"c"]).to(Sender(broker.send_address, queue="orders")).run()
            async with peers() as opened:
                peer = await opened.open(broker.receive_address, "receiver", "orders")
                peer.send(Request(3, 1 << 20))
                taken = 0
                while taken < 3:
                    taken += len((await peer.expect(Deliver)).batch)
                peer.send(*farewell)
                await peer.flushed()

            async def back() -> tuple[int, int, int]:
                found = await counts(broker)
                return found if found[0] + found[2] == 3 else await back()

            assert await back() == (3 - dead, 0, dead)

    run(main)
