"""What is received of frames that are not complete: a turn of the loop takes no more of it than it has time for.

uvloop reads a socket up to thirty-two times in a turn while its buffer is filled (libuv's ``uv__read``), so only who pauses bounds it.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgpack
import pytest

from actors.batch import MessageBatch
from streams.testkit import settle
from tests.transport.connection_bench import Bench, run
from transport.shell.partial_frames import IN_TURN, PartialFrames, PartialRoom
from transport.shell.turns import CROWD_EVERY, TURN_WORK, Turns
from transport.wire.codec import encode
from transport.wire.frames import (
    FIRST_PARTIAL_BYTES,
    HEADER_OBJECT_BYTES,
    MAX_FRAME_BYTES,
    MOST_RECEIVED_BYTES,
    SCARCE_BYTES,
)
from transport.wire.messages import FRAMES, Error, Ping, Send
from transport.wire.work import MESSAGES_A_UNIT, RECEIVED_BYTES_A_UNIT

READS = 32
"""How often libuv reads a socket in one turn."""
TURN_BYTES = TURN_WORK * RECEIVED_BYTES_A_UNIT
HEADER = msgpack.packb([17, 1])


def beginning(length: int) -> bytes:
    return length.to_bytes(4, "big") + len(HEADER).to_bytes(2, "big") + HEADER


BEGINNING = beginning(MAX_FRAME_BYTES)
PING = b"".join(bytes(part) for part in encode(Ping(1)))


def poll(bench: Bench, most: int = MAX_FRAME_BYTES - len(BEGINNING) - 1) -> int:
    """One turn's reads of a socket that has ``most`` bytes, as libuv does them; how much was received."""
    received = 0
    for _ in range(READS):
        if not bench.transport.reading or received == most:
            break
        nbytes = min(len(bench.connection.get_buffer(-1)), most - received)
        bench.connection.buffer_updated(nbytes)
        received += nbytes
    return received


async def begin(bench: Bench, refused: bool) -> None:
    """Have the connection be in the middle of a largest frame, or refused."""
    bench.open()
    await settle()
    bench.receive_bytes(b"\xff" * 7 if refused else BEGINNING)
    assert isinstance(bench.transport.frames[-1], Error) is refused


@pytest.mark.parametrize("refused", [False, True])
def test_a_flood_that_completes_no_frame_has_its_part_of_a_turn_and_goes_on_in_a_later_one(refused: bool) -> None:
    async def main() -> None:
        bench = Bench()
        await begin(bench, refused)
        total = 0
        for turn in range(1, 5):
            assert bench.transport.reading
            received = poll(bench, 3 * TURN_BYTES)
            assert received <= TURN_BYTES + MOST_RECEIVED_BYTES
            # What one turn overdrew is paid for by the next.
            total += received
            assert abs(total - turn * TURN_BYTES) <= MOST_RECEIVED_BYTES
            assert not bench.transport.reading
            await settle()
        bench.lose()

    run(main)


@pytest.mark.parametrize("refused", [False, True])
def test_many_who_flood_receive_no_more_in_a_turn_than_one_and_each_goes_on(refused: bool) -> None:
    async def main() -> None:
        turns = Turns(asyncio.get_running_loop())
        many = [Bench(turns=turns) for _ in range(40)]
        for bench in many:
            await begin(bench, refused)
        # All at once the first time: each has received once before it is known to flood.
        for bench in many:
            poll(bench, TURN_BYTES)
        received: list[list[int]] = []
        for _ in range(60 * CROWD_EVERY):
            await asyncio.sleep(0)
            received.append([poll(bench, TURN_BYTES) for bench in many])
        assert max(map(sum, received)) < 2 * (TURN_BYTES + MOST_RECEIVED_BYTES)
        assert min(map(sum, zip(*received, strict=True))) > 0, "each goes on"
        for bench in many:
            bench.lose()

    run(main)


def test_who_is_refused_while_it_stands_in_line_is_not_read_before_its_turn() -> None:
    async def main() -> None:
        bench = Bench()
        await begin(bench, refused=False)
        poll(bench)
        assert not bench.transport.reading
        bench.connection.too_slow()
        assert isinstance(bench.transport.frames[-1], Error)
        assert not bench.transport.reading
        await settle()
        assert bench.transport.reading, "what it still sends is read and dropped, so that it can read why"
        assert poll(bench, 3 * TURN_BYTES) < TURN_BYTES + MOST_RECEIVED_BYTES
        bench.lose()

    run(main)


def test_a_refused_peer_that_is_read_a_little_at_a_time_pays_for_each_receive() -> None:
    async def main() -> None:
        everybody = PartialFrames(limit=1)
        bench = Bench(partial=everybody)
        await begin(bench, refused=True)
        everybody.line[PartialRoom(everybody, bench.connection)] = None
        everybody.scarce.append(None)
        assert len(bench.connection.get_buffer(-1)) == SCARCE_BYTES
        # One for each, and one to find out that the turn has none left.
        assert sum(poll(bench, MAX_FRAME_BYTES) for _ in range(4)) <= (TURN_WORK + 1) * SCARCE_BYTES
        assert not bench.transport.reading
        await settle()
        assert bench.transport.reading
        bench.lose()

    run(main)


class Counting(Turns):
    """Turns that have no end, and know what was paid."""

    __slots__ = ("paid",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.paid = 0

    def used(self, units: int) -> int:
        self.paid += units
        return 0

    def share(self) -> int:
        return TURN_WORK


def paid(*receives: bytes) -> int:
    """What a connection pays that receives this, past what opened it."""
    seen: list[int] = []

    async def main() -> None:
        turns = Counting(asyncio.get_running_loop())
        bench = Bench(turns=turns)
        bench.open()
        before = turns.paid
        for data in receives:
            bench.receive_bytes(data)
        seen.append(turns.paid - before)
        bench.lose()

    run(main)
    return seen[0]


def test_a_frame_that_is_refused_when_it_is_decoded_is_paid_for() -> None:
    wrong = encode(Send(0, None, MessageBatch.from_payloads([b""] * 5_000)))
    data = bytearray(b"".join(bytes(part) for part in wrong))
    # Its last offset is below the one before it.
    data[-4:] = (1).to_bytes(4, "little")
    assert paid(bytes(data)) >= 5_000 // MESSAGES_A_UNIT


def test_pieces_smaller_than_a_unit_are_paid_for_too() -> None:
    piece = bytes(RECEIVED_BYTES_A_UNIT - 1)
    assert paid(BEGINNING, *[piece] * 200) == 199


def test_a_small_frame_pays_when_it_is_handled_however_many_pieces_it_comes_in() -> None:
    whole = paid(PING)
    assert whole == 1
    assert paid(*[PING[n : n + 1] for n in range(len(PING))]) == whole


def test_complete_frames_do_not_pay_again_for_the_beginning_of_another_behind_them() -> None:
    assert paid(PING * 50 + PING[:-1]) == paid(PING * 50) == 50


def test_the_receive_that_completes_a_large_frame_pays_as_those_before_it() -> None:
    length = 4 * FIRST_PARTIAL_BYTES
    stream = beginning(length) + bytes(length - len(BEGINNING))
    received = length // RECEIVED_BYTES_A_UNIT
    in_pieces = paid(stream[:10], stream[10:100_000], stream[100_000:-1], stream[-1:])
    assert in_pieces - paid(stream) == received


def test_who_had_to_wait_for_this_side_says_how_long() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        bench = Bench()
        await begin(bench, refused=False)
        assert bench.connection.waited() == 0
        began = loop.time()
        bench.connection.pause_reading()
        await settle(0.25)
        assert bench.connection.waited() == loop.time() - began >= 0.25
        bench.connection.resume_reading()
        waited = bench.connection.waited()
        await settle(0.25)
        assert bench.connection.waited() == waited
        bench.connection.pause_writing()
        await settle(0.25)
        assert not bench.transport.reading
        assert bench.connection.waited() == waited, "nobody has who does not read"
        bench.lose()

    run(main)


def test_a_connection_that_ends_while_it_stands_in_line_is_not_read_again() -> None:
    async def main() -> None:
        bench = Bench()
        await begin(bench, refused=False)
        poll(bench)
        assert not bench.transport.reading
        bench.transport.closing = True
        bench.lose()
        await settle()
        assert not bench.transport.reading

    run(main)


def test_nobody_pauses_a_transport_that_is_closing() -> None:
    async def main() -> None:
        bench = Bench()
        await begin(bench, refused=True)
        bench.transport.closing = True
        assert poll(bench, 3 * TURN_BYTES) == 3 * TURN_BYTES, "and what it sends is of no account"
        bench.lose()

    run(main)


@pytest.mark.parametrize("kind", [*sorted(FRAMES), "x", -1])
@pytest.mark.parametrize("length", [4 * FIRST_PARTIAL_BYTES, MAX_FRAME_BYTES])
def test_no_frame_gives_a_turn_work_back_whatever_its_type_and_however_large_its_body(kind: Any, length: int) -> None:
    header = msgpack.packb([kind, []])
    first = length.to_bytes(4, "big") + len(header).to_bytes(2, "big") + header
    assert paid(first, bytes(length - len(first))) >= length // RECEIVED_BYTES_A_UNIT


class Spent(Turns):
    """Turns that have nothing for whoever has just received something, once they are spent."""

    __slots__ = ("spent",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.spent = False

    def share(self) -> int:
        return 0 if self.spent else super().share()


def test_a_large_frame_that_is_found_behind_others_in_a_connections_turn_is_paid_for_by_that_turn() -> None:
    async def main() -> None:
        turns = Spent(asyncio.get_running_loop())
        bench = Bench(turns=turns)
        bench.open()
        await settle()
        turns.spent = True
        bench.receive_bytes(PING * 9 + BEGINNING + bytes(5 * RECEIVED_BYTES_A_UNIT))
        assert bench.transport.frames[1:] == []
        assert bench.connection.work(100) == 9 + 5
        bench.lose()

    run(main)


def test_a_complete_frame_that_waits_for_its_turn_counts_as_memory_and_holds_up_nobody() -> None:
    async def main() -> None:
        everybody = PartialFrames(limit=1)
        turns = Spent(asyncio.get_running_loop())
        # One more than have a place, and each in more than one receive, so that it needs one.
        many = [Bench(partial=everybody, turns=turns) for _ in range(IN_TURN + 1)]
        length = 5 * FIRST_PARTIAL_BYTES
        for bench in many:
            turns.spent = False
            bench.open()
            await settle()
            turns.spent = True
            bench.receive_bytes(beginning(length) + bytes(length - len(BEGINNING)))
            assert not bench.transport.reading
            # Deaf, too, so that its turn does not come.
            bench.connection.pause_writing()
        await settle()
        assert everybody.bytes == len(many) * (length - len(BEGINNING) + len(HEADER) * HEADER_OBJECT_BYTES)
        honest = Bench(partial=everybody)
        honest.open()
        await settle()
        honest.receive_bytes(beginning(length))
        assert everybody.waiting == 0, "those that are complete have no place among those in turn"
        everybody.look()
        everybody.look()
        for bench in many:
            bench.connection.resume_writing()
        await settle()
        assert [bench.said().text for bench in many] == ["SEND has 2 header fields, not 8"] * len(many)
        honest.lose()
        assert everybody.bytes == 0
        for bench in many:
            bench.lose()

    run(main)


def test_nothing_is_kept_of_a_large_frame_that_was_refused_while_the_peer_is_waited_for() -> None:
    async def main() -> None:
        everybody = PartialFrames(limit=MAX_FRAME_BYTES)
        bench = Bench(partial=everybody)
        bench.open()
        await settle()
        header = msgpack.packb([Send.TYPE, "no number"])
        length = 4 * FIRST_PARTIAL_BYTES
        first = length.to_bytes(4, "big") + len(header).to_bytes(2, "big") + header
        bench.receive_bytes(first + bytes(length - len(first) - 1))
        partial = bench.connection._receiver._partial
        bench.receive_bytes(b"\0")
        assert isinstance(bench.transport.frames[-1], Error)
        assert everybody.bytes == 0
        assert isinstance(partial, bytearray)
        # BufferError while anybody has a view of it, and an error's traceback has every variable.
        partial.clear()
        bench.lose()

    run(main)
