"""A broker's connections, end to end over real sockets in one process: demand, deliveries, takeovers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from streams.testkit import settle
from tests.transport.broker_helpers import MIB, batch, command, sender_with
from transport.broker.memory import resident_bytes
from transport.wire.messages import (
    VERSION,
    Ack,
    Cancel,
    Deliver,
    Demand,
    Error,
    Extend,
    Nack,
    Ping,
    Pong,
    Request,
    Send,
    Sent,
    Welcome,
)

pytestmark = pytest.mark.event_loop


async def queue_row(admin: Any, name: str = "orders") -> dict[str, Any]:
    found: dict[str, Any] = next(row for row in await command(admin, "queue.list") if row["name"] == name)
    return found


def test_welcome_says_what_the_client_must_know(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve(heartbeat=2.5, visibility_timeout=7.0) as broker, peers() as opened:
            peer = await opened.connect(broker.send_address)
            sender = await peer.hello("sender")
            assert sender == Welcome(
                VERSION,
                broker.epoch,
                {"max_frame": 16 * MIB, "heartbeat_ms": 2500, "last_sequence": None, "explains": True},
            )
            peer = await opened.connect(broker.receive_address)
            receiver = await peer.hello("receiver", client_id=None)
            assert receiver.options["visibility_timeout_ms"] == 7000
            assert receiver.options["id_prefix"][:4] == broker.epoch.to_bytes(4, "big")

    run(main)


def test_the_first_window_of_demand_is_small_and_grows_with_use(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            sender = await opened.open(broker.send_address, "sender")
            first = await sender.expect(Demand)
            assert 0 < first.messages <= 1024
            assert 0 < first.bytes <= 256 * 1024
            sequence = 0
            demand = first
            while demand.messages - sequence < 4 * first.messages:
                count = min(500, demand.messages - sequence)
                sender.send(Send(sequence, None, batch(*[b"x"] * count)))
                sequence += count
                confirmed = False
                while not confirmed or demand.messages - sequence < 1:
                    frame = await sender.frame()
                    if isinstance(frame, Demand):
                        assert frame.messages >= demand.messages
                        assert frame.bytes >= demand.bytes
                        demand = frame
                    else:
                        assert frame == Sent(sequence, sequence - count)
                        confirmed = True
            assert sequence < 100_000

    run(main)


@pytest.mark.parametrize("size", [300_000, 2_000_000])
def test_messages_larger_than_the_window_keep_coming_one_at_a_time(run: Any, serve: Any, peers: Any, size: int) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            sender = await opened.open(broker.send_address, "sender")
            demand = await sender.expect(Demand)
            used = 0
            for sequence in range(6):
                while demand.messages <= sequence or demand.bytes <= used:
                    async with asyncio.timeout(20):
                        demand = await sender.expect_later(Demand)
                message = batch(b"x" * size)
                sender.send(Send(sequence, None, message))
                used += message.nbytes
            assert (await queue_row(await opened.open(broker.send_address, "admin", None)))["total_in"] >= 5

    run(main)


def test_a_queue_grants_no_more_than_its_limits_to_all_its_senders(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve(max_queue_messages=10) as broker, peers() as opened:
            first = await opened.open(broker.send_address, "sender", "orders", "first")
            assert (await first.expect(Demand)).messages == 10
            first.send(Send(0, None, batch(*[b"x"] * 10)))
            await first.expect_later(Sent)
            second = await opened.open(broker.send_address, "sender", "orders", "second")
            second.send(Ping(1))
            assert await second.expect(Pong) == Pong(1)
            receiver = await opened.open(broker.receive_address, "receiver")
            receiver.send(Request(4, MIB))
            await receiver.expect(Deliver)
            receiver.send(Ack([(0, 4)]))
            granted = await second.expect(Demand)
            assert 1 <= granted.messages <= 4

    run(main)


def test_many_idle_senders_do_not_stop_the_one_that_sends(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve(max_queue_messages=20) as broker, peers() as opened:
            for number in range(30):
                await opened.open(broker.send_address, "sender", "orders", f"idle-{number}")
            busy = await opened.open(broker.send_address, "sender", "orders", "busy")
            assert (await busy.expect(Demand)).messages >= 1
            busy.send(Send(0, None, batch(b"x")))
            assert await busy.expect_later(Sent) == Sent(1, 0)

    run(main)


def test_a_receiver_never_gets_more_than_its_demand(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            await sender_with(opened, broker, *[b"%d" % number for number in range(20)])
            receiver = await opened.open(broker.receive_address, "receiver")
            got = 0
            for demand in (3, 3, 5, 12):
                receiver.send(Request(demand, MIB), Ping(demand))
                while not isinstance(frame := await receiver.frame(), Pong):
                    assert isinstance(frame, Deliver)
                    assert frame.first == got
                    got += len(frame.batch)
                    assert got <= demand
                await settle()
            receiver.send(Ping(99))
            while not isinstance(frame := await receiver.frame(), Pong):
                assert isinstance(frame, Deliver)
                got += len(frame.batch)
            assert got == 12

    run(main)


def test_unread_deliveries_do_not_pile_up_in_the_broker(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            sender = await opened.open(broker.send_address, "sender")
            demand = await sender.expect(Demand)
            size = 100_000
            used = 0
            for sequence in range(400):
                while demand.messages <= sequence or demand.bytes <= used:
                    demand = await sender.expect_later(Demand)
                message = batch(b"x" * size)
                sender.send(Send(sequence, None, message))
                used += message.nbytes
                await sender.flushed()
            before = resident_bytes()
            for number in range(8):
                lazy = await opened.open(broker.receive_address, "receiver", "orders", f"lazy-{number}")
                lazy.send(Request(1 << 40, 1 << 50))
                await lazy.flushed()
            await settle(0.1)
            # Stored once, delivered by reference: eight greedy readers that read nothing cost their sockets' buffers.
            assert resident_bytes() - before < 8 * 8 * MIB

    run(main)


def test_a_newer_connection_takes_over_and_the_sequence_goes_on(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            older = await sender_with(opened, broker, b"a", b"b", client_id="twin")
            newer = await opened.connect(broker.send_address)
            assert (await newer.hello("sender", client_id="twin")).options["last_sequence"] == 2
            assert (await older.refusal()).code == "taken-over"
            await newer.expect(Demand)
            newer.send(Send(1, None, batch(b"b", b"c")))
            assert await newer.expect_later(Sent) == Sent(3, None)
            newer.send(Send(3, None, batch(b"d")))
            assert await newer.expect_later(Sent) == Sent(4, 3)

    run(main)


def test_the_same_name_on_another_queue_is_another_producer(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            first = await sender_with(opened, broker, b"a", queue="one", client_id="same")
            second = await opened.connect(broker.send_address)
            assert (await second.hello("sender", "two", "same")).options["last_sequence"] is None
            first.send(Ping(1))
            assert await first.expect_later(Pong) == Pong(1)

    run(main)


def test_cancel_comes_after_what_was_said_before_it(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            await sender_with(opened, broker, b"a", b"b", b"c")
            receiver = await opened.open(broker.receive_address, "receiver")
            receiver.send(Request(3, MIB))
            got = 0
            while got < 3:
                got += len((await receiver.expect(Deliver)).batch)
            receiver.send(Ack([(0, 1)]), Nack([(1, 1)], 0), Cancel())
            frames = await receiver.rest()
            assert not any(isinstance(frame, Error) for frame in frames)
            row = await queue_row(await opened.open(broker.send_address, "admin", None))
            assert (row["total_acknowledged"], row["ready"], row["in_flight"]) == (1, 2, 0)

    run(main)


@pytest.mark.parametrize("way", ["close", "abort"])
def test_whatever_way_a_receiver_goes_its_messages_come_back_in_their_old_place(
    run: Any, serve: Any, peers: Any, way: str
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            await sender_with(opened, broker, b"a", b"b", b"c", b"d")
            going = await opened.open(broker.receive_address, "receiver")
            going.send(Request(3, MIB))
            got = 0
            while got < 3:
                got += len((await going.expect(Deliver)).batch)
            other = await opened.open(broker.receive_address, "receiver", "orders", "other")
            other.send(Request(100, MIB))
            assert (await other.expect(Deliver)).first == 3
            if way == "abort":
                going.abort()
            else:
                await going.close()
            back: list[tuple[int, int, bool]] = []
            while len(back) < 3:
                delivered = await other.expect(Deliver)
                back += [
                    (delivered.first + index, delivered.delivery_count, delivered.possibly_replayed)
                    for index in range(len(delivered.batch))
                ]
            assert back == [(0, 2, True), (1, 2, True), (2, 2, True)]

    run(main)


def test_an_expired_message_may_still_be_acknowledged_extended_or_returned(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve(visibility_timeout=0.03) as broker, peers() as opened:
            await sender_with(opened, broker, b"a", b"b", b"c")
            slow = await opened.open(broker.receive_address, "receiver")
            slow.send(Request(3, MIB))
            got = 0
            while got < 3:
                got += len((await slow.expect(Deliver)).batch)
            admin = await opened.open(broker.send_address, "admin", None)
            while (await queue_row(admin))["in_flight"]:
                await settle(0.005)
            slow.send(Ack([(0, 1)]), Extend([(1, 1)], 1000), Nack([(2, 1)], 0), Ping(5))
            assert await slow.expect_later(Pong) == Pong(5)
            row = await queue_row(admin)
            assert (row["ready"], row["total_acknowledged"]) == (2, 1)

    run(main)
