"""Dead letters of a real broker's queue go to an exchange, over TCP and through restarts, and are moved back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from streams import Sink
from transport import Administration, BrokerError, Delivery, Message, Receiver
from transport.testing import HostedBroker


def has_exchange(broker: HostedBroker, *queues: str) -> None:
    """The broker has the fanout exchange ``lost`` with these queues behind it."""

    async def define() -> None:
        directory = broker._of_broker().queues
        await directory.exchanges.declare("lost", "fanout")
        for queue in queues:
            directory.get_or_create(queue)
            await directory.exchanges.bind("lost", queue)

    broker._call(define(), 10.0, "defining exchanges")


def eat(broker: HostedBroker, queue: str, count: int) -> list[bytes]:
    """Receive so many messages, refuse fish, and acknowledge the rest."""
    seen: list[bytes] = []

    def handle(delivery: Delivery) -> None:
        seen.append(delivery.payload)
        if delivery.payload == b"fish":
            delivery.dead_letter("fish is not on the menu")
        else:
            delivery.acknowledge()

    async def main() -> None:
        await Receiver(broker.receive_address, queue=queue).take(count).to(Sink.foreach(handle)).run()

    asyncio.run(main())
    return seen


def administered(broker: HostedBroker, command: Any) -> Any:
    async def main() -> Any:
        async with Administration(broker.send_address) as administration:
            return await command(administration)

    return asyncio.run(main())


def test_what_a_receiver_refuses_is_in_every_queue_behind_the_exchange_and_is_moved_back(tmp_path: Path) -> None:
    with HostedBroker(directory=tmp_path / "data") as broker:
        has_exchange(broker, "audit", "repair")
        administered(
            broker,
            lambda administration: administration.create_queue("orders", max_receives=3, dead_letter_exchange="lost"),
        )
        broker.send("orders", [Message(b"tea"), Message(b"fish", b"sea"), Message(b"rice")])
        assert sorted(eat(broker, "orders", 3)) == [b"fish", b"rice", b"tea"]
        for queue in ("audit", "repair"):
            broker.wait_until(queue, ready=1)
            (dead,) = broker.contents(queue)
            assert (dead.payload, dead.key) == (b"fish", b"sea")
            assert (dead.headers or {})["penstock-dead-error"] == "fish is not on the menu"
            assert (dead.headers or {})["penstock-dead-queue"] == "orders"
        broker.wait_until("orders", stored_messages=0)
        assert broker.contents("orders.dead") == []
        broker.kill()
        broker.start()
        assert [dead.payload for dead in broker.contents("audit")] == [b"fish"]
        # A kill may lose the last acknowledgements: what they were of comes again.
        again = len(broker.contents("orders"))
        assert administered(broker, lambda administration: administration.move("repair", "orders")) == 1
        assert b"fish" in eat(broker, "orders", 1 + again)
        broker.wait_until("audit", ready=2)
        broker.wait_until("repair", ready=1)


def test_a_queue_is_declared_and_altered_with_them_and_what_cannot_be_is_refused_with_a_sentence(
    tmp_path: Path,
) -> None:
    with HostedBroker(directory=tmp_path / "data") as broker:

        async def main(administration: Administration) -> None:
            await administration.create_queue("q", max_receives=1, dead_letter_exchange="lost")
            await administration.alter_queue("q", dead_letter_routing_key="k")
            (row,) = [row for row in await administration.queues() if row["name"] == "q"]
            assert (row["dead_letter_exchange"], row["dead_letter_routing_key"]) == ("lost", "k")
            for refused, why in (
                ({"dead_letter_queue": "d"}, "a dead-letter queue and a dead-letter exchange are given"),
                ({"dead_letter_exchange": ""}, "a dead-letter routing key is given, but no dead-letter exchange"),
                ({"drop_failed": True}, "drop_failed is set, and a place for dead letters is named"),
                ({"dead_letter_routing_key": "k" * 256}, "a dead-letter routing key of 256 bytes"),
            ):
                with pytest.raises(BrokerError, match=why):
                    await administration.alter_queue("q", **refused)
            await administration.alter_queue(
                "q", dead_letter_exchange="", dead_letter_routing_key="", dead_letter_queue="d"
            )
            (row,) = [row for row in await administration.queues() if row["name"] == "q"]
            assert (row["dead_letter_exchange"], row["dead_letter_routing_key"], row["dead_letter_queue"]) == (
                None,
                None,
                "d",
            )

        administered(broker, main)


def test_a_full_queue_behind_the_exchange_holds_back_the_senders_in_the_end() -> None:
    with HostedBroker() as broker:

        async def declare(administration: Administration) -> None:
            await administration.create_queue("audit", max_messages=1)
            await administration.create_queue("orders", max_messages=2, max_receives=1, dead_letter_exchange="lost")

        administered(broker, declare)
        has_exchange(broker, "audit")
        broker.send("orders", [b"fish", b"fish"])
        eat(broker, "orders", 2)
        broker.wait_until("orders", leaving=1, stored_messages=1)
        broker.send("orders", [b"fish"])
        eat(broker, "orders", 1)
        broker.wait_until("orders", leaving=2)
        assert broker.figures("orders")["full"], "its senders wait"
        administered(broker, lambda administration: administration.purge_queue("audit"))
        broker.wait_until("orders", leaving=1)
        broker.send("orders", [b"tea"])
        assert eat(broker, "orders", 1) == [b"tea"]
