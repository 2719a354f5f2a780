"""A consumer at a broker: handlers get messages, answer for them, and end in good order."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from typing import Any

import pytest

from streams import Sink, Source
from tests.transport.receiver_helpers import fill, numbered, row
from transport import (
    Consumer,
    DeadLetterError,
    Delivery,
    LocalProtocolError,
    PartlyFailedError,
    Receiver,
    Sender,
)

RETRY = 0.01


async def sent(broker: Any, *payloads: bytes, queue: str = "orders") -> None:
    await Source.from_iterable(payloads).to(Sender(broker.send_address, queue=queue)).run()


async def letters(broker: Any, count: int, queue: str = "orders.dead") -> list[Delivery]:
    return await Receiver(broker.receive_address, queue=queue, limit=count).map(_acknowledged).to(Sink.collect()).run()


def _acknowledged(delivery: Delivery) -> Delivery:
    delivery.acknowledge()
    return delivery


class Served:
    """A consumer that is served for the length of a block, and then told to end."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer

    async def __aenter__(self) -> asyncio.Task[None]:
        self.task = asyncio.create_task(self.consumer.serve())
        return self.task

    async def __aexit__(self, *_: object) -> None:
        self.consumer.stop()
        await self.task


def counted(count: int) -> tuple[list[Any], asyncio.Event, Any]:
    """What was noted, an event for when there are ``count``, and what notes, from any thread."""
    noted: list[Any] = []
    enough = asyncio.Event()
    loop = asyncio.get_running_loop()

    def note(what: Any) -> None:
        noted.append(what)
        if len(noted) >= count:
            loop.call_soon_threadsafe(enough.set)

    return noted, enough, note


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_message_is_acknowledged_when_its_handler_returns(run: Any, serve: Any, peers: Any, kind: str) -> None:
    async def main() -> None:
        async with serve() as broker:
            await fill(broker, 50)
            noted, enough, note = counted(50)
            consumer = Consumer(broker.receive_address, queue="orders")
            threads = set()
            if kind == "async":

                @consumer.handler
                async def awaited(payload: bytes) -> None:
                    note(payload)
            else:

                @consumer.handler
                def called(payload: bytes) -> None:
                    threads.add(threading.current_thread())
                    note(payload)

            async with Served(consumer):
                await enough.wait()
            assert sorted(noted) == sorted(numbered(50))
            assert threading.current_thread() not in threads
            left = await row(broker, peers)
            assert (left["ready"], left["in_flight"], left["delayed"]) == (0, 0, 0)

    run(main)


def test_a_consumer_has_several_handlers_each_at_a_queue_of_its_own(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            await sent(broker, b"order")
            await sent(broker, b"email", queue="emails")
            noted, enough, note = counted(2)
            consumer = Consumer(broker.receive_address, queue="orders")

            @consumer.handler
            async def order(payload: bytes) -> None:
                note(("order", payload))

            @consumer.handler(queue="emails", concurrency=1)
            def email(delivery: Delivery) -> None:
                note((delivery.queue, delivery.payload))

            async with Served(consumer):
                await enough.wait()
            assert sorted(noted) == [("emails", b"email"), ("order", b"order")]

    run(main)


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_message_that_always_fails_is_tried_as_often_as_the_queue_allows(run: Any, serve: Any, kind: str) -> None:
    async def main() -> None:
        async with serve(max_receives=3) as broker:
            await sent(broker, b"good", b"bad")
            tries: Counter[bytes] = Counter()
            consumer = Consumer(broker.receive_address, queue="orders", retry_delay=RETRY)

            def work(payload: bytes) -> None:
                tries[payload] += 1
                if payload == b"bad":
                    raise ValueError("no such customer")

            async def awaited(payload: bytes) -> None:
                work(payload)

            consumer.handler(awaited if kind == "async" else work)
            async with Served(consumer):
                (letter,) = await letters(broker, 1)
            assert letter.payload == b"bad"
            assert tries == {b"good": 1, b"bad": 3}
            assert consumer.statistics()["orders"].returned == 3

    run(main)


def test_a_handler_may_say_that_a_message_is_a_dead_letter_and_why(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve(max_receives=3) as broker:
            await sent(broker, b"bad")
            consumer = Consumer(broker.receive_address, queue="orders", on_failure="stop")

            @consumer.handler
            def work(payload: bytes) -> None:
                raise DeadLetterError("no such customer: " + "x" * 1000)

            async with Served(consumer):
                (letter,) = await letters(broker, 1)
            assert str(letter.headers["penstock-dead-error"]).startswith("no such customer: xxx")
            assert letter.headers["penstock-dead-reason"] == "rejected"

    run(main)


def test_with_stop_the_others_finish_what_is_under_way_and_the_failure_is_raised(
    run: Any, serve: Any, peers: Any
) -> None:
    async def main() -> None:
        async with serve() as broker:
            await sent(broker, b"bad")
            await sent(broker, b"slow", queue="emails")
            begun, told = asyncio.Event(), asyncio.Event()
            consumer = Consumer(broker.receive_address, queue="orders")

            @consumer.handler(on_failure="stop")
            async def fail(payload: bytes) -> None:
                await begun.wait()
                told.set()
                raise TimeoutError("the database is away")

            @consumer.handler(queue="emails")
            async def slow(payload: bytes) -> None:
                begun.set()
                await told.wait()

            with pytest.raises(TimeoutError, match="the database is away"):
                await consumer.serve()
            assert (await row(broker, peers, "emails"))["ready"] == 0
            assert (await row(broker, peers))["ready"] == 1

    run(main)


def test_what_is_under_way_is_finished_when_the_consumer_is_told_to_stop(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve(max_receives=1) as broker:
            await fill(broker, 10)
            begun, told = asyncio.Event(), asyncio.Event()
            consumer = Consumer(broker.receive_address, queue="orders", concurrency=1)

            @consumer.handler
            async def slow(payload: bytes) -> None:
                begun.set()
                await told.wait()

            task = asyncio.create_task(consumer.serve())
            await begun.wait()
            assert consumer.healthy()
            consumer.stop()
            asyncio.get_running_loop().call_later(0.01, told.set)
            await task
            assert not consumer.healthy()
            left = await row(broker, peers)
            # max_receives is 1: had those that waited here failed, they were dead letters.
            assert (left["ready"], left["in_flight"]) == (9, 0)

    run(main)


@pytest.mark.parametrize("way", ["grace", "cancel"])
def test_what_is_not_finished_in_time_goes_back_and_has_not_failed(
    run: Any, serve: Any, peers: Any, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    async def main() -> None:
        async with serve(max_receives=1) as broker:
            await fill(broker, 3)
            begun = asyncio.Event()
            consumer = Consumer(broker.receive_address, queue="orders", concurrency=1, grace=0.01)

            @consumer.handler
            async def hangs(payload: bytes) -> None:
                begun.set()
                await asyncio.Event().wait()

            task = asyncio.create_task(consumer.serve())
            await begun.wait()
            if way == "grace":
                consumer.stop()
                await task
                assert "what was not done within 0.01 s was given back" in caplog.text
            else:
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert (await row(broker, peers))["ready"] == 3

    run(main)


def test_a_queue_without_dead_letters_is_told_at_the_start(
    run: Any, serve: Any, until: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with serve() as broker:
            decodes = Consumer(broker.receive_address, queue="orders")
            decodes.handler(_order)
            with pytest.raises(
                LocalProtocolError,
                match=r"_order, a handler of dict\[str, Any\], needs: .*--max-receives 5 --no-drop-failed; --address",
            ):
                await decodes.serve()
            rejects = Consumer(broker.receive_address, queue="orders", on_failure="reject")
            rejects.handler(_bytes)
            with pytest.raises(LocalProtocolError, match="keeps no dead letters"):
                await rejects.serve()
            consumer = Consumer(broker.receive_address, queue="orders")
            consumer.handler(_bytes)
            caplog.set_level(logging.WARNING)
            async with Served(consumer):
                await until(consumer.healthy)
            assert (
                "unless it drops what fails (drop_failed), a message that always fails comes again for ever"
                in caplog.text
            )

    run(main)


async def _order(order: dict[str, Any]) -> None: ...


async def _bytes(payload: bytes) -> None: ...


# Batches


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_batch_is_acknowledged_as_a_whole(run: Any, serve: Any, peers: Any, kind: str) -> None:
    async def main() -> None:
        async with serve() as broker:
            await fill(broker, 25)
            noted, enough, note = counted(3)
            consumer = Consumer(broker.receive_address, queue="orders")

            async def awaited(payloads: list[bytes]) -> None:
                note(payloads)

            def called(payloads: list[bytes]) -> None:
                note(payloads)

            handler = consumer.batch_handler(max_messages=10, max_wait=0.01, concurrency=1)
            handler(awaited if kind == "async" else called)
            async with Served(consumer):
                await enough.wait()
            assert [payload for payloads in noted for payload in payloads] == numbered(25)
            assert len(noted[0]) == 10
            left = await row(broker, peers)
            assert (left["ready"], left["in_flight"]) == (0, 0)

    run(main)


@pytest.mark.parametrize(
    ("raised", "failed"),
    [
        (ValueError("away"), {"0", "1", "2"}),
        (PartlyFailedError([1]), {"1"}),
        (PartlyFailedError({0: ValueError("a"), 2: KeyError("b")}), {"0", "2"}),
        (PartlyFailedError([7]), {"0", "1", "2"}),
    ],
)
def test_of_a_batch_that_fails_all_or_those_that_are_named_come_again(
    run: Any, serve: Any, peers: Any, raised: Exception, failed: set[str]
) -> None:
    async def main() -> None:
        async with serve(max_receives=1) as broker:
            await sent(broker, b"no json", b"0", b"1", b"2")
            consumer = Consumer(broker.receive_address, queue="orders", retry_delay=RETRY)

            @consumer.batch_handler(max_messages=4, max_wait=60, codec="json")
            async def work(numbers: list[int]) -> None:
                assert numbers == [0, 1, 2]
                raise raised

            async with Served(consumer):
                found = await letters(broker, len(failed) + 1)
            assert {letter.payload.decode() for letter in found} == failed | {"no json"}
            left = await row(broker, peers)
            assert (left["ready"], left["in_flight"]) == (0, 0)

    run(main)


def test_a_batch_that_fails_stops_the_consumer_where_it_is_to_stop(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            await fill(broker, 3)
            consumer = Consumer(broker.receive_address, queue="orders", on_failure="stop")

            @consumer.batch_handler(max_messages=3, max_wait=60)
            def work(deliveries: list[Delivery]) -> None:
                raise PartlyFailedError({1: KeyError("customer")})

            with pytest.raises(KeyError, match="customer"):
                await consumer.serve()
            assert (await row(broker, peers))["ready"] == 1

    run(main)


def test_a_consumer_that_is_cancelled_and_cancelled_again_at_once_gives_back_what_it_has(
    run: Any, serve: Any, peers: Any
) -> None:
    async def main() -> None:
        async with serve() as broker:
            await sent(broker, b"a", b"b")
            begun, never = asyncio.Event(), asyncio.Event()
            consumer = Consumer(broker.receive_address, queue="orders")

            @consumer.handler
            async def work(_payload: bytes) -> None:
                begun.set()
                await never.wait()

            serving = asyncio.create_task(consumer.serve())
            await begun.wait()
            for _ in range(2):
                serving.cancel()
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await serving
            left = await row(broker, peers)
            assert (left["ready"], left["in_flight"]) == (2, 0)

    run(main)
