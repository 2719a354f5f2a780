"""The shell around one connection, on a clock that jumps and a transport that records."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from actors.batch import MessageBatch
from streams.testkit import run_in_virtual_time, settle
from tests.decoding import FrameDecoder
from transport.clients.link import FrameConnection
from transport.errors import (
    BrokerError,
    FrameTooLargeError,
    LimitExceededError,
    LocalProtocolError,
    PeerTimeoutError,
    RemoteProtocolError,
    TruncatedFrameError,
    UnreadError,
)
from transport.shell.connection import (
    CLOSE_TIMEOUT,
    FLUSH_BYTES,
    LINGER,
    Connection,
)
from transport.shell.partial_frames import IN_TURN, LOOK_SECONDS, PartialFrames, PartialRoom
from transport.shell.turns import TURN_WORK, Turns
from transport.shell.unsent import MAX_UNSENT_BYTES, WRITE_BUFFER_HIGH
from transport.wire.codec import decode, encode
from transport.wire.frame_protocol import FrameProtocol
from transport.wire.frames import HANDSHAKE_FRAME_BYTES, MAX_BODY_BYTES, MAX_FRAME_BYTES
from transport.wire.liveness import HANDSHAKE_TIMEOUT
from transport.wire.messages import MAX_ERROR_TEXT, Demand, Error, Frame, Hello, Ping, Pong, Send, Sent, Welcome
from transport.wire.protocol import SENDING_ROLES, Protocol, Side

HELLO = Hello(1, "sender", "q", "c", {})
SEND = Send(0, None, MessageBatch.from_payloads([b"x"]))


class RecordingTransport(asyncio.Transport):
    """What is written to it, and how it was ended; what the protocol does wrong raises."""

    def __init__(self, connection: FrameConnection) -> None:
        super().__init__({"peername": ("192.0.2.1", 4711)})
        self.connection = connection
        self.decoder = FrameDecoder(MAX_FRAME_BYTES)
        self.frames: list[Frame] = []
        self.writes: list[list[Frame]] = []
        self.high: int | None = None
        self.eof_error: OSError | None = None
        self.eof = self.closing = self.aborted = False
        self.reading = True
        self.unsent = 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = high

    def writelines(self, list_of_data: Any) -> None:
        assert not self.eof, "written after the end of the stream"
        data = b"".join(bytes(part) for part in list_of_data)
        frames = [decode(raw) for raw in self.decoder.receive_data(data)]
        self.writes.append(frames)
        self.frames += frames

    def is_reading(self) -> bool:
        return self.reading

    def write_eof(self) -> None:
        if self.eof_error is not None:
            raise self.eof_error
        self.eof = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.aborted = self.closing = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def get_write_buffer_size(self) -> int:
        return self.unsent


class RecordingHandler:
    """What it was told; raises what it is told to raise."""

    def __init__(self) -> None:
        self.connection: FrameConnection | None = None
        self.frames: list[Frame] = []
        self.writable: list[bool] = []
        self.closed: list[Exception | None] = []
        self.failing = 0
        self.refuses: Exception | None = None
        self.refuses_connection: Exception | None = None

    def connection_opened(self, connection: FrameConnection) -> None:
        self.connection = connection
        if self.refuses_connection is not None:
            raise self.refuses_connection

    def event_received(self, frame: Frame, work: int) -> None:
        assert work >= 1
        self.frames.append(frame)
        if self.refuses is not None:
            raise self.refuses

    def writable_changed(self, writable: bool) -> None:
        self.writable.append(writable)

    def connection_failing(self) -> None:
        self.failing += 1

    def connection_ending(self, error: Exception | None) -> None:
        pass

    def connection_closed(self, error: Exception | None) -> None:
        self.closed.append(error)


class Bench:
    """A broker's end of a connection between a recording transport and a recording handler."""

    def __init__(
        self,
        heartbeat: float = 5.0,
        side: Side = Side.BROKER,
        partial: PartialFrames | None = None,
        turns: Turns | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.began = self.loop.time()
        self.handler = RecordingHandler()
        roles = SENDING_ROLES if side is Side.BROKER else frozenset({"sender"})
        carried = FrameProtocol(Protocol(side, roles), heartbeat)
        self.connection: FrameConnection = Connection(carried, self.handler, self.loop, heartbeat, turns)
        if partial is not None:
            carried.receiver.keep_in(PartialRoom(partial, self.connection))
        self.transport = RecordingTransport(self.connection)

    def connect(self) -> None:
        self.connection.connection_made(self.transport)

    def receive(self, *frames: Frame) -> None:
        self.receive_bytes(b"".join(bytes(part) for frame in frames for part in encode(frame)))

    def receive_bytes(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            buffer = self.connection.get_buffer(-1)
            assert len(buffer) > 0, "asyncio takes an empty buffer for a fatal error"
            taken = min(len(buffer), len(view))
            buffer[:taken] = view[:taken]
            view = view[taken:]
            self.connection.buffer_updated(taken)

    def open(self, heartbeat_ms: int = 5000) -> None:
        self.connect()
        self.receive(HELLO)
        self.connection.send(Welcome(1, 1, {"heartbeat_ms": heartbeat_ms}))

    def lose(self, error: Exception | None = None) -> None:
        self.connection.connection_lost(error)

    @property
    def elapsed(self) -> float:
        return self.loop.time() - self.began

    def over(self) -> tuple[bool, bool]:
        """Whether the transport was told the end of the stream, and whether it was aborted."""
        return self.transport.eof, self.transport.aborted

    def said(self) -> Error:
        """The ERROR that it ended with."""
        last = self.transport.frames[-1]
        assert isinstance(last, Error)
        return last


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_in_virtual_time(main())


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
def test_hello_that_does_not_come_in_ten_seconds_is_a_timeout(arrived: bytes) -> None:
    async def main() -> None:
        bench = Bench()
        bench.connect()
        bench.receive_bytes(arrived)
        await settle(HANDSHAKE_TIMEOUT - 0.1)
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


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RemoteProtocolError("why"), "protocol-error"),
        (LimitExceededError("why"), "limit-exceeded"),
        (BrokerError("demand-exceeded", "why"), "demand-exceeded"),
    ],
)
def test_what_the_handler_raises_ends_the_connection_with_its_code(error: Exception, code: str) -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        bench.handler.refuses = error
        bench.receive(SEND, SEND)
        assert len(bench.handler.frames) == 2, "what follows a refused frame is not handed on"
        assert (bench.said().code, bench.said().close) == (code, True)
        assert bench.transport.eof
        bench.lose()
        assert bench.handler.closed == [error]

    run(main)


def test_a_defect_of_ours_is_logged_and_tells_the_peer_no_more_than_that(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        bench.handler.refuses = ZeroDivisionError("division by zero")
        bench.receive(SEND)
        assert bench.said().code == "internal-error"
        bench.lose()

    run(main)
    assert "192.0.2.1:4711 ends on a defect of ours" in caplog.text


def test_a_connection_refused_at_once_is_told_why() -> None:
    async def main() -> None:
        bench = Bench()
        bench.handler.refuses_connection = LimitExceededError("10 connections are open")
        bench.connect()
        assert bench.said() == Error("limit-exceeded", "10 connections are open", close=True)
        bench.lose()

    run(main)


def test_an_error_is_the_last_word_and_said_once() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        bench.connection.fail(RemoteProtocolError("first"))
        bench.connection.fail(RemoteProtocolError("second"))
        bench.connection.send(Demand(1, 1))
        bench.connection.close()
        await settle(0.1)
        assert [frame for frame in bench.transport.frames if isinstance(frame, Error)] == [
            Error("protocol-error", "first", close=True)
        ]
        assert isinstance(bench.transport.frames[-1], Error)
        bench.lose()
        assert [str(error) for error in bench.handler.closed] == ["first"]

    run(main)


def test_what_a_refused_peer_still_sends_is_discarded_whatever_it_is() -> None:
    async def main() -> None:
        bench = Bench()
        bench.connect()
        bench.receive_bytes(b"\x00\x00\x00")
        bench.receive_bytes(b"\x00\x00\x00")
        assert bench.said().code == "protocol-error"
        bench.receive_bytes(b"\xff" * 1_000_000)
        assert len(bench.transport.frames) == 1
        assert bench.transport.reading
        bench.lose()

    run(main)


def test_a_refused_peer_that_does_not_close_is_cut_off_after_the_linger() -> None:
    async def main() -> None:
        bench = Bench()
        bench.connect()
        bench.receive_bytes(b"\x00" * 7)
        await settle(LINGER - 0.1)
        assert bench.over() == (True, False)
        await settle(0.2)
        assert bench.over() == (True, True)
        bench.lose()

    run(main)


def test_a_peer_that_has_reset_the_connection_meanwhile_is_no_defect() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        # What asyncio answers when the reset has arrived and was not read yet.
        bench.transport.eof_error = OSError(errno.ENOTCONN, "Transport endpoint is not connected")
        bench.connection.fail(RemoteProtocolError("why"))
        await settle(LINGER + 0.1)
        assert bench.transport.aborted
        bench.lose()
        assert [str(error) for error in bench.handler.closed] == ["why"]

    run(main)


def test_a_peer_that_ends_with_an_error_gets_none_back() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        await settle()
        bench.receive(Error("internal-error", "sorry", close=True))
        await settle()
        assert [type(frame) for frame in bench.transport.frames] == [Welcome]
        assert bench.transport.eof
        bench.lose()
        assert isinstance(bench.handler.closed[0], BrokerError)

    run(main)


def test_the_text_of_an_error_is_bounded() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        bench.connection.fail(RemoteProtocolError("\U0001f600" * 5000))
        assert len(bench.said().text) == MAX_ERROR_TEXT
        bench.lose()

    run(main)


def test_closing_writes_what_is_pending_first() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        bench.connection.send(Demand(3, 3))
        bench.connection.close()
        assert bench.transport.frames[-1] == Demand(3, 3)
        assert bench.transport.closing
        bench.lose()
        assert bench.handler.closed == [None]

    run(main)


def test_what_is_written_last_and_does_not_leave_is_given_up() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        bench.connection.close()
        await settle(CLOSE_TIMEOUT - 0.1)
        assert bench.over() == (False, False)
        await settle(0.2)
        assert bench.over() == (False, True)
        bench.lose()

    run(main)


def test_aborting_ends_at_once_and_tells_the_handler_why() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        bench.connection.abort(LocalProtocolError("enough"))
        assert bench.transport.aborted
        bench.receive(SEND)
        bench.lose()
        assert [str(error) for error in bench.handler.closed] == ["enough"]
        assert bench.handler.frames == [HELLO]

    run(main)


def test_a_stream_that_ends_inside_a_frame_is_told_from_one_that_ends_between() -> None:
    async def main() -> None:
        between = Bench()
        between.open()
        assert between.connection.eof_received() is False
        between.lose()
        inside = Bench()
        inside.open()
        inside.receive_bytes(b"\x00\x00\x00")
        assert inside.connection.eof_received() is False
        inside.lose()
        assert between.handler.closed == [None]
        assert isinstance(inside.handler.closed[0], TruncatedFrameError)

    run(main)


def test_nothing_is_left_ticking_once_the_connection_is_lost() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        bench.lose(ConnectionResetError("reset"))
        bench.connection.send(Demand(1, 1))
        await settle(100.0)
        assert [str(error) for error in bench.handler.closed] == ["reset"]
        assert all(isinstance(frame, Welcome) for frame in bench.transport.frames)

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


# A peer that does not read, and one that sends more than a turn has for it


class Swallowing:
    """A socket that takes ``room`` bytes and then nothing, as asyncio tells of it."""

    def __init__(self, bench: Bench, room: int) -> None:
        self.bench = bench
        self.room = room
        self.written = 0
        self.writelines = bench.transport.writelines
        bench.transport.writelines = self.write  # type: ignore[method-assign]  # the same, and counted

    def write(self, parts: Any) -> None:
        parts = list(parts)
        self.writelines(parts)
        self.written += sum(len(bytes(part)) for part in parts)
        unsent = max(0, self.written - self.room)
        was, self.bench.transport.unsent = self.bench.transport.unsent, unsent
        if was <= WRITE_BUFFER_HIGH < unsent:
            self.bench.connection.pause_writing()

    def take(self, more: int) -> None:
        self.room += more
        self.bench.transport.unsent = max(0, self.written - self.room)
        if self.bench.transport.unsent <= WRITE_BUFFER_HIGH // 4:
            self.bench.connection.resume_writing()


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


PINGS = encode(Ping(7))[0]


def flood(bench: Bench) -> int:
    """One receive as large as there is one, of the smallest frames; how many."""
    buffer = bench.connection.get_buffer(-1)
    count = len(buffer) // len(PINGS)
    buffer[: count * len(PINGS)] = bytes(PINGS) * count
    bench.connection.buffer_updated(count * len(PINGS))
    return count


def test_one_receive_of_tiny_frames_is_handled_over_many_turns_and_nothing_more_is_read_meanwhile() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        await settle()
        sent = flood(bench)
        assert sent > 20_000
        assert not bench.transport.reading
        turns = 0
        seen = len(bench.transport.frames)
        while not bench.transport.reading:
            await asyncio.sleep(0)
            turns += 1
            fresh = len(bench.transport.frames) - seen
            assert fresh <= 2 * TURN_WORK
            seen += fresh
        await settle()
        assert sum(frame == Pong(7) for frame in bench.transport.frames) == sent
        assert turns >= sent // TURN_WORK
        bench.lose()

    run(main)


def test_a_client_that_does_not_read_is_not_read_and_what_has_arrived_waits_undecoded() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        socket = Swallowing(bench, 0)
        received = 0
        while not bench.handler.writable:
            if bench.transport.reading:
                received += flood(bench)
            await asyncio.sleep(0)
        await settle()
        assert not bench.transport.reading
        assert bench.transport.unsent < WRITE_BUFFER_HIGH + FLUSH_BYTES
        answered = sum(frame == Pong(7) for frame in bench.transport.frames)
        assert answered < received
        await settle(1.0)
        assert sum(frame == Pong(7) for frame in bench.transport.frames) == answered
        # It reads again, and nothing was lost.
        while answered < received:
            socket.take(1 << 30)
            await settle(0.01)
            answered = sum(frame == Pong(7) for frame in bench.transport.frames)
        assert answered == received
        assert bench.transport.reading
        bench.lose()

    run(main)


def test_a_client_that_takes_nothing_is_cut_after_three_heartbeats_however_much_it_says() -> None:
    async def main() -> None:
        bench = Bench(heartbeat=2.0)
        bench.open(heartbeat_ms=2000)
        Swallowing(bench, 0)
        bench.connection.send(Send(0, None, MessageBatch.from_payloads([bytes(2 * WRITE_BUFFER_HIGH)])))
        assert not bench.transport.reading
        await settle(5.9)
        assert bench.over() == (False, False)
        await settle(2.1)
        assert bench.over() == (False, True)
        bench.lose()
        assert isinstance(bench.handler.closed[0], UnreadError)

    run(main)


def test_a_client_whose_broker_does_not_read_and_says_that_it_is_there_waits_and_gives_up_only_a_silent_one() -> None:
    async def main() -> None:
        bench = Bench(heartbeat=2.0, side=Side.CLIENT)
        bench.connect()
        bench.connection.send(HELLO)
        bench.receive(Welcome(1, 1, {"heartbeat_ms": 2000}))
        socket = Swallowing(bench, 0)
        bench.connection.send(Send(0, None, MessageBatch.from_payloads([bytes(2 * WRITE_BUFFER_HIGH)])))
        for _ in range(50):
            await settle(2.0)
            bench.receive(Ping(1))
        assert bench.over() == (False, False)
        assert bench.transport.unsent < 3 * WRITE_BUFFER_HIGH
        socket.take(3 * WRITE_BUFFER_HIGH)
        assert bench.handler.writable == [False, True]
        await settle(5.9)
        assert bench.over() == (False, False)
        await settle(0.2)
        assert bench.said().code == "timeout"
        bench.lose()

    run(main)


def test_a_slow_client_is_neither_silent_nor_stuck() -> None:
    async def main() -> None:
        bench = Bench(heartbeat=2.0)
        bench.open(heartbeat_ms=2000)
        socket = Swallowing(bench, 0)
        bench.connection.send(Send(0, None, MessageBatch.from_payloads([bytes(2 * WRITE_BUFFER_HIGH)])))
        for _ in range(20):
            await settle(1.5)
            socket.take(1000)
        assert bench.over() == (False, False)
        socket.take(2 * WRITE_BUFFER_HIGH)
        assert bench.transport.reading
        await settle(5.0)
        assert bench.over() == (False, False)
        await settle(2.0)
        assert bench.said().code == "timeout", "silence counts again from when it is heard again"
        bench.lose()

    run(main)


@pytest.mark.parametrize("side", [Side.BROKER, Side.CLIENT])
def test_a_connection_with_too_much_unread_is_cut_at_once(side: Side) -> None:
    async def main() -> None:
        bench = Bench(side=side)
        if side is Side.CLIENT:
            bench.connect()
            bench.connection.send(HELLO)
            bench.receive(Welcome(1, 1, {"heartbeat_ms": 5000}))
        else:
            bench.open()
        Swallowing(bench, 0)
        large = Send(0, None, MessageBatch.from_payloads([bytes(MAX_BODY_BYTES - 8)]))
        sent = 0
        while not bench.transport.aborted:
            bench.connection.send(large)
            sent += 1
        assert sent == 1 + MAX_UNSENT_BYTES // MAX_FRAME_BYTES
        bench.connection.send(large)
        bench.lose()
        assert isinstance(bench.handler.closed[0], UnreadError)
        assert str(MAX_UNSENT_BYTES) in str(bench.handler.closed[0])

    run(main)


def test_a_client_reads_on_while_the_broker_does_not_read_so_that_the_two_cannot_wait_for_each_other() -> None:
    async def main() -> None:
        bench = Bench(side=Side.CLIENT)
        bench.connect()
        bench.connection.send(HELLO)
        bench.receive(Welcome(1, 1, {"heartbeat_ms": 5000}))
        Swallowing(bench, 0)
        bench.connection.send(Send(0, None, MessageBatch.from_payloads([bytes(2 * WRITE_BUFFER_HIGH)])))
        assert bench.handler.writable == [False]
        assert bench.transport.reading
        bench.receive(Demand(1, 1))
        assert bench.handler.frames[-1] == Demand(1, 1)
        bench.lose()

    run(main)


def test_a_handler_that_holds_gets_nothing_more_of_what_has_arrived_until_it_goes_on() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        bench.connection.pause_reading()
        bench.receive(SEND, SEND, SEND)
        assert bench.handler.frames == [HELLO]
        assert not bench.transport.reading
        bench.connection.resume_reading()
        await settle()
        assert bench.handler.frames == [HELLO, SEND, SEND, SEND]
        assert bench.transport.reading
        # From within a frame, too, and one frame at a time.
        hold = bench.handler.event_received

        def hold_each(frame: Frame, work: int) -> None:
            hold(frame, work)
            bench.connection.pause_reading()

        bench.handler.event_received = hold_each  # type: ignore[method-assign]  # as a port that answers one by one
        bench.receive(SEND, SEND)
        assert len(bench.handler.frames) == 5
        await settle(60.0)
        assert len(bench.handler.frames) == 5
        assert not any(isinstance(frame, Error) for frame in bench.transport.frames), "nor is it called silent"
        bench.connection.resume_reading()
        await settle()
        assert len(bench.handler.frames) == 6
        bench.lose()

    run(main)


def test_what_waits_is_dropped_when_the_connection_ends() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        bench.connection.pause_reading()
        bench.receive(SEND, SEND)
        bench.connection.fail(RemoteProtocolError("enough"))
        bench.connection.resume_reading()
        await settle(0.1)
        assert bench.handler.frames == [HELLO]
        assert bench.transport.reading, "what it still sends is read and dropped, so that it can read why"
        bench.lose()

    run(main)


@pytest.mark.parametrize("cause", ["deaf", "held"])
def test_who_keeps_memory_that_others_wait_for_and_does_not_read_is_ended_but_not_who_is_held(cause: str) -> None:
    async def main() -> None:
        everybody = PartialFrames(limit=1)
        begun = b"".join(bytes(part) for part in encode(Send(0, None, MessageBatch.from_payloads([bytes(200_000)]))))
        benches = [Bench(partial=everybody) for _ in range(IN_TURN)]
        for bench in benches:
            bench.open()
            bench.receive_bytes(begun[:100_000])
            if cause == "deaf":
                bench.connection.pause_writing()
            else:
                bench.connection.pause_reading()
            assert not bench.transport.reading
        honest = Bench(partial=everybody)
        honest.open()
        honest.receive_bytes(begun[:100])
        assert everybody.waiting == 1
        for _ in range(3):
            everybody.look()
            await settle(LOOK_SECONDS)
        assert honest.transport.reading is (cause == "deaf")
        assert [bench.over()[0] for bench in benches] == [cause == "deaf"] * IN_TURN
        for bench in [*benches, honest]:
            bench.lose()
        assert everybody.bytes == everybody.waiting == 0

    run(main)
