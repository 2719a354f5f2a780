"""A connection whose peer does not read, or whose handler does not go on: what waits, what is bounded, and who is cut."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.batch import MessageBatch
from streams.testkit import settle
from tests.transport.connection_bench import HELLO, SEND, Bench, run
from transport.errors import (
    RemoteProtocolError,
    UnreadError,
)
from transport.shell.connection import (
    FLUSH_BYTES,
)
from transport.shell.partial_frames import IN_TURN, LOOK_SECONDS, PartialFrames
from transport.shell.turns import TURN_WORK
from transport.shell.unsent import MAX_UNSENT_BYTES, WRITE_BUFFER_HIGH
from transport.wire.codec import encode
from transport.wire.frames import MAX_BODY_BYTES, MAX_FRAME_BYTES
from transport.wire.messages import Demand, Error, Frame, Ping, Pong, Send, Welcome
from transport.wire.protocol import Side

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
