"""A broker's commands, what it shows of itself, and connections that are quiet."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from streams.testkit import TestSink, TestSource, settle
from tests.transport.broker_helpers import MIB, batch, command, sender_with
from transport import Delivery, Receiver, Sender
from transport.wire.messages import (
    Command,
    Deliver,
    Demand,
    Error,
    Fetch,
    Fetched,
    FetchEnd,
    Ping,
    Pong,
    Request,
    Reserve,
    Reserved,
    Result,
    Send,
    Sent,
)

pytestmark = pytest.mark.event_loop


def test_statistics_show_queues_and_connections(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            await sender_with(opened, broker, b"a", b"b", b"c")
            receiver = await opened.open(broker.receive_address, "receiver", "orders", "reader")
            receiver.send(Request(1, MIB))
            await receiver.expect(Deliver)
            receiver.send(Request(1, MIB))
            admin = await opened.open(broker.send_address, "admin", None)
            stats = await command(admin, "stats")
            assert stats["broker"]["connections"] == 3
            assert stats["broker"]["rss_bytes"] > MIB
            (queue,) = stats["queues"]
            assert (queue["ready"], queue["in_flight"], queue["total_in"], queue["total_out"]) == (2, 1, 3, 1)
            assert (queue["senders"], queue["receivers"]) == (1, 1)
            reader = next(row for row in stats["connections"] if row["role"] == "receiver")
            assert (reader["client_id"], reader["queue"], reader["in_flight"]) == ("reader", "orders", 1)
            assert reader["bytes_in"] > 0
            assert reader["bytes_out"] > 0

    run(main)


def test_commands_are_answered_by_their_request_numbers(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            admin = await opened.open(broker.send_address, "admin", None)
            for request in range(20):
                admin.send(Command(request, "stats", {}))
            answers = [await admin.expect(Result) for _ in range(20)]
            assert sorted(answer.request for answer in answers) == list(range(20))

    run(main)


def test_commands_on_many_connections_are_bounded_and_the_surplus_is_told(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            admin = await opened.open(broker.send_address, "admin", None)
            admin.send(*[Command(request, "stats", {}) for request in range(500)])
            answers = [await admin.frame() for _ in range(500)]
            refused = [answer for answer in answers if isinstance(answer, Error)]
            assert all(answer.code == "limit-exceeded" and not answer.close for answer in refused)
            assert len([answer for answer in answers if isinstance(answer, Result)]) >= 64

    run(main)


def test_a_fetch_is_streamed_under_the_demand_of_its_connection(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            sender = await opened.open(broker.send_address, "sender")
            await sender.expect(Demand)
            sender.send(Send(0, None, batch(*[b"%d" % number for number in range(10)])))
            await sender.expect_later(Sent)
            owner = await opened.open(broker.receive_address, "subscription", subscription="s")
            owner.send(Reserve(1, 0, 10, MIB, 0, None))
            assert (await owner.expect(Reserved)).end == 10
            owner.send(Fetch(2, 0, 10), Request(3, MIB), Ping(1))
            got: list[bytes] = []
            while not isinstance(frame := await owner.frame(), Pong):
                assert isinstance(frame, Fetched)
                got += frame.batch.payloads.tolist()
            await settle()
            assert got == [b"0", b"1", b"2"][: len(got)]
            owner.send(Request(100, MIB))
            while not isinstance(frame := await owner.frame(), FetchEnd):
                assert isinstance(frame, Fetched)
                assert frame.position == len(got)
                got += frame.batch.payloads.tolist()
            assert frame == FetchEnd(2, 10)
            assert got == [b"%d" % number for number in range(10)]

    run(main)


HEARTBEAT = 0.5
"""Seconds. A busy machine may hold up the loop for longer than three of a much shorter one, and then the peer is silent."""


async def long_silence(jump: Any) -> None:
    """Four heartbeats' time, in which nothing is said but signs of life: one more than a silent peer has. uvloop's has to pass."""
    if type(asyncio.get_running_loop()).__module__.startswith("uvloop"):
        await settle(4 * HEARTBEAT)
        return
    for _ in range(16):
        jump(HEARTBEAT / 4)
        await settle(0.01)


def test_a_quiet_connection_lives_on_by_heartbeats(run: Any, serve: Any, peers: Any, jump: Any) -> None:
    async def main() -> None:
        async with serve(heartbeat=HEARTBEAT) as broker, peers() as opened:
            peer = await opened.open(broker.send_address, "sender")
            await peer.expect(Demand)
            listening = asyncio.ensure_future(peer.frame())
            await long_silence(jump)
            assert not listening.done(), f"pings are answered, so nothing else comes, but {listening.result()} did"
            peer.send(Ping(7))
            assert await listening == Pong(7)

    run(main)


def test_an_idle_sender_and_receiver_of_ours_live_on_by_heartbeats(run: Any, serve: Any, jump: Any) -> None:
    async def main() -> None:
        async with serve(heartbeat=HEARTBEAT) as broker:
            source: TestSource[bytes] = TestSource()
            sink: TestSink[Delivery] = TestSink()
            sending = source.to(Sender(broker.send_address, queue="orders")).run()
            receiving = Receiver(broker.receive_address, queue="orders").to(sink).run()
            await source.probe.expect_request()
            await sink.expect_subscription()
            sink.request(10)
            await long_silence(jump)
            source.probe.send_next(b"after a long silence")
            source.probe.send_complete()
            summary = await sending
            assert (summary.messages, summary.reconnects) == (1, 0)
            delivery = await sink.expect_next()
            assert (delivery.payload, delivery.possibly_replayed) == (b"after a long silence", False)
            delivery.acknowledge()
            sink.cancel()
            await receiving

    run(main)
