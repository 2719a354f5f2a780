"""Delayed exchanges over real sockets, natively: senders, schedules, and transactions, which they are not for."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from actors.batch import MessageBatch
from streams import Source
from transport import Administration, BrokerError, Delivery, Message, Receiver, Sender, StageClient
from transport.testing import HostedBroker

TOLERANCE = 0.002
"""Seconds that a clock in milliseconds may be off."""


async def later(administration: Administration, kind: str = "direct", key: str = "k") -> None:
    """A delayed exchange with a queue behind it."""
    await administration.declare_exchange("later", kind, delayed=True)
    await administration.create_queue("q")
    await administration.bind("later", "q", key)


async def one(broker: Any) -> Delivery:
    """The next message of the queue."""
    async for delivery in Receiver(broker.receive_address, queue="q", create=False, limit=1):
        delivery.acknowledge()
        return delivery
    raise AssertionError("a receiver ends behind its limit")


@pytest.mark.parametrize("directory", [False, True])
def test_a_senders_delay_is_the_wait_and_another_says_it_in_the_header(
    run: Any, serve: Any, tmp_path: Any, directory: bool
) -> None:
    async def main() -> None:
        options = {"directory": str(tmp_path / "data")} if directory else {}
        async with serve(**options) as broker, Administration(broker.send_address) as administration:
            await later(administration, "topic", "k.*")
            for delay, said in ((0.1, {"own": "1"}), (None, {"own": "1", "x-delay": "100"})):
                began = time.time()
                message = Message(b"m", b"k.1", said)
                await Source.single(message).to(Sender(broker.send_address, exchange="later", delay=delay)).run()
                delivery = await one(broker)
                assert time.time() - began >= 0.1 - TOLERANCE
                assert delivery.headers == {"own": "1", "x-delay": "-100"}
                assert (delivery.exchange, delivery.routing_key) == ("later", "k.1")
            assert (await administration.exchange("later"))["waiting"] == 0

    run(main)


def test_a_header_that_is_no_wait_ends_the_sender_and_it_does_not_try_again(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await later(administration)
            message = Message(b"m", b"k", {"x-delay": "soon"})
            with pytest.raises(BrokerError, match="the header x-delay is 'soon'"):
                await Source.single(message).to(Sender(broker.send_address, exchange="later")).run()

    run(main)


def test_the_message_of_a_schedule_waits_too(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await later(administration)
            said = {"x-delay": "50"}
            await administration.declare_schedule(
                "s", "every 1s", exchange="later", routing_key="k", payload=b"m", headers=said
            )
            delivery = await one(broker)
            assert (delivery.payload, (delivery.headers or {})["x-delay"]) == (b"m", "-50")

    run(main)


def test_a_native_transaction_takes_what_does_not_wait_alone() -> None:
    def stage(broker: HostedBroker, name: str, *headers: dict[str, str] | None) -> list[tuple[str, int]]:
        batch = MessageBatch.from_messages([Message(b"m", b"k", each) for each in headers])
        with StageClient(broker.send_address, exchange="later", writer="w", version=1, stage=name) as client:
            client.send(batch)
            return [(each.queue, each.messages) for each in client.finish_all()]

    with HostedBroker() as broker:

        async def declare() -> None:
            async with Administration(broker.send_address) as administration:
                await later(administration)

        asyncio.run(declare())
        assert stage(broker, "a", None, {"x-delay": "-5"}) == [("q", 2)]
        with pytest.raises(BrokerError, match="publish it without a transaction"):
            stage(broker, "b", None, {"x-delay": "5"})
