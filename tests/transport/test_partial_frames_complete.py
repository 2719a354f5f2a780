"""Frames that are complete and wait to be handled: what they count for, and who goes on before them."""

from __future__ import annotations

from tests.transport.partial_frames_peers import MIB, Peer, frame
from transport.shell.partial_frames import (
    IN_TURN,
    SMALL_SHARE,
    PartialFrames,
    PartialRoom,
)
from transport.wire.frames import (
    FIRST_PARTIAL_BYTES,
    MAX_FRAME_BYTES,
)


def test_frames_that_are_complete_and_wait_take_the_places_that_their_memory_is_worth() -> None:
    everybody = PartialFrames(2 * MAX_FRAME_BYTES)
    rooms = [Whole(everybody).room for _ in range(100)]
    for room in rooms:
        room.take(MAX_FRAME_BYTES, MAX_FRAME_BYTES)
    while held := [room for room in rooms if room.bytes and not room.complete]:
        for room in held:
            room.hold(MAX_FRAME_BYTES)
    assert everybody.bytes == (2 + IN_TURN) * MAX_FRAME_BYTES
    assert everybody.waiting == 100 - 2 - IN_TURN
    # Handled one after the other, all come through.
    while held := [room for room in rooms if room.complete]:
        held[0].leave()
        for room in rooms:
            if room.bytes and not room.complete:
                room.hold(MAX_FRAME_BYTES)
        assert everybody.bytes <= (2 + IN_TURN) * MAX_FRAME_BYTES
    assert everybody.bytes == everybody.waiting == 0


class Whole(Peer):
    """One that has room for a whole frame at once."""

    def room_found(self) -> None:
        assert self.room.take(MAX_FRAME_BYTES, MAX_FRAME_BYTES)


def test_many_complete_frames_however_small_do_not_hold_up_the_line_where_nobody_reads_for_them() -> None:
    everybody = PartialFrames(64 * MIB)
    deaf = [Peer(everybody) for _ in range(IN_TURN * MAX_FRAME_BYTES // FIRST_PARTIAL_BYTES + 10)]
    for peer in deaf:
        peer.room.hold(FIRST_PARTIAL_BYTES)
    honest = Peer(everybody, frame(MIB))
    honest.receive(10)
    assert not honest.reads
    for _ in range(3):
        everybody.look()
    assert honest.reads
    assert all(peer.ended for peer in deaf)


def test_who_is_in_turn_with_a_small_frame_is_asked_for_its_pace_too() -> None:
    everybody = PartialFrames(1)
    slow = [Peer(everybody, frame(1000)) for _ in range(IN_TURN)]
    for peer in slow:
        peer.receive(10)
    honest = Peer(everybody, frame(MIB))
    honest.receive(10)
    assert not honest.reads
    for _ in range(3):
        everybody.look()
    assert (honest.reads, [peer.ended for peer in slow]) == (True, [True] * IN_TURN)


def test_a_frame_that_is_complete_and_waits_frees_its_place_and_its_part_of_what_small_frames_have() -> None:
    everybody = PartialFrames(8 * MIB)
    large = [PartialRoom(everybody, Peer(everybody)) for _ in range(8 + IN_TURN)]
    for room in large:
        assert room.take(MIB, MIB)
    next_one = Peer(everybody, frame(MIB))
    next_one.receive(10)
    assert not next_one.reads
    large[-1].hold(MIB)
    assert next_one.reads
    share = 8 * MIB // SMALL_SHARE // FIRST_PARTIAL_BYTES
    for _ in range(2):
        small = [PartialRoom(everybody, Peer(everybody)) for _ in range(share)]
        assert all(room.take(FIRST_PARTIAL_BYTES, FIRST_PARTIAL_BYTES) for room in small)
        for room in small:
            room.hold(FIRST_PARTIAL_BYTES)


def test_a_frame_counts_while_it_is_looked_at_and_until_it_is_handled() -> None:
    everybody = PartialFrames(1)
    first = Peer(everybody)
    stream = memoryview(frame(MIB))
    raw = None
    while raw is None:
        buffer = first.decoder.get_buffer()
        taken = min(len(buffer), len(stream))
        buffer[:taken] = stream[:taken]
        stream = stream[taken:]
        first.decoder.received(taken)
        raw = first.decoder.next_frame()
    whole = everybody.bytes
    assert whole >= MIB
    first.decoder.put_back(raw)
    assert everybody.bytes >= MIB
    assert first.decoder.next_frame() is raw
    assert everybody.bytes >= MIB
    first.decoder.handled()
    assert everybody.bytes == 0


def test_small_frames_that_had_to_wait_go_on_before_later_ones_and_not_behind_the_large() -> None:
    everybody = PartialFrames(8 * MIB)
    large = [Peer(everybody, frame(8 * MIB)[:-1]) for _ in range(IN_TURN + 4)]
    for peer in large:
        peer.read_all()
    share = 8 * MIB // SMALL_SHARE // FIRST_PARTIAL_BYTES
    small = [Peer(everybody, frame(FIRST_PARTIAL_BYTES - 100)) for _ in range(share + 3)]
    for peer in small:
        peer.receive(1000)
        peer.receive(1000)
    waiting = [peer for peer in small if not peer.reads]
    assert len(waiting) == 3
    for peer in small[:3]:
        peer.read_all()
    assert all(peer.reads for peer in waiting)
    for peer in small:
        peer.read_all()
    assert [len(peer.frames) for peer in small] == [1] * len(small)


def test_who_has_begun_a_large_frame_is_asked_for_its_pace_however_little_has_come() -> None:
    everybody = PartialFrames(1)
    slow = [Peer(everybody, frame(MAX_FRAME_BYTES - 100)) for _ in range(IN_TURN)]
    for peer in slow:
        peer.receive(10)
    honest = Peer(everybody, frame(MIB))
    honest.receive(10)
    assert not honest.reads
    everybody.look()
    everybody.look()
    assert [peer.ended for peer in slow] == [True] * IN_TURN
    honest.read_all()
    assert len(honest.frames) == 1
