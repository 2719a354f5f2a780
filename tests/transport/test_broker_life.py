"""A broker's limits, its end, its start, and what cannot be configured."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.batch import MessageBatch
from streams.testkit import settle
from tests.transport.broker_helpers import MIB, batch, command, sender_with
from transport import Broker, BrokerConfig, LocalProtocolError
from transport.broker.epochs import epoch_at
from transport.wire.messages import (
    VERSION,
    Command,
    Deliver,
    Demand,
    Error,
    Hello,
    Request,
    Send,
    Sent,
)

pytestmark = pytest.mark.event_loop


def test_too_many_connections_are_told_so_and_the_others_stay(run: Any, serve: Any, peers: Any, until: Any) -> None:
    async def main() -> None:
        async with serve(max_connections=3) as broker, peers() as opened:
            sender = await opened.open(broker.send_address, "sender")
            receiver = await opened.open(broker.receive_address, "receiver")
            admin = await opened.open(broker.send_address, "admin", None)
            extra = await opened.connect(broker.receive_address)
            refusal = await extra.refusal()
            assert refusal.code == "limit-exceeded"
            assert "3 connections" in refusal.text
            assert len((await command(admin, "stats"))["connections"]) == 3
            await sender.expect(Demand)
            sender.send(Send(0, None, batch(b"x")))
            receiver.send(Request(1, MIB))
            assert (await receiver.expect(Deliver)).first == 0
            await receiver.close()
            await until(lambda: len(broker.connections) == 2)
            await opened.open(broker.receive_address, "receiver")

    run(main)


def test_too_many_queues_are_told_so(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve(max_queues=2) as broker, peers() as opened:
            await opened.open(broker.send_address, "sender", "one")
            await opened.open(broker.receive_address, "receiver", "two")
            for address, role in ((broker.send_address, "sender"), (broker.receive_address, "receiver")):
                extra = await opened.connect(address)
                extra.send(Hello(VERSION, role, "three", "c", {}))
                assert (await extra.refusal()).code == "limit-exceeded"
            admin = await opened.open(broker.send_address, "admin", None)
            admin.send(Command(1, "queue.create", {"name": "three"}))
            assert (await admin.expect(Error)).code == "limit-exceeded"
            await command(admin, "queue.delete", name="one")
            await command(admin, "queue.create", name="three")
            assert [row["name"] for row in await command(admin, "queue.list")] == ["three", "two"]

    run(main)


def test_deleting_a_queue_ends_its_connections_and_no_others(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            doomed = [
                await sender_with(opened, broker, b"a"),
                await opened.open(broker.receive_address, "receiver"),
                await opened.open(broker.receive_address, "subscription", subscription="s"),
            ]
            other = await sender_with(opened, broker, b"a", queue="other")
            admin = await opened.open(broker.send_address, "admin", None)
            await command(admin, "queue.delete", name="orders")
            for peer in doomed:
                assert (await peer.refusal()).code == "queue-deleted"
            other.send(Send(1, None, batch(b"b")))
            assert await other.expect_later(Sent) == Sent(2, 1)
            anew = await opened.open(broker.send_address, "sender")
            await anew.expect(Demand)
            anew.send(Send(0, None, batch(b"first again")))
            assert await anew.expect_later(Sent) == Sent(1, 0)

    run(main)


def test_a_stopping_broker_tells_every_client_and_frees_its_ports(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with peers() as opened:
            async with serve() as broker:
                clients = [
                    await opened.open(broker.send_address, "sender"),
                    await opened.open(broker.send_address, "admin", None),
                    await opened.open(broker.receive_address, "receiver"),
                    await opened.open(broker.receive_address, "subscription", subscription="s"),
                    await opened.connect(broker.receive_address),
                ]
                addresses = {"send_address": broker.send_address, "receive_address": broker.receive_address}
                goodbyes = [asyncio.ensure_future(client.refusal()) for client in clients]
                for client, goodbye in zip(clients, goodbyes, strict=True):
                    goodbye.add_done_callback(lambda _, client=client: client.abort())
                await settle()
            assert [(await goodbye).code for goodbye in goodbyes] == ["shutting-down"] * 5
            async with serve(**addresses) as again:
                assert again.send_address == addresses["send_address"]

    run(main)


def test_stopping_while_a_peer_has_just_reset_its_connection_is_no_trouble(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with peers() as opened:
            async with serve() as broker:
                for number in range(5):
                    peer = await opened.open(broker.send_address, "sender", "orders", f"c{number}")
                    await peer.expect(Demand)
                    peer.abort()
            assert broker.connections == {}

    run(main)


def test_a_peer_that_does_not_close_does_not_hold_up_the_end_for_ever(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with peers() as opened:
            async with serve() as broker:
                await opened.open(broker.send_address, "sender")
                began = loop.time()
            assert loop.time() - began < 5.0

    run(main)


def test_the_epoch_grows_with_each_start(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as first:
            earlier = first.epoch
        await settle(0.13)
        async with serve() as second:
            assert second.epoch > earlier

    run(main)


def test_an_address_that_is_taken_is_an_error_and_leaves_nothing_bound(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            with pytest.raises(OSError, match="in use"):
                async with serve(receive_address=broker.receive_address):
                    pytest.fail("two brokers on one port")

    run(main)


def test_serving_ends_when_the_broker_is_left(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            serving = asyncio.ensure_future(broker.serve_forever())
            await settle()
            assert not serving.done()
        await serving
        assert serving.done()

    run(main)


@pytest.mark.parametrize(
    "options",
    [
        {"send_address": "nowhere"},
        {"receive_address": "host:port"},
        {"heartbeat": 0},
        {"heartbeat": -1.0},
        {"max_connections": 0},
        {"max_queues": -5},
        {"heartbeat": float("nan")},
    ],
)
def test_a_broker_that_cannot_be_is_refused_when_it_is_configured(options: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        BrokerConfig(**options)


def test_queue_limits_that_cannot_be_are_refused_when_configured() -> None:
    with pytest.raises(ValueError, match="max_messages is 0; 1 or more is possible"):
        BrokerConfig(max_queue_messages=0)
    with pytest.raises(ValueError, match="visibility timeout"):
        BrokerConfig(visibility_timeout=0)
    assert Broker().config == BrokerConfig()


@pytest.mark.parametrize(
    ("year", "seconds"),
    [("1969", -1.0), ("1970", 0.0), ("2019", 1_577_836_799.0), ("2037", 2_120_000_000.0), ("9999", 253_000_000_000.0)],
)
def test_a_broker_in_memory_serves_receivers_whatever_year_its_clock_says(
    run: Any, serve: Any, peers: Any, monkeypatch: pytest.MonkeyPatch, year: str, seconds: float
) -> None:
    monkeypatch.setattr("transport.broker.broker.time.time", lambda: seconds)

    async def main() -> None:
        async with serve() as broker, peers() as opened:
            assert 0 <= broker.epoch < 2**32, year
            sender = await opened.open(broker.send_address, "sender")
            await sender.expect(Demand)
            sender.send(Send(0, None, MessageBatch.from_payloads([b"x"])))
            receiver = await opened.open(broker.receive_address, "receiver")
            receiver.send(Request(1, 1_000))
            assert (await receiver.expect(Deliver)).batch.payloads.tolist() == [b"x"]

    run(main)


def test_the_epoch_of_a_broker_in_memory_grows_from_start_to_start() -> None:
    for seconds in (0.0, 1_577_836_800.0, 1_760_000_000.0, 2_200_000_000.0):
        assert 0 < epoch_at(seconds + 0.125) - epoch_at(seconds) < 3
