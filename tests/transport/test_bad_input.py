"""Whatever a stranger says to either port: one clear ERROR, that connection closed, everybody else undisturbed."""

from __future__ import annotations

import random
import struct
from typing import Any

import msgpack
import pytest

from streams.testkit import settle
from tests.transport.bad_clients import BATCH, MIB, PORTS, address, bystanders, encoded, frame_bytes, role_of
from transport.broker.memory import resident_bytes
from transport.wire.frames import MAX_FRAME_BYTES
from transport.wire.messages import (
    Command,
    Hello,
    Ping,
    Request,
    Send,
    Welcome,
)


async def three_heartbeats(jump: Any) -> None:
    """More than the time that silence is borne, for heartbeats of 2 s, with turns for what is due in between."""
    await settle()
    for _ in range(4):
        jump(2.0)
        await settle()


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
    monkeypatch.setattr("transport.wire.liveness.ENTRANCE_TIMEOUT", 0.05)

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
