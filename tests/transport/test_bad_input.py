"""Whatever a stranger says to either port: one clear ERROR, that connection closed, everybody else undisturbed."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgpack
import pytest

from actors.batch import MessageBatch
from streams.testkit import settle
from transport.broker.memory import resident_bytes
from transport.shell.connection import LINGER
from transport.wire.codec import encode
from transport.wire.frames import MAX_FRAME_BYTES
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
    Ping,
    Request,
    Reserve,
    Send,
    Sent,
    TransactionEnded,
    Welcome,
)

PORTS = ["sending", "receiving"]
BATCH = MessageBatch.from_payloads([b"x"])
MIB = 1024 * 1024


def address(broker: Any, port: str) -> str:
    found: str = broker.send_address if port == "sending" else broker.receive_address
    return found


async def three_heartbeats(jump: Any) -> None:
    """More than the time that silence is borne, for heartbeats of 2 s, with turns for what is due in between."""
    await settle()
    for _ in range(4):
        jump(2.0)
        await settle()


def role_of(port: str) -> str:
    return "sender" if port == "sending" else "receiver"


def frame_bytes(header: Any, body: bytes = b"") -> bytes:
    """A frame around any header, whatever the protocol says of it."""
    packed = header if isinstance(header, bytes) else msgpack.packb(header)
    return struct.pack(">IH", 6 + len(packed) + len(body), len(packed)) + packed + body


def encoded(frame: Frame) -> bytes:
    return b"".join(bytes(part) for part in encode(frame))


class Bystanders:
    """A sender and a receiver on the same broker that must not notice anything."""

    def __init__(self, sender: Any, receiver: Any) -> None:
        self.sender = sender
        self.receiver = receiver
        self.sent = 0

    async def go_on(self) -> None:
        """One message through, from send to acknowledgement."""
        payload = b"message %d" % self.sent
        self.sender.send(Send(self.sent, None, MessageBatch.from_payloads([payload])))
        confirmed = await self.sender.expect_later(Sent)
        assert confirmed == Sent(self.sent + 1, self.sent)
        delivered = await self.receiver.expect(Deliver)
        assert (delivered.first, delivered.batch.payloads.tolist()) == (self.sent, [payload])
        self.receiver.send(Ack([(self.sent, 1)]))
        self.sent += 1


@asynccontextmanager
async def bystanders(broker: Any, peers: Any) -> AsyncIterator[Bystanders]:
    sender = await peers.open(broker.send_address, "sender", "bystanders", "bystander")
    receiver = await peers.open(broker.receive_address, "receiver", "bystanders", "bystander")
    receiver.send(Request(1000, MIB))
    await sender.expect(Demand)
    pair = Bystanders(sender, receiver)
    await pair.go_on()
    yield pair
    await pair.go_on()
    assert {connection.queue for connection in broker.connections.values()} >= {"bystanders"}


HELLO_ELSEWHERE = {"sending": "receiver", "receiving": "sender"}

# (what is sent, the code it is answered with); before HELLO, on either port.
STRANGE: dict[str, tuple[bytes, str]] = {
    "length 0": (b"\x00" * 6, "protocol-error"),
    "length 6": (b"\x00\x00\x00\x06\x00\x00", "protocol-error"),
    "length 2^32-1": (b"\xff\xff\xff\xff\x00\x10", "frame-too-large"),
    "header longer than its frame": (b"\x00\x00\x00\x20\x00\x30" + b"x" * 26, "protocol-error"),
    "header over 4 KiB": (b"\x00\x00\x0f\xff\x10\x01", "protocol-error"),
    "zeros": (b"\x00" * 10_000, "protocol-error"),
    "ones": (b"\xff" * 10_000, "frame-too-large"),
    "http": (b"GET / HTTP/1.1\r\nHost: broker\r\nAccept: */*\r\n\r\n", "protocol-error"),
    "tls": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 400, "protocol-error"),
    "empty header": (frame_bytes(b"") + b"\x00", "protocol-error"),
    "no array": (frame_bytes(5), "protocol-error"),
    "no type": (frame_bytes([]), "protocol-error"),
    "no msgpack": (frame_bytes(b"\xc1\xc1\xc1"), "protocol-error"),
    "nested 100 deep": (frame_bytes(b"\x91" * 100 + b"\x01"), "protocol-error"),
    "nested 950 deep": (frame_bytes(b"\x91" * 950 + b"\x01"), "protocol-error"),
    "nested 1000 deep": (frame_bytes(b"\x91" * 1000 + b"\x01"), "protocol-error"),
    "nested 4000 deep": (frame_bytes(b"\x91" * 4000 + b"\x01"), "protocol-error"),
    "nested in a field": (frame_bytes(b"\x92\x04" + b"\x91" * 990 + b"\x01"), "protocol-error"),
    "forged array": (frame_bytes(b"\xdd\xff\xff\xff\xff"), "protocol-error"),
    "forged map": (frame_bytes(b"\x92\x01\xdf\xff\xff\xff\xff"), "protocol-error"),
    "forged string": (frame_bytes(b"\x92\x01\xdb\xff\xff\xff\xff"), "protocol-error"),
    "extension": (frame_bytes([1, 1, "sender", "q", "c", {"a": msgpack.ExtType(5, b"x")}]), "protocol-error"),
    "timestamp": (frame_bytes([1, 1, "sender", "q", "c", {"a": msgpack.Timestamp(1)}]), "protocol-error"),
    "empty extension": (frame_bytes([1, 1, "sender", "q", "c", {"a": msgpack.ExtType(5, b"")}]), "protocol-error"),
    "unknown type": (frame_bytes([99, 1]), "protocol-error"),
    "type of a string": (frame_bytes(["HELLO", 1]), "protocol-error"),
    "hello without fields": (frame_bytes([1, 1]), "protocol-error"),
    "hello with a body": (frame_bytes([1, 1, "sender", "q", "c", {}], b"body"), "protocol-error"),
    "hello with a number for a name": (frame_bytes([1, 1, "sender", 7, "c", {}]), "protocol-error"),
    "hello over 4 KiB": (frame_bytes([1, 1, "sender", "q", "c", {}], b"x" * 4096), "frame-too-large"),
    "ping before hello": (encoded(Ping(1)), "protocol-error"),
    "send before hello": (encoded(Send(0, None, BATCH)), "protocol-error"),
    "request before hello": (encoded(Request(1, 1)), "protocol-error"),
    "command before hello": (encoded(Command(1, "stats", {})), "protocol-error"),
    "welcome from a client": (encoded(Welcome(1, 1, {})), "protocol-error"),
}


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("case", STRANGE)
def test_a_stranger_gets_one_error_and_nobody_else_notices(
    run: Any, serve: Any, peers: Any, port: str, case: str
) -> None:
    data, code = STRANGE[case]

    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            stranger = await opened.connect(address(broker, port))
            stranger.send_bytes(data)
            refusal = await stranger.refusal()
            assert refusal.code == code
            assert len(refusal.text) > 10

    run(main)


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("case", [case for case in STRANGE if "hello" not in case])
def test_bad_bytes_in_pieces_after_welcome_get_the_same_answer(
    run: Any, serve: Any, peers: Any, port: str, case: str
) -> None:
    data, code = STRANGE[case]

    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            peer = await opened.open(address(broker, port), role_of(port))
            for start in range(0, min(len(data), 9), 3):
                peer.send_bytes(data[start : start + 3])
                await peer.flushed()
                await settle()  # the broker runs on this loop
            peer.send_bytes(data[9:])
            assert (await peer.refusal()).code == code

    run(main)


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("seed", range(8))
def test_garbage_gets_one_error(run: Any, serve: Any, peers: Any, port: str, seed: int) -> None:
    garbage = random.Random(seed).randbytes(5000)

    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            stranger = await opened.connect(address(broker, port))
            stranger.send_bytes(garbage)
            assert (await stranger.refusal()).code in ("frame-too-large", "protocol-error")

    run(main)


HELLOS: dict[str, tuple[dict[str, Any], str]] = {
    "version 2": ({"version": 2}, "unsupported-version"),
    "version 0": ({"version": 0}, "unsupported-version"),
    "unknown role": ({"role": "king"}, "unknown-role"),
    "a newline in the queue's name": ({"queue": "or\nders"}, "invalid-name"),
    "no queue": ({"queue": None}, "invalid-name"),
    "an empty queue": ({"queue": ""}, "invalid-name"),
    "a queue of 256 bytes": ({"queue": "q" * 256}, "invalid-name"),
    "a newline in the client's name": ({"client_id": "c\n"}, "invalid-name"),
    "an empty client": ({"client_id": ""}, "invalid-name"),
}


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("case", [*HELLOS, "the other port's role"])
def test_a_hello_that_cannot_be_is_refused_by_its_code(run: Any, serve: Any, peers: Any, port: str, case: str) -> None:
    changes, code = HELLOS.get(case, ({"role": HELLO_ELSEWHERE[port]}, "unknown-role"))
    values: dict[str, Any] = {"version": 1, "role": role_of(port), "queue": "q", "client_id": "c", "options": {}}

    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            stranger = await opened.connect(address(broker, port))
            stranger.send(Hello(**(values | changes)))
            assert (await stranger.refusal()).code == code
            assert "q" not in broker.queues

    run(main)


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("part", [b"", b"\x00", b"\x00\x00\x00\x40\x00\x20\x96\x01"])
def test_a_hello_that_never_comes_whole_is_a_timeout(
    run: Any, serve: Any, peers: Any, port: str, part: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transport.shell.connection.HANDSHAKE_TIMEOUT", 0.05)

    async def main() -> None:
        async with serve() as broker, peers() as opened:
            stranger = await opened.connect(address(broker, port))
            stranger.send_bytes(part)
            assert (await stranger.refusal()).code == "timeout"

    run(main)


@pytest.mark.parametrize("port", PORTS)
def test_a_frame_that_stops_half_way_is_a_timeout(run: Any, serve: Any, peers: Any, jump: Any, port: str) -> None:
    async def main() -> None:
        async with serve(heartbeat=2.0) as broker, peers() as opened:
            peer = await opened.open(address(broker, port), role_of(port))
            peer.answers_pings = False
            peer.send_bytes(encoded(Ping(1))[:-1])
            await three_heartbeats(jump)
            refusal = await peer.refusal()
            assert refusal.code == "timeout"

    run(main)


@pytest.mark.parametrize("port", PORTS)
def test_a_silent_peer_is_asked_and_then_given_up(run: Any, serve: Any, peers: Any, jump: Any, port: str) -> None:
    async def main() -> None:
        async with serve(heartbeat=2.0) as broker, peers() as opened:
            silent = await opened.open(address(broker, port), role_of(port), "orders", "silent")
            silent.answers_pings = False
            await three_heartbeats(jump)
            assert (await silent.refusal()).code == "timeout"

    run(main)


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
    "a delay of more than 12 hours": (encoded(Send(0, {"delay_ms": 43_200_001}, BATCH)), "protocol-error"),
    "no time to live": (encoded(Send(0, {"ttl_ms": 0}, BATCH)), "protocol-error"),
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


STAGES: dict[str, tuple[dict[str, Any], str]] = {
    "a writer only": ({"writer": "w"}, "protocol-error"),
    "a stage only": ({"stage": "s"}, "protocol-error"),
    "no stage": ({"writer": "w", "version": 1}, "protocol-error"),
    "no version": ({"writer": "w", "stage": "s"}, "protocol-error"),
    "no writer": ({"version": 1, "stage": "s"}, "protocol-error"),
    "a version below zero": ({"writer": "w", "version": -1, "stage": "s"}, "protocol-error"),
    "a version of 64 bits": ({"writer": "w", "version": 2**63, "stage": "s"}, "protocol-error"),
    "a text for a version": ({"writer": "w", "version": "1", "stage": "s"}, "protocol-error"),
    "a truth for a version": ({"writer": "w", "version": True, "stage": "s"}, "protocol-error"),
    "a number for a stage": ({"writer": "w", "version": 1, "stage": 7}, "protocol-error"),
    "a list for a writer": ({"writer": ["w"], "version": 1, "stage": "s"}, "protocol-error"),
    "a writer with white space": ({"writer": "a b", "version": 1, "stage": "s"}, "invalid-name"),
    "an empty stage": ({"writer": "w", "version": 1, "stage": ""}, "invalid-name"),
    "a stage of 256 bytes": ({"writer": "w", "version": 1, "stage": "s" * 256}, "invalid-name"),
}


@pytest.mark.parametrize("case", STAGES)
def test_a_stage_that_cannot_be_is_refused(run: Any, serve: Any, peers: Any, case: str) -> None:
    options, code = STAGES[case]

    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            peer = await opened.connect(broker.send_address)
            peer.send(Hello(1, "sender", "orders", "c", options))
            refusal = await peer.refusal()
            assert refusal.code == code
            assert "orders" not in broker.queues

    run(main)


@pytest.mark.parametrize("case", [case for case in STAGES if "stage" not in case])
def test_a_transaction_that_cannot_be_is_refused(run: Any, serve: Any, peers: Any, case: str) -> None:
    options, code = STAGES[case]

    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            peer = await opened.connect(broker.send_address)
            named = {"writer": "w"} if case == "a writer only" else options
            peer.send(Hello(1, "transaction", None, None, named))
            assert (await peer.refusal()).code == code

    run(main)


def test_a_staged_send_with_a_time_of_its_own_is_refused(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            stage = {"writer": "w", "version": 1, "stage": "s"}
            peer = await opened.open(broker.send_address, "sender", "orders", "c", **stage)
            await peer.expect(Demand)
            peer.send(Send(0, {"ttl_ms": 5}, BATCH))
            assert (await peer.refusal()).code == "protocol-error"

    run(main)


def test_a_second_end_of_a_transaction_before_the_first_is_answered_is_refused(
    run: Any, serve: Any, peers: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            peer = await opened.open(broker.send_address, "transaction", None, writer="w", version=1)
            peer.send(CommitTransaction(1), CommitTransaction(2))
            refusal = await peer.refusal()
            assert refusal.code == "protocol-error"
            assert "TRANSACTION_ENDED" in refusal.text

    run(main)


def test_more_stages_than_the_limit_cannot_be_enlisted(
    run: Any, serve: Any, peers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transport.broker.enlisted.MAX_ENLISTED", 3)

    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            peer = await opened.open(broker.send_address, "transaction", None, writer="w", version=1)
            peer.send(*(Enlist("orders", f"s{number}", 1) for number in range(4)))
            refusal = await peer.refusal()
            assert refusal.code == "limit-exceeded"
            assert "3 stages" in refusal.text

    run(main)


def test_a_commit_that_is_refused_leaves_its_connection_open_and_nothing_enlisted(
    run: Any, serve: Any, peers: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            peer = await opened.open(broker.send_address, "transaction", None, writer="w", version=1)
            peer.send(Enlist("orders", "none", 1), CommitTransaction(1))
            refusal = await peer.expect(Error)
            assert (refusal.code, refusal.close) == ("transaction-incomplete", False)
            assert "'none'" in refusal.text
            peer.send(CommitTransaction(2))
            assert await peer.expect(TransactionEnded) == TransactionEnded(2, 0)

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
        ("queue.create", {"name": "q", "max_messages": 0}),
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


@pytest.mark.parametrize("port", PORTS)
def test_announced_frames_take_no_memory_before_they_arrive(run: Any, serve: Any, peers: Any, port: str) -> None:
    attackers, arrived = 60, 100_000

    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            before = resident_bytes()
            head = struct.pack(">IH", MAX_FRAME_BYTES, 10)
            for number in range(attackers):
                peer = await opened.open(address(broker, port), role_of(port), "orders", f"attacker-{number}")
                peer.send_bytes(head + b"\x00" * arrived)
                await peer.flushed()
            await settle()  # the broker runs on this loop
            # Both ends are in this process; what was announced is near a gigabyte.
            assert resident_bytes() - before < attackers * 6 * arrived + 32 * MIB

    run(main)


@pytest.mark.parametrize("port", PORTS)
def test_a_refused_peer_that_goes_on_talking_takes_no_memory(run: Any, serve: Any, peers: Any, port: str) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            stranger = await opened.connect(address(broker, port))
            before = resident_bytes()
            stranger.send_bytes(b"\x00" * 7)
            for _ in range(64):
                stranger.send_bytes(b"\xff" * MIB)
                try:
                    await stranger.flushed()
                except OSError:
                    break
            assert (await stranger.refusal()).code == "protocol-error"
            assert resident_bytes() - before < 32 * MIB

    run(main)
