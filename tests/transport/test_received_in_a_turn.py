"""What is received of frames that are not complete: a turn of the loop takes no more of it than it has time for.

uvloop reads a socket up to thirty-two times in a turn while its buffer is filled (libuv's ``uv__read``), so only who pauses bounds it.
"""

from __future__ import annotations

import asyncio

import msgpack
import pytest

from streams.testkit import settle
from tests.transport.test_connection import Bench, run
from transport.frames import MAX_FRAME_BYTES, MOST_RECEIVED_BYTES
from transport.turns import CROWD_EVERY, TURN_WORK, Turns
from transport.wire import Error
from transport.work import RECEIVED_BYTES_A_UNIT

READS = 32
"""How often libuv reads a socket in one turn."""
TURN_BYTES = TURN_WORK * RECEIVED_BYTES_A_UNIT
HEADER = msgpack.packb([17, 1])
BEGINNING = (MAX_FRAME_BYTES).to_bytes(4, "big") + len(HEADER).to_bytes(2, "big") + HEADER


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


@pytest.mark.parametrize("refused", [False, True])
def test_a_flood_that_completes_no_frame_has_its_part_of_a_turn_and_goes_on_in_a_later_one(refused: bool) -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        await settle()
        bench.receive_bytes(b"\xff" * 7 if refused else BEGINNING)
        assert isinstance(bench.transport.frames[-1], Error) is refused
        least = 0
        for _ in range(4):
            assert bench.transport.reading
            received = poll(bench, 3 * TURN_BYTES)
            least += received
            assert received < TURN_BYTES + MOST_RECEIVED_BYTES
            assert not bench.transport.reading
            await settle()
        # What one turn overdrew is paid for by the next.
        assert least >= 3 * TURN_BYTES
        bench.lose()

    run(main)


@pytest.mark.parametrize("refused", [False, True])
def test_many_who_flood_receive_no_more_in_a_turn_than_one(refused: bool) -> None:
    async def main() -> None:
        many = [Bench() for _ in range(40)]
        turns = Turns(many[0].loop)
        for bench in many:
            bench.connection._turns = turns
            bench.open()
            await settle()
            bench.receive_bytes(b"\xff" * 7 if refused else BEGINNING)
        # All at once the first time: each has received once before it is known to flood.
        for bench in many:
            poll(bench, TURN_BYTES)
        received: list[int] = []
        for _ in range(30 * CROWD_EVERY):
            await asyncio.sleep(0)
            received.append(sum(poll(bench, TURN_BYTES) for bench in many))
        assert max(received) < 2 * (TURN_BYTES + MOST_RECEIVED_BYTES)
        assert sum(received) > 10 * TURN_BYTES, "they go on"
        for bench in many:
            bench.lose()

    run(main)


def test_whoever_is_held_up_by_this_side_is_not_taken_for_slow() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        bench.receive_bytes(BEGINNING)
        assert bench.connection.was_up_to_peer()
        poll(bench)
        await settle()
        assert bench.transport.reading
        assert not bench.connection.was_up_to_peer(), "for some of the time since it was last asked"
        assert bench.connection.was_up_to_peer()
        bench.lose()

    run(main)


def test_a_connection_that_ends_while_it_stands_in_line_is_not_read_again() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        bench.receive_bytes(BEGINNING)
        poll(bench)
        assert not bench.transport.reading
        bench.transport.closing = True
        bench.lose()
        await settle()
        assert not bench.transport.reading

    run(main)
