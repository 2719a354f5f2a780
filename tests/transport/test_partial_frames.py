"""Frames that are not complete: what all connections keep together is bounded, nobody waits for ever, and nothing is lost of a stream."""

from __future__ import annotations

import mmap
import random
import struct
from dataclasses import fields

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decoding import FrameDecoder
from transport.errors import RemoteProtocolError
from transport.shell.partial_frames import (
    ALL_PROGRESS,
    IN_TURN,
    LEAST_PARTIAL_BYTES,
    LEAST_PROGRESS,
    LOOK_SECONDS,
    MOST_PARTIAL_BYTES,
    SMALL_SHARE,
    PartialFrames,
    PartialRoom,
    partial_bytes_limit,
)
from transport.wire.frames import (
    CONTROL_FRAME_BYTES,
    FIRST_PARTIAL_BYTES,
    HEADER_OBJECT_BYTES,
    MAPPED_BYTES,
    MAX_FRAME_BYTES,
    MAX_HEADER_BYTES,
    MOST_RECEIVED_BYTES,
    PREFIX_BYTES,
    SCARCE_BYTES,
    RawFrame,
)
from transport.wire.messages import FRAMES
from transport.wire.protocol import FROM_BROKER, FROM_CLIENT, WITH_BODY, Protocol, Side, State
from transport.wire.receiving import SHARED_BUFFER_BYTES

MIB = 2**20


def frame(body: int, token: int = 1) -> bytes:
    header = msgpack.packb([17, token])
    return struct.pack(">IH", PREFIX_BYTES + len(header) + body, len(header)) + header + bytes([token % 256]) * body


class Peer:
    """One connection's decoder, and a stream that comes to it while it reads."""

    def __init__(self, everybody: PartialFrames, stream: bytes = b"") -> None:
        self.everybody = everybody
        self.stream = memoryview(stream)
        self.frames: list[RawFrame] = []
        self.bytes_in = 0
        self.held = 0.0
        self.ended = False
        self.room = PartialRoom(everybody, self)
        self.decoder = FrameDecoder(MAX_FRAME_BYTES, self.room)

    def room_found(self) -> None:
        self.decoder.go_on()

    def waited(self) -> float:
        return self.held

    def too_slow(self) -> None:
        self.end()

    @property
    def reads(self) -> bool:
        return not self.decoder.stalled

    def receive(self, most: int = SHARED_BUFFER_BYTES) -> int:
        """Take what fits from the stream, once."""
        if not self.reads or not self.stream:
            return 0
        buffer = self.decoder.get_buffer()
        taken = min(len(buffer), len(self.stream), most)
        buffer[:taken] = self.stream[:taken]
        self.stream = self.stream[taken:]
        self.bytes_in += taken
        self.frames += self.decoder.buffer_updated(taken)
        return taken

    def bring(self, nbytes: int) -> None:
        """Take so much, in as many receives as it needs."""
        while nbytes > 0 and (taken := self.receive(nbytes)):
            nbytes -= taken

    def read_all(self) -> None:
        while self.receive():
            pass

    def end(self) -> None:
        self.ended = True
        self.stream = self.stream[:0]
        self.decoder.close()


def kept(peers: list[Peer]) -> int:
    return sum(peer.decoder._granted for peer in peers if peer.decoder._partial is not None)


def test_only_roles_that_send_bodies_may_send_large_frames() -> None:
    assert {each for each in FRAMES.values() if {field.name for field in fields(each)} & {"batch", "json"}} == WITH_BODY  # type: ignore[arg-type]
    limits = {}
    for side, table in ((Side.BROKER, FROM_CLIENT), (Side.CLIENT, FROM_BROKER)):
        for role in table:
            protocol = Protocol(side, frozenset({role}))
            protocol.role = role
            protocol._opened()
            assert protocol.state is State.OPEN
            limits[side.value, role] = protocol.largest_frame
    large = {key for key, limit in limits.items() if limit == MAX_FRAME_BYTES}
    assert large == {("broker", "sender"), ("client", "receiver"), ("client", "subscription"), ("client", "admin")}
    assert set(limits.values()) == {MAX_FRAME_BYTES, CONTROL_FRAME_BYTES}
    assert CONTROL_FRAME_BYTES > PREFIX_BYTES + MAX_HEADER_BYTES


def test_as_long_as_there_is_room_nobody_waits() -> None:
    everybody = PartialFrames(64 * MIB)
    peers = [Peer(everybody, frame(MAX_FRAME_BYTES - 100)) for _ in range(4)]
    for peer in peers:
        peer.read_all()
    assert [len(peer.frames) for peer in peers] == [1, 1, 1, 1]
    assert everybody.bytes == everybody.waiting == 0


def test_many_who_stop_in_the_middle_keep_a_bounded_memory_and_honest_ones_come_through() -> None:
    everybody = PartialFrames(8 * MIB)
    silent = [Peer(everybody, frame(4 * MIB)[:-1]) for _ in range(50)]
    for peer in silent:
        peer.read_all()
    # Those in turn have all that they want; the others what fits, and a little that says that they wait.
    most = everybody.limit + IN_TURN * 4 * MIB + len(silent) * max(SCARCE_BYTES, FIRST_PARTIAL_BYTES)
    assert everybody.limit <= everybody.bytes <= most
    assert kept(silent) <= most
    assert everybody.waiting > 30
    honest = Peer(everybody, frame(4 * MIB))
    honest.read_all()
    assert honest.decoder.stalled
    # A slow one, that goes on all the same.
    slow = Peer(everybody, frame(4 * MIB))
    looks = 0
    while not (honest.frames and slow.frames):
        for peer in silent:
            peer.read_all()
        honest.receive()
        slow.bring(ALL_PROGRESS // IN_TURN)
        everybody.look()
        looks += 1
        assert looks < 200, "the honest ones wait for ever"
    assert (honest.ended, slow.ended) == (False, False)
    # Once nobody waits, those that are left may take their time.
    assert everybody.waiting == 0
    left = [peer for peer in silent if not peer.ended]
    for _ in range(3):
        assert not everybody.look()
    assert left == [peer for peer in silent if not peer.ended]
    for peer in left:
        peer.end()
    assert everybody.bytes == everybody.waiting == 0


def looks_until(peer: Peer, others: dict[Peer, int], everybody: PartialFrames) -> int:
    """How many looks it takes until ``peer`` has its frame, where it takes what it can and each of the others so much between two."""
    looks = 0
    while not peer.frames:
        peer.read_all()
        for other, most in others.items():
            left = most
            while left > 0 and (taken := other.receive(left)):
                left -= taken
        everybody.look()
        looks += 1
        assert looks < 1000, "waits for ever"
    return looks


@pytest.mark.parametrize("pace", [LEAST_PROGRESS, 2 * LEAST_PROGRESS, ALL_PROGRESS // IN_TURN - 1])
def test_those_who_are_just_not_too_slow_hold_up_the_line_for_three_looks_each_turn(pace: int) -> None:
    everybody = PartialFrames(1)
    drip = [Peer(everybody, frame(MAX_FRAME_BYTES - 100)) for _ in range(40)]
    for peer in drip:
        peer.receive(MIB // 4)
    assert everybody.waiting == 40 - IN_TURN
    honest = Peer(everybody, frame(15 * MIB))
    honest.receive()
    assert not honest.reads
    assert looks_until(honest, dict.fromkeys(drip, pace), everybody) <= 3 * 40 / IN_TURN + 1
    assert not honest.ended
    assert all(peer.ended for peer in drip[:36])


def test_who_brings_a_largest_frame_in_its_time_is_not_ended_however_many_are_slower_or_wait() -> None:
    everybody = PartialFrames(1)
    slow = [Peer(everybody, frame(MAX_FRAME_BYTES - 100)) for _ in range(3)]
    drip = [Peer(everybody, frame(MAX_FRAME_BYTES - 100)) for _ in range(30)]
    for peer in [*slow, *drip]:
        peer.receive(MIB // 4)
    paces = dict.fromkeys(drip, LEAST_PROGRESS) | dict.fromkeys(slow, ALL_PROGRESS // IN_TURN)
    last = slow[-1]
    looks = 0
    while not last.frames:
        for peer, most in paces.items():
            left = most
            while left > 0 and (taken := peer.receive(left)):
                left -= taken
        everybody.look()
        looks += 1
        assert looks < 100
    assert [len(peer.frames) for peer in slow] == [1, 1, 1]
    assert sum(peer.ended for peer in drip) > 5


def test_a_crowd_that_shares_a_line_may_each_be_slow_and_one_look_at_a_bad_time_ends_nobody() -> None:
    everybody = PartialFrames(64 * MIB)
    crowd = [Peer(everybody, frame(4 * MIB)) for _ in range(60)]
    looks = waited = 0
    while not all(peer.frames for peer in crowd):
        looks += 1
        reading = [peer for peer in crowd if peer.reads and peer.stream]
        # Each fifth look comes when the loop has been held up.
        for peer in reading:
            left = max(LEAST_PROGRESS, 2 * ALL_PROGRESS // (10 if looks % 5 == 0 else 1) // len(reading))
            while left > 0 and (taken := peer.receive(left)):
                left -= taken
        waited += everybody.look()
        assert looks < 600
    assert waited > 50
    assert not any(peer.ended for peer in crowd)


def test_looking_begins_when_somebody_waits_and_ends_when_nobody_does() -> None:
    told: list[int] = []
    everybody = PartialFrames(1, lambda: told.append(everybody.waiting))
    peers = [Peer(everybody, frame(MIB)[:-1]) for _ in range(IN_TURN + 2)]
    for peer in peers:
        peer.read_all()
    assert told == [1]
    assert everybody.look()
    assert [peer.ended for peer in peers] == [False] * len(peers)
    # The two that waited have the places of those that did not go on, and have yet to show that they do.
    assert not everybody.look()
    assert [peer.ended for peer in peers] == [True] * IN_TURN + [False, False]
    assert not everybody.look()
    assert told == [1]


def test_who_had_to_wait_for_this_side_all_the_time_is_not_ended_for_being_slow() -> None:
    everybody = PartialFrames(1)
    peers = [Peer(everybody, frame(MIB)[:-1]) for _ in range(IN_TURN + 1)]
    for peer in peers:
        peer.read_all()
    for _ in range(3):
        assert everybody.look()
        for peer in peers:
            peer.held += LOOK_SECONDS
    assert not any(peer.ended for peer in peers)


@pytest.mark.parametrize(("progress", "ends"), [(LEAST_PROGRESS // 2 - 1, True), (LEAST_PROGRESS // 2, False)])
def test_who_had_to_wait_for_half_the_time_brings_half_of_the_least(progress: int, ends: bool) -> None:
    everybody = PartialFrames(1)
    peers = [Peer(everybody, frame(4 * MIB)) for _ in range(IN_TURN + 1)]
    for peer in peers:
        peer.bring(LEAST_PROGRESS + 1)
    assert everybody.look()
    for peer in peers:
        peer.held += LOOK_SECONDS / 2
        peer.bring(progress)
    everybody.look()
    assert [peer.ended for peer in peers] == [ends] * IN_TURN + [False]


def test_who_is_held_up_now_and_then_is_asked_for_its_pace_all_the_same() -> None:
    everybody = PartialFrames(1)
    peers = [Peer(everybody, frame(8 * MIB)) for _ in range(IN_TURN + 3)]
    for peer in peers:
        peer.bring(LEAST_PROGRESS + 1)
    looks = 0
    while not any(peer.ended for peer in peers):
        everybody.look()
        looks += 1
        assert looks <= 3, "three are held up by four that bring next to nothing"
        for peer in peers:
            peer.held += LOOK_SECONDS / 10
            peer.bring(LEAST_PROGRESS)
    assert [peer.ended for peer in peers] == [True] * IN_TURN + [False] * 3


def test_who_had_much_undecoded_once_and_is_in_the_middle_of_a_small_frame_is_asked_for_no_pace() -> None:
    everybody = PartialFrames(1)
    small = Peer(everybody)
    room = PartialRoom(everybody, small)
    room.keep(2 * FIRST_PARTIAL_BYTES)
    room.keep(FIRST_PARTIAL_BYTES // 2)
    large = [Peer(everybody, frame(MIB)[:-1]) for _ in range(IN_TURN + 1)]
    for peer in large:
        peer.read_all()
    everybody.look()
    everybody.look()
    assert [peer.ended for peer in large] == [True] * IN_TURN + [False]
    assert not small.ended


def test_a_crowd_of_honest_senders_of_the_largest_frames_comes_through_whole() -> None:
    everybody = PartialFrames(LEAST_PARTIAL_BYTES)
    peers = [Peer(everybody, frame(MAX_FRAME_BYTES - 100, token) + frame(10, token)) for token in range(24)]
    most = 0
    while any(peer.stream for peer in peers):
        moved = sum(peer.receive() for peer in peers)
        assert moved, "everybody waits for everybody"
        most = max(most, kept(peers))
    assert most <= LEAST_PARTIAL_BYTES + IN_TURN * MAX_FRAME_BYTES + len(peers) * SHARED_BUFFER_BYTES
    for token, peer in enumerate(peers):
        assert [len(raw.body) for raw in peer.frames] == [MAX_FRAME_BYTES - 100, 10]
        assert all(raw.header == [17, token] for raw in peer.frames)
        assert bytes(peer.frames[0].body[-3:]) == bytes([token]) * 3
    assert everybody.bytes == everybody.waiting == 0


def test_small_frames_pass_while_large_ones_wait_and_there_is_room() -> None:
    everybody = PartialFrames(8 * MIB)
    large = [Peer(everybody, frame(5 * MIB)[:-1]) for _ in range(8)]
    for peer in large:
        peer.receive(1 * MIB)
    assert everybody.bytes < everybody.limit - FIRST_PARTIAL_BYTES
    everybody.line[PartialRoom(everybody, Peer(everybody))] = None
    small = Peer(everybody, frame(FIRST_PARTIAL_BYTES - 100))
    small.read_all()
    assert len(small.frames) == 1


def test_small_frames_have_memory_of_their_own_beside_large_ones_that_take_all_there_is_and_no_more_than_that() -> None:
    everybody = PartialFrames(8 * MIB)
    large = [Peer(everybody, frame(8 * MIB)[:-1]) for _ in range(IN_TURN + 4)]
    for peer in large:
        peer.read_all()
    taken = everybody.bytes
    assert taken > everybody.limit
    assert everybody.waiting > 0
    rooms = [PartialRoom(everybody, Peer(everybody)) for _ in range(40)]
    passed = [room for room in rooms if room.take(FIRST_PARTIAL_BYTES, FIRST_PARTIAL_BYTES)]
    assert len(passed) == 8 * MIB // SMALL_SHARE // FIRST_PARTIAL_BYTES
    assert everybody.bytes == taken + 8 * MIB // SMALL_SHARE
    for room in rooms:
        room.leave()
    assert everybody.bytes == taken
    # What is kept of one that was large does not count as small, nor does what a large one begins with.
    rooms[0].keep(FIRST_PARTIAL_BYTES)
    assert not rooms[-1].take(FIRST_PARTIAL_BYTES, FIRST_PARTIAL_BYTES + 1)
    assert all(room.take(FIRST_PARTIAL_BYTES, FIRST_PARTIAL_BYTES) for room in rooms[1 : 1 + len(passed)])


def test_where_memory_is_scarce_little_is_received_at_a_time() -> None:
    everybody = PartialFrames(1)
    peers = [Peer(everybody, frame(MIB)) for _ in range(IN_TURN + 2)]
    for peer in peers[: IN_TURN + 1]:
        peer.receive(10)
    assert [peer.reads for peer in peers] == [True] * IN_TURN + [False, True]
    assert peers[-1].receive() == SCARCE_BYTES
    assert peers[-1].decoder._granted == SCARCE_BYTES


def test_a_receive_within_a_large_frame_takes_no_more_than_is_said() -> None:
    peer = Peer(PartialFrames(64 * MIB), frame(8 * MIB))
    peer.bring(2 * MIB)
    assert len(peer.decoder.get_buffer()) == MOST_RECEIVED_BYTES


@pytest.mark.parametrize(("length", "kind"), [(MAPPED_BYTES - 1, bytearray), (MAPPED_BYTES, mmap.mmap)])
def test_only_frames_from_two_megabytes_on_have_a_mapping(length: int, kind: type) -> None:
    peer = Peer(PartialFrames(64 * MIB), frame(length - len(frame(0))))
    peer.bring(length - 1)
    assert type(peer.decoder._partial) is kind
    assert len(peer.decoder._partial) == length
    peer.read_all()
    assert [len(raw.body) for raw in peer.frames] == [length - len(frame(0))]


@pytest.mark.parametrize("size", [FIRST_PARTIAL_BYTES * 2, 4 * MIB])
def test_nothing_is_kept_of_a_large_frame_that_was_handled_though_the_peer_says_no_more(size: int) -> None:
    everybody = PartialFrames(64 * MIB)
    peer = Peer(everybody, frame(size))
    peer.bring(size)
    partial = peer.decoder._partial
    assert partial is not None
    peer.read_all()
    assert [len(raw.body) for raw in peer.frames] == [size]
    peer.frames.clear()
    assert everybody.bytes == 0
    # Both raise BufferError while somebody has a view of it.
    if isinstance(partial, bytearray):
        partial.clear()
    else:
        partial.close()


def test_what_comes_though_it_should_wait_is_not_lost() -> None:
    everybody = PartialFrames(1)
    for _ in range(IN_TURN):
        Peer(everybody, frame(MIB)[:100]).read_all()
    late = Peer(everybody, frame(10, 1) + frame(20, 2) + frame(MIB, 3))
    late.receive(30)
    assert late.decoder.stalled
    # A loop may have one more receive under way when it is asked to stop, of anything.
    for size in (5, 40, 70):
        buffer = late.decoder.get_buffer()
        taken = min(len(buffer), size)
        buffer[:taken] = late.stream[:taken]
        late.stream = late.stream[taken:]
        late.frames += late.decoder.buffer_updated(taken)
    assert [len(raw.body) for raw in late.frames] == [10, 20]
    everybody.limit = 4 * MIB
    everybody._serve()
    late.read_all()
    assert [(raw.header[1], len(raw.body)) for raw in late.frames] == [(1, 10), (2, 20), (3, MIB)]


def test_bad_bytes_end_one_stream_and_give_back_what_it_kept() -> None:
    everybody = PartialFrames()
    peer = Peer(everybody, frame(MIB)[:1000])
    peer.read_all()
    assert everybody.bytes > 0
    peer.end()
    assert everybody.bytes == 0
    bad = Peer(everybody, frame(200_000) + b"\xff" * 7)
    bad.read_all()
    with pytest.raises(RemoteProtocolError):
        bad.decoder.buffer_updated(0)
    assert len(bad.frames) == 1
    assert everybody.bytes == 0


@given(
    st.lists(st.lists(st.integers(0, 40_000), min_size=1, max_size=4), min_size=1, max_size=8),
    st.integers(1, 60_000),
    st.integers(0, 2**32),
)
def test_in_any_order_every_stream_is_the_frames_that_were_sent(
    streams: list[list[int]], limit: int, seed: int
) -> None:
    chance = random.Random(seed)
    everybody = PartialFrames(limit)
    peers = [Peer(everybody, b"".join(frame(size, number) for number, size in enumerate(sizes))) for sizes in streams]
    while waiting := [peer for peer in peers if peer.stream]:
        reading = [peer for peer in waiting if peer.reads]
        assert reading, "everybody waits for everybody"
        peer = chance.choice(reading)
        peer.receive(chance.choice([1, 5, 100, 10_000, SHARED_BUFFER_BYTES]))
        if chance.random() < 0.02:
            peer.end()
            peer.frames = []
    for sizes, peer in zip(streams, peers, strict=True):
        if peer.frames:
            assert [(raw.header[1], len(raw.body)) for raw in peer.frames] == list(enumerate(sizes))
    assert everybody.bytes == everybody.waiting == 0


class HeldPeer(Peer):
    """One whose frames are handled one at a time, and which may be held: what has come waits as bytes, or as a frame put back."""

    held = False

    def room_found(self) -> None:
        super().room_found()
        self.decoder.keep()

    @property
    def reads(self) -> bool:
        return not (self.held or self.decoder.stalled or self.decoder.waiting)

    def handle(self, most: int) -> None:
        """Handle so many frames; the next one may have been looked at already, and is put back."""
        while not self.held and (raw := self.decoder.next_frame()) is not None:
            if not most:
                self.decoder.put_back(raw)
                break
            self.frames.append(raw)
            most -= 1
        self.decoder.handled()
        self.decoder.keep()

    @property
    def kept(self) -> int:
        """Bytes that its decoder really keeps, or may."""
        decoder = self.decoder
        held, partial = decoder._held, decoder._partial
        size = 0
        if held is not None:
            size += len(held.body) + HEADER_OBJECT_BYTES * len(msgpack.packb(held.header))
        if decoder._kept and decoder._start < decoder._end:
            size += len(decoder._view)
        if partial is not None:
            size += len(partial) if isinstance(partial, bytearray) else decoder._granted
        return size

    def take(self, most: int, handled: int) -> None:
        """One receive, which may come though it should not."""
        buffer = self.decoder.get_buffer()
        taken = min(len(buffer), len(self.stream), most)
        buffer[:taken] = self.stream[:taken]
        self.stream = self.stream[taken:]
        self.bytes_in += taken
        self.decoder.received(taken)
        self.handle(handled)


@given(
    st.lists(
        st.lists(st.sampled_from([0, 3, 100, 5_000, 70_000, 150_000, 300_000]), min_size=1, max_size=4),
        min_size=2,
        max_size=8,
    ),
    st.sampled_from([1, 60_000, 200_000, 500_000]),
    st.integers(0, 2**32),
)
def test_in_any_order_every_stream_is_what_was_sent_though_peers_are_held_and_handled_bit_by_bit(
    streams: list[list[int]], limit: int, seed: int
) -> None:
    chance = random.Random(seed)
    everybody = PartialFrames(limit)
    peers = [
        HeldPeer(everybody, b"".join(frame(size, number) for number, size in enumerate(sizes))) for sizes in streams
    ]
    surprises = chance.random() < 0.3  # a receive that comes though it should not
    while unfinished := [peer for peer in peers if peer.stream or peer.decoder.waiting]:
        able = [peer for peer in unfinished if peer.held or peer.decoder.waiting or peer.reads]
        assert able, "everybody waits for everybody"
        peer = chance.choice(able)
        peer.held = chance.random() < 0.2
        if peer.decoder.waiting:
            if surprises and peer.stream and chance.random() < 0.05:
                peer.take(chance.choice([1, 7, 70_000]), 0)
            peer.handle(chance.randint(1, 3))
        elif peer.reads:
            peer.take(chance.choice([1, 100, 10_000, SHARED_BUFFER_BYTES]), chance.choice([0, 1, 99]))
        rooms = [each.room for each in peers]
        assert everybody.bytes == sum(room.bytes for room in rooms)
        assert everybody._small == sum(room.small for room in rooms)
        assert everybody._complete == sum(room.complete for room in rooms)
        assert set(everybody._small_line) <= set(everybody.line)
        if not surprises:
            assert [room.bytes for room in rooms] == [each.kept for each in peers]
            assert set(everybody.line) == {each.room for each in peers if each.decoder.stalled}
            assert everybody._in_turn <= {each.room for each in peers if each.decoder.mid_event}
    for sizes, peer in zip(streams, peers, strict=True):
        assert [(raw.header[1], len(raw.body)) for raw in peer.frames] == list(enumerate(sizes))
    assert everybody.bytes == everybody.waiting == 0


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


@pytest.mark.parametrize(
    ("memory", "limit"),
    [(2**28, LEAST_PARTIAL_BYTES), (2**29, 2**26), (2**31, MOST_PARTIAL_BYTES), (2**40, MOST_PARTIAL_BYTES)],
)
def test_the_limit_follows_from_the_memory_there_is(memory: int, limit: int) -> None:
    assert partial_bytes_limit(memory) == limit


def test_what_many_have_received_and_not_looked_at_is_scarce_memory_too() -> None:
    everybody = PartialFrames(4 * SHARED_BUFFER_BYTES)
    rooms = [PartialRoom(everybody, Peer(everybody, b"")) for _ in range(6)]
    decoders = [FrameDecoder(MAX_FRAME_BYTES, room) for room in rooms]
    received = []
    for decoder in decoders:
        buffer = decoder.get_buffer()
        received.append(len(buffer))
        decoder.received(len(buffer))
        decoder.keep()
    assert received == [SHARED_BUFFER_BYTES] * 5 + [SCARCE_BYTES]
    for decoder in decoders[:2]:
        decoder.close()
    assert len(decoders[0].get_buffer()) == SHARED_BUFFER_BYTES
    assert len(FrameDecoder(MAX_FRAME_BYTES, rooms[0]).get_buffer()) == SHARED_BUFFER_BYTES
