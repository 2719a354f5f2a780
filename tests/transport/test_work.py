"""What frames cost, and the ranges that are made one."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from actors.batch import MessageBatch
from tests.decoding import FrameDecoder
from transport.wire.codec import decode_ranges, encode
from transport.wire.frames import RawFrame
from transport.wire.messages import Ack, Auth, Command, Extend, Frame, Nack, Ping, Send
from transport.wire.receiving import SHARED_BUFFER_BYTES
from transport.wire.work import BYTES_A_UNIT, LONG_WORK, MESSAGES_A_UNIT, announced_messages, paid_for, work_of

MIB = 1 << 20


def raw(frame: Frame) -> RawFrame:
    data = b"".join(bytes(part) for part in encode(frame))
    (found,) = FrameDecoder(16 * MIB).receive_data(data)
    return found


def test_work_grows_with_what_a_frame_has_whoever_handles_it_look_at() -> None:
    assert work_of(raw(Ping(1))) == 1
    assert work_of(raw(Command(1, "stats", {}))) == LONG_WORK
    assert work_of(raw(Auth(b"proof"))) == LONG_WORK
    for kind in (Ack([(0, 1)]), Nack([(0, 1)], 0), Extend([(0, 1)], 1)):
        assert work_of(raw(kind)) == 1
    # As they came, not as they are kept: each was looked at.
    assert work_of(raw(Extend([(number, 1) for number in range(200)], 1))) == 200
    assert work_of(raw(Send(0, None, MessageBatch.from_payloads([b""])))) == 1
    many = MessageBatch.from_payloads([b""] * (10 * MESSAGES_A_UNIT))
    assert work_of(raw(Send(0, None, many))) == 11
    assert work_of(raw(Send(0, None, MessageBatch.from_payloads([bytes(3 * BYTES_A_UNIT)])))) == 4
    assert work_of(raw(Send(0, None, MessageBatch.from_payloads([bytes(8 * SHARED_BUFFER_BYTES)])))) == 33


def test_what_is_larger_than_a_receive_came_in_pieces_and_its_bytes_were_paid_for_as_they_came() -> None:
    def paid(size: int) -> int:
        return paid_for(raw(Send(0, None, MessageBatch.from_payloads([bytes(size)]))))

    assert paid(1) == 0
    assert paid(SHARED_BUFFER_BYTES - 100) == 0
    assert paid(8 * SHARED_BUFFER_BYTES) == 7 * SHARED_BUFFER_BYTES // BYTES_A_UNIT


def test_only_a_send_announces_messages() -> None:
    assert announced_messages(raw(Send(0, None, MessageBatch.from_payloads([b"a", b"b"])))) == 2
    assert announced_messages(raw(Ping(17))) is None
    nothing = memoryview(b"")
    assert announced_messages(RawFrame([17, 0, None, -1], nothing)) is None
    assert announced_messages(RawFrame([17, 0], nothing)) is None


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 5)), min_size=1, max_size=30))
def test_ranges_that_go_on_where_another_ends_are_one_and_name_the_same_messages(pairs: list[tuple[int, int]]) -> None:
    found = decode_ranges([number for pair in pairs for number in pair])
    assert [n for first, count in found for n in range(first, first + count)] == [
        n for first, count in pairs for n in range(first, first + count)
    ]
    assert all(first + count != then for (first, count), (then, _) in pairwise(found))


def test_two_hundred_neighbours_are_kept_as_one_range() -> None:
    assert decode_ranges([number for n in range(200) for number in (n, 1)]) == [(0, 200)]
