"""Frames of clients that were let in, and that no broker takes: one ERROR, and nobody else notices."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest

from actors.batch import MessageBatch
from tests.transport.bad_clients import BATCH, MIB, PORTS, address, bystanders, encoded, frame_bytes, role_of
from transport.shell.connection import LINGER
from transport.wire.messages import (
    AbortTransaction,
    Ack,
    Command,
    Commit,
    CommitTransaction,
    Deliver,
    Demand,
    Enlist,
    Error,
    Extend,
    Fetch,
    Frame,
    Hello,
    Nack,
    Request,
    Reserve,
    Send,
    Sent,
    TransactionEnded,
    Welcome,
)


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize(
    "frame",
    [
        Hello(1, "sender", "q", "c", {}),
        Welcome(1, 1, {}),
        Demand(1, 1),
        Sent(1, 1),
        Deliver(0, 1, 1, False, BATCH),
        Command(1, "stats", {}),
        Reserve(1, 0, 1, 1, 0, None),
        Commit(1, 0),
        Fetch(1, 0, 1),
        Enlist("q", "s", 1),
        CommitTransaction(1),
        AbortTransaction(1),
        TransactionEnded(1, 1),
    ],
    ids=lambda frame: type(frame).__name__,
)
def test_a_frame_that_this_role_may_not_send_is_refused(
    run: Any, serve: Any, peers: Any, port: str, frame: Frame
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            peer = await opened.open(address(broker, port), role_of(port))
            peer.send(frame)
            refusal = await peer.refusal()
            assert refusal.code == "protocol-error"
            assert type(frame).__name__.upper() in refusal.text

    run(main)


SENDS: dict[str, tuple[bytes, str]] = {
    "more than granted": (encoded(Send(0, None, MessageBatch.from_payloads([b""] * 200_000))), "demand-exceeded"),
    "an unknown property": (encoded(Send(0, {"ttl": 1}, BATCH)), "protocol-error"),
    "a property of the wrong type": (encoded(Send(0, {"ttl_ms": "1"}, BATCH)), "protocol-error"),
    "a delay of more than 366 days": (encoded(Send(0, {"delay_ms": 31_622_400_001}, BATCH)), "protocol-error"),
    "less than no time to live": (encoded(Send(0, {"ttl_ms": -1}, BATCH)), "protocol-error"),
    "no message": (frame_bytes([17, 0, None, 0, 0, False, None, None], b"\x00" * 4), "protocol-error"),
    # A number that was not granted is refused before anything is looked at; one that was, for what is behind it.
    "forged count": (frame_bytes([17, 0, None, 2**31, 1, False, None, None], b"\x00" * 9), "demand-exceeded"),
    "forged small count": (frame_bytes([17, 0, None, 100, 1, False, None, None], b"\x00" * 9), "protocol-error"),
    "forged size": (frame_bytes([17, 0, None, 1, 2**40, False, None, None], b"\x00" * 9), "protocol-error"),
    "missing ids": (
        frame_bytes([17, 0, None, 1, 1, True, None, None], struct.pack("<2i", 0, 1) + b"x"),
        "protocol-error",
    ),
    "negative offset": (
        frame_bytes([17, 0, None, 1, 1, False, None, None], struct.pack("<2i", -1, 0) + b"x"),
        "protocol-error",
    ),
    "falling offsets": (
        frame_bytes([17, 0, None, 2, 1, False, None, None], struct.pack("<3i", 0, 2, 1) + b"x"),
        "protocol-error",
    ),
    "offsets beyond the data": (
        frame_bytes([17, 0, None, 1, 1, False, None, None], struct.pack("<2i", 0, 2**31 - 1) + b"x"),
        "protocol-error",
    ),
    "negative sequence": (
        frame_bytes([17, -1, None, 1, 1, False, None, None], struct.pack("<2i", 0, 1) + b"x"),
        "protocol-error",
    ),
    "a gap": (encoded(Send(0, None, BATCH)) + encoded(Send(5, None, BATCH)), "protocol-error"),
}


@pytest.mark.parametrize("case", SENDS)
def test_a_send_that_cannot_be_is_refused(run: Any, serve: Any, peers: Any, case: str) -> None:
    data, code = SENDS[case]

    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            peer = await opened.open(broker.send_address, "sender", "orders", "forger")
            await peer.expect(Demand)
            peer.send_bytes(data)
            assert (await peer.refusal()).code == code

    run(main)


def test_bytes_beyond_the_demand_are_refused_but_for_the_last_message(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve(max_queue_bytes=10_000) as broker, peers() as opened, bystanders(broker, opened):
            allowed = await opened.open(broker.send_address, "sender", "first", "c1")
            demand = await allowed.expect(Demand)
            assert demand.bytes <= 10_000
            allowed.send(Send(0, None, MessageBatch.from_payloads([b"x" * 50_000])))
            assert await allowed.expect_later(Sent) == Sent(1, 0)
            greedy = await opened.open(broker.send_address, "sender", "second", "c2")
            demand = await greedy.expect(Demand)
            greedy.send(Send(0, None, MessageBatch.from_payloads([b"x" * demand.bytes, b"y"])))
            refusal = await greedy.refusal()
            assert refusal.code == "demand-exceeded"

    run(main)


@pytest.mark.parametrize(
    "frame",
    [
        Ack([(7, 1)]),
        Ack([(0, 2)]),
        Ack([(0, 1), (0, 1)]),
        Ack([(2**62, 5)]),
        Nack([(7, 1)], 0),
        Extend([(7, 1)], 1000),
    ],
    ids=["ack", "more-than-held", "twice", "far-away", "nack", "extend"],
)
def test_an_answer_about_what_was_never_delivered_ends_the_connection(
    run: Any, serve: Any, peers: Any, frame: Frame
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            sender = await opened.open(broker.send_address, "sender")
            await sender.expect(Demand)
            sender.send(Send(0, None, BATCH))
            receiver = await opened.open(broker.receive_address, "receiver")
            receiver.send(Request(10, MIB))
            await receiver.expect(Deliver)
            receiver.send(frame)
            assert (await receiver.refusal()).code == "unknown-acknowledgement"
            # What it held is somebody else's at once, though it has not closed its side.
            other = await opened.open(broker.receive_address, "receiver")
            other.send(Request(10, MIB))
            async with asyncio.timeout(LINGER / 2):
                delivered = await other.expect(Deliver)
            assert (delivered.first, delivered.possibly_replayed) == (0, True)

    run(main)


def test_acknowledging_twice_ends_the_connection(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            sender = await opened.open(broker.send_address, "sender")
            await sender.expect(Demand)
            sender.send(Send(0, None, BATCH))
            receiver = await opened.open(broker.receive_address, "receiver")
            receiver.send(Request(10, MIB))
            await receiver.expect(Deliver)
            receiver.send(Ack([(0, 1)]), Ack([(0, 1)]))
            assert (await receiver.refusal()).code == "unknown-acknowledgement"

    run(main)


@pytest.mark.parametrize(
    "frame", [Nack([(0, 1)], 12 * 3600 * 1000 + 1), Extend([(0, 1)], 2**62)], ids=["nack", "extend"]
)
def test_more_than_twelve_hours_cannot_be_asked_for(run: Any, serve: Any, peers: Any, frame: Frame) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            receiver = await opened.open(broker.receive_address, "receiver")
            receiver.send(frame)
            refusal = await receiver.refusal()
            assert refusal.code == "protocol-error"
            assert "12 hours" in refusal.text

    run(main)


SUBSCRIPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "no name": ({}, "protocol-error"),
    "a name with white space": ({"subscription": "a b"}, "invalid-name"),
    "another mode": ({"subscription": "s", "mode": "steal"}, "protocol-error"),
    "another start": ({"subscription": "s", "starting": "tomorrow"}, "protocol-error"),
    "a negative timeout": ({"subscription": "s", "owner_timeout_ms": -1}, "protocol-error"),
    "a text for an epoch": ({"subscription": "s", "mode": "read", "epoch": "1"}, "protocol-error"),
    "reading what nobody owns": ({"subscription": "s", "mode": "read", "epoch": 1}, "not-found"),
    "reading without an epoch": ({"subscription": "s", "mode": "read"}, "not-found"),
}


@pytest.mark.parametrize("case", SUBSCRIPTIONS)
def test_a_subscription_that_cannot_be_is_refused(run: Any, serve: Any, peers: Any, case: str) -> None:
    options, code = SUBSCRIPTIONS[case]

    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            peer = await opened.connect(broker.receive_address)
            peer.send(Hello(1, "subscription", "orders", None, options))
            refusal = await peer.refusal()
            assert refusal.code == code

    run(main)


def test_a_second_fetch_at_a_time_is_refused(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            sender = await opened.open(broker.send_address, "sender")
            await sender.expect(Demand)
            sender.send(Send(0, None, BATCH))
            await sender.expect_later(Sent)
            peer = await opened.open(broker.receive_address, "subscription", subscription="s")
            peer.send(Reserve(1, 0, 10, MIB, 0, None), Fetch(2, 0, 1), Fetch(3, 0, 1))
            refusal = await peer.refusal()
            assert refusal.code == "protocol-error"
            assert "one at a time" in refusal.text

    run(main)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("queue.explode", {}),
        ("queue.create", {}),
        ("queue.create", {"name": 5}),
        ("queue.create", {"name": "a\nb"}),
        ("queue.create", {"name": "q", "max_messages": -1}),
        ("queue.create", {"name": "q", "max_messages": "many"}),
        ("queue.create", {"name": "q", "visibility_timeout_ms": 2**60}),
        ("queue.delete", {"name": "none"}),
        ("queue.purge", {"name": "none"}),
        ("queue.purge", {}),
        ("subscription.release", {"queue": "none", "name": "s"}),
        ("subscription.release", {"queue": "bystanders", "name": "none"}),
        ("transaction.abort", {}),
        ("transaction.abort", {"writer": "w"}),
        ("transaction.abort", {"writer": 5, "version": 1}),
        ("transaction.abort", {"writer": "w", "version": -1}),
        ("transaction.abort", {"writer": "w", "version": "1"}),
    ],
)
def test_a_command_that_is_refused_leaves_its_connection_open(
    run: Any, serve: Any, peers: Any, name: str, arguments: dict[str, Any]
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            admin = await opened.open(broker.send_address, "admin", None)
            admin.send(Command(1, name, arguments))
            refusal = await admin.expect(Error)
            assert not refusal.close
            assert refusal.code in ("protocol-error", "not-found", "invalid-name")
            admin.send(Command(2, "queue.list", {}))
            answer = await admin.frame()
            assert type(answer).__name__ == "Result"

    run(main)
