"""Retries over a broker: what receivers see of failures and deaths, queues that say when to try again, and dead letters that go back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.queue.vocabulary.deaths import DEATH_HEADERS
from streams import Sink, Source
from tests.transport.programs import BrokerProcess
from transport import Administration, Consumer, Death, Delivery, Message, Receiver, Sender, deaths_in, receive, send
from transport.testing import HostedBroker


async def sent(broker: Any, *messages: bytes | Message, **settings: Any) -> None:
    async with Administration(broker.send_address) as administration:
        await administration.create_queue("orders", **settings)
    await Source.from_iterable(messages).to(Sender(broker.send_address, queue="orders")).run()


async def waits(administration: Administration, queue: str, figure: str, messages: int) -> bool:
    return bool((await administration.queue(queue))[figure] == messages)


def failing(broker: Any, times: int, seen: list[tuple[int, int]]) -> Any:
    """A stream that fails on what it gets so often."""

    async def fail(delivery: Delivery) -> Delivery:
        seen.append((delivery.delivery_count, delivery.failures))
        delivery.reject()
        return delivery

    return Receiver(broker.receive_address, queue="orders").map_async(1, fail).take(times).to(Sink.acknowledge())


def test_a_receiver_sees_how_often_a_message_has_failed_and_what_a_dead_letter_died_of(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            await sent(broker, b"a", max_failures=3)
            seen: list[tuple[int, int]] = []
            await failing(broker, 3, seen).run()
            assert seen == [(1, 0), (2, 1), (3, 2)]
            dead = await Receiver(broker.receive_address, queue="orders.dead", limit=1).to(Sink.head()).run()
            us = dead.enqueued_us
            assert dead.deaths == (Death("orders", "max-receives", 1, us, us, "", "orders"),)
            # Whoever has the headers alone, as Spark has them, reads the same.
            packed = {name: value.encode() for name, value in dead.headers.items()}
            assert deaths_in(packed, us) == deaths_in(dead.headers, us) == dead.deaths
            assert deaths_in({"own": "header"}) == deaths_in(None) == ()

    run(main)


def test_a_queue_says_when_what_has_failed_is_tried_again_unless_its_receiver_does(
    run: Any, serve: Any, until: Any
) -> None:
    """Its time is longer than this test has."""

    async def main() -> None:
        async with serve(retry_delay=3600.0) as broker:
            for queue, options in (("quick", {"retry_delay": 0.01}), ("slow", {})):
                handled: list[int] = []

                def handle(delivery: Delivery, handled: list[int] = handled) -> None:
                    handled.append(delivery.delivery_count)
                    if len(handled) < 3:
                        raise ValueError

                await Source.of(b"a").to(Sender(broker.send_address, queue=queue)).run()
                received = Receiver(broker.receive_address, queue=queue, limit=1, on_failure="return", **options)
                running = received.handle(1, _awaited(handle)).to(Sink.acknowledge()).run()
                if queue == "quick":
                    assert await running == 1
                    assert handled == [1, 2, 3]
                    continue
                async with Administration(broker.send_address) as administration:
                    await until(lambda: waits(administration, queue, "delayed", 1))  # noqa: B023 - awaited here
                assert handled == [1]
                await running.stop()

    run(main)


def _awaited(function: Callable[[Delivery], None]) -> Any:
    async def handle(delivery: Delivery) -> None:
        function(delivery)

    return handle


def test_a_consumer_leaves_it_to_the_queue_too() -> None:
    handled: list[bytes] = []
    with HostedBroker(retry_delay=3600.0) as broker:
        broker.send("orders", [b"1"])
        consumer = Consumer(broker.receive_address, queue="orders")

        @consumer.handler
        def handle(payload: bytes) -> None:
            handled.append(payload)
            raise ValueError

        async def main() -> None:
            serving = asyncio.ensure_future(consumer.serve())
            await asyncio.to_thread(broker.wait_until, "orders", delayed=1)
            consumer.stop()
            await serving

        asyncio.run(main())
    assert handled == [b"1"]


def test_what_waits_for_its_retry_waits_on_when_the_broker_was_killed(tmp_path: Path) -> None:
    options = "--data", str(tmp_path / "data"), "--retry-delay", "1h", "--http", "none"
    with BrokerProcess(*options) as broker:
        send(broker.sending, "orders", [b"fails", b"waits"])
        for delivery in receive(broker.receiving, "orders", limit=1):
            delivery.reject()
            break
        broker.until("orders", lambda row: row["delayed"] == 1)
        # What was recorded is written within 50 ms; what is confirmed behind it is durable, and that with it.
        send(broker.sending, "orders", [b"behind"])
        broker.process.kill()
        broker.process.wait()
    with BrokerProcess(*options) as broker:
        figures = broker.statistics("orders")
        assert (figures["delayed"], figures["ready"]) == (1, 2)
        assert [each.payload for each in receive(broker.receiving, "orders", limit=2)] == [b"waits", b"behind"]


@pytest.mark.parametrize(("keep", "kept"), [(None, False), (True, True), (False, False)])
def test_what_is_moved_back_to_where_it_died_begins_anew(run: Any, serve: Any, keep: bool | None, kept: bool) -> None:
    async def main() -> None:
        async with serve() as broker:
            await sent(broker, Message(b"a", key=b"k", headers={"own": "1"}), max_failures=1)
            await failing(broker, 1, []).run()
            async with Administration(broker.send_address) as administration:
                assert await administration.move("orders.dead", "orders", keep_history=keep) == 1
            again = await Receiver(broker.receive_address, queue="orders", limit=1).to(Sink.head()).run()
            assert (again.failures, again.delivery_count, again.key, again.headers["own"]) == (0, 1, b"k", "1")
            assert bool(again.deaths) is kept
            assert (DEATH_HEADERS.isdisjoint(again.headers)) is not kept

    run(main)


@pytest.mark.parametrize(("keep", "kept"), [(None, True), (True, True), (False, False)])
def test_what_is_moved_elsewhere_says_what_it_died_of(run: Any, serve: Any, keep: bool | None, kept: bool) -> None:
    async def main() -> None:
        async with serve() as broker:
            await sent(broker, b"a", max_failures=1)
            await failing(broker, 1, []).run()
            async with Administration(broker.send_address) as administration:
                await administration.move("orders.dead", "archive", create=True, keep_history=keep)
                (found,) = await administration.peek("archive")
            assert bool(deaths_in(found.headers)) is kept

    run(main)


def test_what_is_moved_back_has_the_key_that_it_had_before_an_exchange_gave_it_another(
    run: Any, serve: Any, until: Any
) -> None:
    async def main() -> None:
        async with serve() as broker:
            async with Administration(broker.send_address) as administration:
                await administration.declare_exchange("lost")
                await administration.create_queue("late")
                await administration.bind("lost", "late", "given")
            places = {"dead_letter_exchange": "lost", "dead_letter_routing_key": "given"}
            await sent(broker, Message(b"a", key=b"table 4"), max_failures=1, **places)
            await failing(broker, 1, []).run()
            async with Administration(broker.send_address) as administration:
                await until(lambda: waits(administration, "late", "ready", 1))
                assert {each.key for each in await administration.peek("late")} == {b"given"}
                await administration.move("late", "orders")
                found = await administration.peek("orders")
            assert [(each.payload, each.key) for each in found] == [(b"a", b"table 4")]

    run(main)


def test_a_limit_is_said_by_either_name_wherever_it_is_said_and_shown_by_one(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("[queue_defaults]\nmax_failures = 4\n[queues.orders]\nmax_failures = 5\n", "utf-8")
    with BrokerProcess("--config", str(file), "--http", "none", "--memory") as broker:
        assert broker.statistics("orders")["max_receives"] == 5
        assert broker.run("queue create", "mine", "--max-failures", "6")[0] == 0
        assert broker.statistics("mine")["max_receives"] == 6
        assert broker.run("queue create", "others")[0] == 0
        assert broker.statistics("others")["max_receives"] == 4
        assert broker.run("queue alter", "mine", "--max-failures", "never")[0] == 0
        assert broker.statistics("mine")["max_receives"] is None
