"""A broker and its connections, end to end over real sockets in one process."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from actors.batch import MessageBatch
from streams.testkit import TestSink, TestSource, settle
from transport import Broker, BrokerConfig, Delivery, LocalProtocolError, Receiver, Sender
from transport.broker.broker import epoch_at
from transport.broker.memory import resident_bytes
from transport.wire.messages import (
    VERSION,
    Ack,
    Cancel,
    Command,
    Deliver,
    Demand,
    Error,
    Extend,
    Fetch,
    Fetched,
    FetchEnd,
    Hello,
    Nack,
    Ping,
    Pong,
    Request,
    Reserve,
    Reserved,
    Result,
    Send,
    Sent,
    Welcome,
)

pytestmark = pytest.mark.event_loop

MIB = 1 << 20


def batch(*payloads: bytes) -> MessageBatch:
    return MessageBatch.from_payloads(list(payloads))


async def command(admin: Any, command_name: str, /, **arguments: Any) -> Any:
    admin.send(Command(1, command_name, arguments))
    return json.loads((await admin.expect(Result)).json)


async def queue_row(admin: Any, name: str = "orders") -> dict[str, Any]:
    found: dict[str, Any] = next(row for row in await command(admin, "queue.list") if row["name"] == name)
    return found


async def sender_with(peers: Any, broker: Any, *payloads: bytes, queue: str = "orders", client_id: str = "c") -> Any:
    """A sender whose messages are stored, each in a batch of its own."""
    sender = await peers.open(broker.send_address, "sender", queue, client_id)
    await sender.expect(Demand)
    for number, payload in enumerate(payloads):
        sender.send(Send(number, None, batch(payload)))
        await sender.expect_later(Sent)
    return sender


def test_welcome_says_what_the_client_must_know(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve(heartbeat=2.5, visibility_timeout=7.0) as broker, peers() as opened:
            peer = await opened.connect(broker.send_address)
            sender = await peer.hello("sender")
            assert sender == Welcome(
                VERSION, broker.epoch, {"max_frame": 16 * MIB, "heartbeat_ms": 2500, "last_sequence": None}
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
                    async with asyncio.timeout(3):
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


def test_a_quiet_connection_lives_on_by_heartbeats(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve(heartbeat=0.1) as broker, peers() as opened:
            peer = await opened.open(broker.send_address, "sender")
            await peer.expect(Demand)
            listening = asyncio.ensure_future(peer.frame())
            await settle(0.5)
            assert not listening.done(), f"pings are answered, so nothing else comes, but {listening.result()} did"
            peer.send(Ping(7))
            assert await listening == Pong(7)

    run(main)


def test_an_idle_sender_and_receiver_of_ours_live_on_by_heartbeats(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve(heartbeat=0.1) as broker:
            source: TestSource[bytes] = TestSource()
            sink: TestSink[Delivery] = TestSink()
            sending = source.to(Sender(broker.send_address, queue="orders")).run()
            receiving = Receiver(broker.receive_address, queue="orders").to(sink).run()
            await source.probe.expect_request()
            await sink.expect_subscription()
            sink.request(10)
            await settle(0.5)
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
