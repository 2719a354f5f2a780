"""The shell around one connection, on a clock that jumps and a transport that records: frames, heartbeats, limits."""

from __future__ import annotations

import pytest

from actors.batch import MessageBatch
from streams.testkit import settle
from tests.transport.connection_bench import HELLO, SEND, Bench, run
from transport.errors import (
    FrameTooLargeError,
    LocalProtocolError,
    PeerTimeoutError,
)
from transport.shell.connection import (
    FLUSH_BYTES,
)
from transport.shell.unsent import WRITE_BUFFER_HIGH
from transport.wire.codec import encode
from transport.wire.frames import HANDSHAKE_FRAME_BYTES
from transport.wire.liveness import ENTRANCE_TIMEOUT, HANDSHAKE_TIMEOUT
from transport.wire.messages import Demand, Error, Ping, Pong, Send, Sent, Welcome
from transport.wire.protocol import Side


def test_the_frames_of_one_turn_leave_together() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        bench.connection.send(Demand(1, 1))
        bench.connection.send(Demand(2, 2))
        assert bench.transport.writes == []
        await settle()
        assert bench.transport.writes == [[Welcome(1, 1, {"heartbeat_ms": 5000}), Demand(1, 1), Demand(2, 2)]]
        bench.lose()

    run(main)


def test_much_to_write_leaves_at_once() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        bench.connection.send(Send(0, None, MessageBatch.from_payloads([b"x" * FLUSH_BYTES])))
        assert len(bench.transport.frames) == 2
        bench.lose()

    run(main)


def test_bytes_are_counted_both_ways() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        await settle()
        hello = sum(len(part) for part in encode(HELLO))
        welcome = sum(len(part) for part in encode(Welcome(1, 1, {"heartbeat_ms": 5000})))
        assert (bench.connection.bytes_in, bench.connection.bytes_out) == (hello, welcome)
        assert bench.connection.peer == "192.0.2.1:4711"
        assert bench.transport.high == WRITE_BUFFER_HIGH
        bench.lose()

    run(main)


def test_a_socket_that_does_not_keep_up_is_the_handlers_to_know() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        bench.connection.pause_writing()
        bench.connection.resume_writing()
        assert bench.handler.writable == [False, True]
        bench.lose()

    run(main)


def test_ping_is_answered_at_once_with_its_token_and_not_handed_on() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        bench.receive(Ping(77), Pong(5))
        await settle()
        assert bench.transport.frames[-1] == Pong(77)
        assert bench.handler.frames == [HELLO]
        bench.lose()

    run(main)


def test_a_quiet_side_pings_each_interval_while_the_peer_is_heard() -> None:
    async def main() -> None:
        bench = Bench(heartbeat=2.0)
        bench.open(heartbeat_ms=2000)
        for _ in range(4):
            await settle(2.0)
            bench.receive(Pong(0))
        assert [type(frame) for frame in bench.transport.frames] == [Welcome, Ping, Ping, Ping, Ping]
        assert bench.handler.closed == []
        bench.lose()

    run(main)


def test_a_silent_peer_is_told_timeout_after_three_intervals() -> None:
    async def main() -> None:
        bench = Bench(heartbeat=2.0)
        bench.open(heartbeat_ms=2000)
        await settle(5.9)
        assert bench.over() == (False, False)
        await settle(0.2)
        assert bench.over() == (True, False)
        assert bench.said().code == "timeout"
        assert bench.said().close
        bench.lose()
        assert isinstance(bench.handler.closed[0], PeerTimeoutError)

    run(main)


def test_the_client_keeps_the_heartbeat_that_welcome_names() -> None:
    async def main() -> None:
        bench = Bench(side=Side.CLIENT)
        bench.connect()
        bench.connection.send(HELLO)
        bench.receive(Welcome(1, 1, {"heartbeat_ms": 100}))
        await settle(0.11)
        assert bench.transport.frames == [HELLO, Ping(0)]
        await settle(0.2)
        assert bench.said().code == "timeout"
        bench.lose()

    run(main)


def test_a_frame_that_trickles_in_is_given_up_though_bytes_keep_coming() -> None:
    async def main() -> None:
        bench = Bench(heartbeat=1.0)
        bench.open(heartbeat_ms=1000)
        data = b"".join(bytes(part) for part in encode(SEND))
        for position in range(8):
            bench.receive_bytes(data[position : position + 1])
            await settle(0.5)
        assert bench.said().code == "timeout"
        bench.lose()
        assert isinstance(bench.handler.closed[0], PeerTimeoutError)

    run(main)


@pytest.mark.parametrize("arrived", [b"", b"\x00\x00", b"\x00\x00\x00\x20\x00\x10\x96"])
def test_hello_that_does_not_come_in_five_seconds_is_a_timeout(arrived: bytes) -> None:
    async def main() -> None:
        bench = Bench()
        bench.connect()
        bench.receive_bytes(arrived)
        await settle(ENTRANCE_TIMEOUT - 0.1)
        assert bench.transport.frames == []
        await settle(0.2)
        assert bench.said().code == "timeout"
        bench.lose()

    run(main)


def test_a_client_gives_its_broker_ten_seconds_to_answer() -> None:
    async def main() -> None:
        bench = Bench(side=Side.CLIENT)
        bench.connect()
        bench.connection.send(HELLO)
        await settle(HANDSHAKE_TIMEOUT - 0.1)
        assert bench.transport.frames == [HELLO]
        await settle(0.2)
        assert bench.said().code == "timeout"
        bench.lose()

    run(main)


def test_what_the_broker_has_a_client_wait_does_not_count_against_it() -> None:
    async def main() -> None:
        bench = Bench()
        bench.connect()
        await settle(ENTRANCE_TIMEOUT - 1.0)
        bench.connection.more_time(3.0)
        await settle(3.9)
        assert bench.transport.frames == []
        await settle(0.2)
        assert bench.said().code == "timeout"
        bench.lose()

    run(main)


def test_the_frame_limit_is_small_until_hello_is_answered() -> None:
    large = Send(0, None, MessageBatch.from_payloads([b"x" * HANDSHAKE_FRAME_BYTES]))

    async def main() -> None:
        opened = Bench()
        opened.open()
        opened.receive(large)
        assert len(opened.handler.frames) == 2
        opened.lose()
        stranger = Bench()
        stranger.connect()
        stranger.receive(large)
        assert stranger.said().code == "frame-too-large"
        stranger.lose()
        assert isinstance(stranger.handler.closed[0], FrameTooLargeError)

    run(main)


def test_a_frame_over_its_limits_is_refused_and_nothing_of_it_written() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        await settle()
        with pytest.raises(LocalProtocolError):
            bench.connection.send(Sent(1, None, "y" * 5000))
        bench.connection.send(Demand(1, 1))
        await settle()
        assert bench.transport.frames[1:] == [Demand(1, 1)]
        bench.lose()

    run(main)


def test_good_frames_before_bad_bytes_are_handed_on_first() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        good = b"".join(bytes(part) for part in encode(SEND))
        bench.receive_bytes(good + good + b"\x00" * 7)
        assert bench.handler.frames == [HELLO, SEND, SEND]
        assert bench.said().code == "protocol-error"
        bench.lose()

    run(main)


def test_a_busy_connection_whose_reads_end_inside_frames_is_not_given_up() -> None:
    async def main() -> None:
        bench = Bench(heartbeat=1.0)
        bench.open(heartbeat_ms=1000)
        data = b"".join(bytes(part) for part in encode(SEND)) * 40
        step = 41
        for start in range(0, len(data), step):
            bench.receive_bytes(data[start : start + step])
            await settle(0.3)
        assert bench.elapsed > 6.0
        assert not any(isinstance(frame, Error) for frame in bench.transport.frames)
        bench.lose()

    run(main)


def test_a_welcome_that_names_no_heartbeat_leaves_the_one_that_was_given() -> None:
    async def main() -> None:
        bench = Bench(heartbeat=2.0, side=Side.CLIENT)
        bench.connect()
        bench.connection.send(HELLO)
        bench.receive(Welcome(1, 1, {}))
        await settle(2.5)
        assert bench.transport.frames == [HELLO, Ping(0)]
        await settle(4.0)
        assert bench.said().code == "timeout"
        bench.lose()

    run(main)
