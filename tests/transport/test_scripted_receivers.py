"""Receivers against a scripted broker: acknowledgements over two connections, and waiting behind another."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from actors.batch import MessageBatch
from streams import Sink
from streams.testkit import TestSink
from tests.transport.scripted_clients import QUICK, Client, scripted, until_end
from transport import Delivery, Receiver
from transport.wire.messages import (
    Ack,
    Cancel,
    Deliver,
    Frame,
    Nack,
    Request,
)

# A receiver that comes back


def deliver(first: int, *messages: bytes, count: int = 1, replayed: bool = False) -> Deliver:
    return Deliver(first, 1, count, replayed, MessageBatch.from_payloads(list(messages)))


def test_acknowledgements_of_an_earlier_connection_never_reach_the_next(run: Any) -> None:
    heard: list[Frame] = []
    lost = asyncio.Event()

    async def delivers(client: Client) -> None:
        await client.welcome(id_prefix=b"12345678", visibility_timeout_ms=60_000)
        assert isinstance(await client.frame(), Request)
        client.say(deliver(0, b"a", b"b", b"c"))
        await lost.wait()

    async def delivers_again(client: Client) -> None:
        await client.welcome(epoch=2, id_prefix=b"12345678", visibility_timeout_ms=60_000)
        assert isinstance(await client.frame(), Request)
        client.say(deliver(0, b"a", b"b", b"c", count=2, replayed=True))
        heard.extend(await until_end(client))

    async def main() -> None:
        async with scripted(delivers, delivers_again) as address:
            sink: TestSink[Delivery] = TestSink()
            running = Receiver(address, queue="orders", reconnect=QUICK).to(sink).run()
            await sink.expect_subscription()
            sink.request(10)
            old = await sink.expect_n(3)
            assert not any(delivery.possibly_replayed for delivery in old)
            lost.set()
            new = await sink.expect_n(3)
            assert [(delivery.sequence, delivery.possibly_replayed) for delivery in new] == [
                (0, True),
                (1, True),
                (2, True),
            ]
            old[0].acknowledge()
            old[1].reject()
            old[2].extend(30)
            new[1].acknowledge()
            sink.cancel()
            await running

    run(main)
    answers = [frame for frame in heard if not isinstance(frame, Request)]
    assert [frame for frame in answers if isinstance(frame, Ack)] == [Ack([(1, 1)])]
    # What the new one delivered and nobody answered goes back at the end.
    assert [type(frame) for frame in answers] == [Ack, Nack, Cancel]
    assert [frame for frame in answers if isinstance(frame, Nack)] == [Nack([(0, 1), (2, 1)], 0)]


def test_what_was_acknowledged_between_two_connections_does_not_count_towards_the_limit(run: Any) -> None:
    async def breaks_off(client: Client) -> None:
        await client.welcome(id_prefix=b"12345678")
        assert isinstance(await client.frame(), Request)
        client.say(deliver(0, b"a", b"b"))

    heard: list[Frame] = []
    back, acknowledged = asyncio.Event(), asyncio.Event()

    async def delivers_again(client: Client) -> None:
        back.set()
        await acknowledged.wait()
        await client.welcome(epoch=2, id_prefix=b"12345678")
        assert await client.frame() == Request(2, 8 * 1024 * 1024)
        client.say(deliver(0, b"a", b"b", count=2, replayed=True))
        heard.extend(await until_end(client))

    async def main() -> None:
        async with scripted(breaks_off, delivers_again) as address:
            sink: TestSink[Delivery] = TestSink()
            running = Receiver(address, queue="orders", limit=2, reconnect=QUICK).to(sink).run()
            await sink.expect_subscription()
            sink.request(10)
            old = await sink.expect_n(2)
            await back.wait()
            for delivery in old:
                delivery.acknowledge()
            acknowledged.set()
            for delivery in await sink.expect_n(2):
                delivery.acknowledge()
            await sink.expect_complete()
            await running

    run(main)
    assert [frame for frame in heard if isinstance(frame, Ack)] == [Ack([(0, 2)])]


# A receiver that waits


def test_a_receiver_that_waits_behind_another_says_so_and_when_its_turn_has_come(
    run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[bool] = []
    turn = asyncio.Event()

    async def makes_wait(client: Client) -> None:
        await client.welcome(id_prefix=b"12345678", waiting=True)
        assert isinstance(await client.frame(), Request)
        await turn.wait()
        client.say(deliver(0, b"a"), deliver(1, b"b"))
        await until_end(client)

    def note(waiting: bool) -> None:
        told.append(waiting)
        turn.set()

    async def main() -> None:
        async with scripted(makes_wait) as address:
            receiver = Receiver(address, queue="orders", limit=2, on_waiting=note)
            assert await receiver.to(Sink.acknowledge()).run() == 2

    with caplog.at_level(logging.WARNING, "penstock.receiver"):
        run(main)
    assert told == [True, False]
    assert [record.getMessage() for record in caplog.records if record.name == "penstock.receiver"] == [
        "queue orders is for one receiver at a time: this one waits in line behind another",
        "queue orders is for one receiver at a time: this one has it now",
    ]


def test_a_receiver_that_need_not_wait_hears_nothing_of_it(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    told: list[bool] = []

    async def serves(client: Client) -> None:
        await client.welcome(id_prefix=b"12345678", waiting=False)
        assert isinstance(await client.frame(), Request)
        client.say(deliver(0, b"a"))
        await until_end(client)

    async def main() -> None:
        async with scripted(serves) as address:
            receiver = Receiver(address, queue="orders", limit=1, on_waiting=told.append)
            assert await receiver.to(Sink.acknowledge()).run() == 1

    with caplog.at_level(logging.WARNING, "penstock.receiver"):
        run(main)
    assert told == []
    assert not [record for record in caplog.records if record.name == "penstock.receiver"]


def test_a_program_that_fails_on_being_told_to_wait_fails_its_stream(run: Any) -> None:
    async def makes_wait(client: Client) -> None:
        await client.welcome(id_prefix=b"12345678", waiting=True)
        await until_end(client)

    def fail(_: bool) -> None:
        raise ZeroDivisionError("told")

    async def main() -> None:
        async with scripted(makes_wait) as address:
            with pytest.raises(ZeroDivisionError, match="told"):
                await Receiver(address, queue="orders", on_waiting=fail).to(Sink.acknowledge()).run()

    run(main)
