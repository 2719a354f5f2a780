"""Each of these was found in a real queue: a broker and its clients over real sockets must not have it."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from actors.batch import Message, MessageBatch
from streams import OneByOneRequestStrategy, Sink, Source
from streams.testkit import TestSink, settle
from transport import Backoff, Confirmation, Delivery, Receiver, Sender
from transport.clients.link import FrameConnection
from transport.shell.connection import Connection
from transport.wire.codec import encode
from transport.wire.messages import Ack, Command, Deliver, Demand, Error, Request, Result, Send, Sent

QUICK = Backoff(minimum=0.001, maximum=0.01, give_up_after=15.0)
MIB = 1 << 20
STALL = 0.04
"""Seconds that Linux delays an acknowledgement; Nagle's algorithm makes the rest of a message wait for it."""


async def filled(broker: Any, opened: Any, *payloads: bytes, queue: str = "orders") -> None:
    sender = await opened.open(broker.send_address, "sender", queue, "filler")
    await sender.expect(Demand)
    sender.send(Send(0, None, MessageBatch.from_payloads(list(payloads))))
    await sender.expect_later(Sent)


# Ids whose hex contains a-f came back corrupted.

IDS = [
    bytes.fromhex("abcdefabcdefabcdefabcdefabcdefab"),
    bytes.fromhex("deadbeefcafebabe0123456789abcdef"),
    b"\xff" * 16,
    b"\x00" * 16,
    b"\x0a\x0b\x0c\x0d\x0e\x0f\xa0\xb0\xc0\xd0\xe0\xf0\x7f\x80\x81\xfe",
    b"0123456789abcdef",
    b"\r\n\t\x00\xc3\x28'\"\\%{}\xe2\x82\x1a\x04",
    *(bytes([value]) * 16 for value in range(256)),
]


def test_every_id_comes_back_equal(run: Any, serve: Any) -> None:
    messages = [Message(b"%d" % index, id=identity) for index, identity in enumerate(IDS)]

    async def main() -> None:
        async with serve() as broker:
            await Source.from_iterable(messages).to(Sender(broker.send_address, queue="orders")).run()
            receiver = Receiver(broker.receive_address, queue="orders")
            found = await receiver.take(len(IDS)).to(Sink.collect()).run()
            assert [(delivery.payload, delivery.id.hex()) for delivery in found] == [
                (message.payload, identity.hex()) for message, identity in zip(messages, IDS, strict=True)
            ]

    run(main)


def test_an_id_is_the_same_when_its_message_is_delivered_again(run: Any, serve: Any) -> None:
    messages: list[Any] = [Message(b"own", id=IDS[0]), b"generated"]

    async def main() -> None:
        async with serve() as broker:
            await Source.from_iterable(messages).to(Sender(broker.send_address, queue="orders")).run()
            rounds = [
                await Receiver(broker.receive_address, queue="orders").take(2).to(Sink.collect()).run()
                for _ in range(2)
            ]
            first, second = [[delivery.id for delivery in found] for found in rounds]
            assert first == second
            assert first[0] == IDS[0]
            assert len(set(first)) == 2
            assert all(len(identity) == 16 for identity in first)

    run(main)


# A bad acknowledgement byte left the socket open for ever.

GOOD = b"".join(bytes(part) for part in encode(Ack([(0, 1)])))


@pytest.mark.parametrize("position", range(len(GOOD)))
def test_every_bit_flipped_in_an_acknowledgement_closes_the_socket_and_the_broker_lives_on(
    run: Any, serve: Any, peers: Any, jump: Any, position: int
) -> None:
    async def main() -> None:
        # A length that grew asks for bytes that never come: three heartbeats are what a frame once begun may take.
        async with serve(heartbeat=0.5) as broker, peers() as opened:
            await filled(broker, opened, b"held")
            for bit in range(8):
                bad = bytearray(GOOD)
                bad[position] ^= 1 << bit
                holder = await opened.open(broker.receive_address, "receiver", client_id=f"bit-{bit}")
                holder.answers_pings = False
                holder.send(Request(1, MIB))
                held = await holder.expect(Deliver)
                assert held.delivery_count == bit + 1
                holder.send_bytes(bytes(bad))
                refused = asyncio.create_task(holder.refusal())
                for _ in range(4):
                    await settle()
                    if refused.done():
                        break
                    jump(0.5)
                refusal = await refused
                assert refusal.code in (
                    "protocol-error",
                    "unknown-acknowledgement",
                    "frame-too-large",
                    "timeout",
                ), f"bit {bit} of byte {position}: {refusal}"
            # What they held is still there, and marked.
            last = await opened.open(broker.receive_address, "receiver", client_id="last")
            last.send(Request(1, MIB))
            delivered = await last.expect(Deliver)
            assert (delivered.first, delivered.batch.payloads.tolist()) == (0, [b"held"])
            assert (delivered.delivery_count, delivered.possibly_replayed) == (9, True)

    run(main)


def test_the_unflipped_acknowledgement_is_taken(run: Any, serve: Any, peers: Any, until: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            await filled(broker, opened, b"held")
            holder = await opened.open(broker.receive_address, "receiver")
            holder.send(Request(2, MIB))
            await holder.expect(Deliver)
            holder.send_bytes(GOOD)
            # Still open and served: the one message more that was requested comes, and nothing before it.
            sender = await opened.open(broker.send_address, "sender", client_id="another")
            await sender.expect(Demand)
            sender.send(Send(0, None, MessageBatch.from_payloads([b"next"])))
            assert (await holder.expect(Deliver)).first == 1

    run(main)


# A message delivered again after a consumer dropped was not marked.


@pytest.mark.parametrize("way", ["abort", "close", "bad frame"])
def test_what_a_dropped_consumer_held_comes_again_in_order_and_marked(
    run: Any, serve: Any, peers: Any, way: str
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            await filled(broker, opened, *(b"%d" % number for number in range(6)))
            going = await opened.open(broker.receive_address, "receiver", client_id="going")
            going.send(Request(4, MIB))
            delivered = await going.expect(Deliver)
            assert (delivered.first, len(delivered.batch), delivered.possibly_replayed) == (0, 4, False)
            going.send(Ack([(1, 1)]))
            await going.flushed()
            if way == "abort":
                # After a frame that is answered, so that the acknowledgement before it has been handled.
                going.send(Request(4, MIB), Ack([(1, 1)]))
                assert (await going.expect(Error)).code == "unknown-acknowledgement"
                going.abort()
            elif way == "close":
                await going.close()
            else:
                going.send_bytes(b"\x00" * 7)
                await going.refusal()
            other = await opened.open(broker.receive_address, "receiver", client_id="other")
            other.send(Request(10, MIB))
            found: list[tuple[int, int, bool]] = []
            while len(found) < 5:
                again = await other.expect(Deliver)
                found += [
                    (again.first + index, again.delivery_count, again.possibly_replayed)
                    for index in range(len(again.batch))
                ]
            assert sorted(found) == [(0, 2, True), (2, 2, True), (3, 2, True), (4, 1, False), (5, 1, False)]
            assert [number for number, _, _ in found if number < 4] == [0, 2, 3], "in their old order"

    run(main)


# Payloads of 8 KiB and more fell to 20 messages a second.


@pytest.fixture
def no_delay(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """TCP_NODELAY of every framed connection that is made, on either side."""
    found: list[int] = []
    made = Connection.connection_made

    def note(self: FrameConnection, transport: asyncio.BaseTransport) -> None:
        made(self, transport)
        found.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(Connection, "connection_made", note)
    return found


def test_small_writes_are_not_held_back_on_either_end_of_either_port(run: Any, serve: Any, no_delay: list[int]) -> None:
    async def main() -> None:
        async with serve() as broker:
            await Source.of(b"a").to(Sender(broker.send_address, queue="orders")).run()
            await Receiver(broker.receive_address, queue="orders", limit=1).to(Sink.acknowledge()).run()

    run(main)
    assert len(no_delay) == 4
    assert all(no_delay)


@pytest.mark.parametrize("size", [8 * 1024, 16 * 1024, 64 * 1024])
def test_payloads_one_at_a_time_are_not_throttled(run: Any, serve: Any, size: int) -> None:
    # What keeps Nagle's algorithm out is the option above; this notices whatever else holds a message as long.
    rounds = 40
    times: list[float] = []

    async def main() -> None:
        async with serve() as broker:
            send = Sender(broker.send_address, queue="orders", max_batch_messages=1, max_in_flight=1)
            receiver = Receiver(
                broker.receive_address, queue="orders", strategy=OneByOneRequestStrategy(), limit=rounds
            )
            began = time.perf_counter()

            def note(_: object) -> None:
                nonlocal began
                now = time.perf_counter()
                times.append(now - began)
                began = now

            sending = Source.from_iterable([b"x" * size] * rounds).via(send).to(Sink.foreach(note)).run()
            assert await receiver.to(Sink.acknowledge()).run() == rounds
            await sending

    run(main)
    assert len(times) == rounds
    # Where it happens, it happens to nearly every message; a busy machine slows a few.
    assert sorted(times)[rounds // 4] < STALL


# A second exclusive consumer hung without a word.


def test_a_second_consumer_of_an_exclusive_queue_is_told_that_it_waits(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve(exclusive=True) as broker, peers() as opened:
            await filled(broker, opened, b"a", b"b")
            first = await opened.connect(broker.receive_address)
            assert (await first.hello("receiver", client_id="first")).options["waiting"] is False
            second = await opened.connect(broker.receive_address)
            assert (await second.hello("receiver", client_id="second")).options["waiting"] is True
            first.send(Request(1, MIB))
            assert (await first.expect(Deliver)).first == 0
            # Demand of one that waits is kept, and met when its turn has come: in strict order, from the beginning.
            second.send(Request(10, MIB))
            first.abort()
            found: list[int] = []
            while len(found) < 2:
                delivered = await second.expect(Deliver)
                found += range(delivered.first, delivered.first + len(delivered.batch))
            assert found == [0, 1]

    run(main)


def test_a_second_exclusive_receiver_tells_its_program(
    run: Any, serve: Any, peers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[bool] = []
    waits = asyncio.Event()

    def note(waiting: bool) -> None:
        told.append(waiting)
        waits.set()

    async def main() -> None:
        async with serve(exclusive=True) as broker, peers() as opened:
            await filled(broker, opened, b"a")
            sink: TestSink[Delivery] = TestSink()
            first = Receiver(broker.receive_address, queue="orders").to(sink).run()
            held = await sink.request_next()
            assert held.payload == b"a"
            second = Receiver(broker.receive_address, queue="orders", limit=1, on_waiting=note)
            waiting = second.to(Sink.acknowledge()).run()
            await waits.wait()
            assert told == [True]
            assert not waiting.done()
            sink.cancel()
            await first
            assert await waiting == 1
            assert told == [True, False]

    with caplog.at_level(logging.WARNING, "penstock.receiver"):
        run(main)
    assert "waits in line behind another" in caplog.text


# A broker that comes back: nothing twice, nothing under another name, nothing acknowledged for somebody else.


def test_a_sender_goes_on_over_the_restart_of_a_broker_with_a_journal(
    run: Any, serve: Any, until: Any, tmp_path: Path
) -> None:
    payloads = [b"%d" % number for number in range(400)]
    confirmed: list[Confirmation] = []

    def messages() -> int:
        return sum(confirmation.count for confirmation in confirmed)

    async def main() -> None:
        async with serve(directory=str(tmp_path), max_queue_messages=250) as broker:
            address, before = broker.send_address, broker.epoch
            flow = Sender(address, queue="orders", client_id="till-7", max_batch_messages=10, reconnect=QUICK)
            running = Source.from_iterable(payloads).via(flow).to(Sink.foreach(confirmed.append)).run()
            await until(lambda: messages() == 250)
        async with serve(directory=str(tmp_path), max_queue_messages=1000, send_address=address) as broker:
            assert broker.epoch > before
            receiver = Receiver(broker.receive_address, queue="orders", limit=400)
            found: list[bytes] = []
            await (
                receiver.map(lambda delivery: (found.append(delivery.payload), delivery)[1])
                .to(Sink.acknowledge())
                .run()
            )
            await running
            assert found == payloads
            assert [confirmation.sequence for confirmation in confirmed] == sorted(
                {confirmation.sequence for confirmation in confirmed}
            )
            assert messages() == 400

    run(main)


def test_over_a_restart_what_was_not_acknowledged_comes_again_marked_under_its_own_id(
    run: Any, serve: Any, peers: Any, tmp_path: Path
) -> None:
    sent: list[Any] = [b"generated", Message(b"own", id=IDS[0]), b"acknowledged", b"last"]

    async def main() -> None:
        sink: TestSink[Delivery] = TestSink()
        async with serve(directory=str(tmp_path)) as broker:
            await Source.from_iterable(sent).to(Sender(broker.send_address, queue="orders")).run()
            address = broker.receive_address
            running = Receiver(address, queue="orders", reconnect=QUICK).to(sink).run()
            await sink.expect_subscription()
            sink.request(20)
            old = await sink.expect_n(4)
            old[2].acknowledge()
            async with peers() as opened:
                admin = await opened.open(broker.send_address, "admin", None)
                row = b""
                while b'"total_acknowledged":1' not in row:
                    admin.send(Command(1, "queue.list", {}))
                    row = (await admin.expect(Result)).json
        async with serve(directory=str(tmp_path), receive_address=address) as broker:
            again = await sink.expect_n(3)
            assert [(delivery.payload, delivery.sequence, delivery.possibly_replayed) for delivery in again] == [
                (b"generated", 0, True),
                (b"own", 1, True),
                (b"last", 3, True),
            ]
            assert [delivery.id.hex() for delivery in again] == [old[index].id.hex() for index in (0, 1, 3)]
            # Late answers to what the broker before had delivered mean nothing to this one.
            for delivery in old:
                delivery.acknowledge()
            sink.cancel()
            await running
            rest = await Receiver(broker.receive_address, queue="orders").take(3).to(Sink.collect()).run()
            assert [delivery.payload for delivery in rest] == [b"generated", b"own", b"last"]

    run(main)
