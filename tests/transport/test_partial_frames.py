"""Frames that are not complete: what all connections keep together is bounded, and nobody waits for ever."""

from __future__ import annotations

import mmap
from dataclasses import fields

import pytest

from tests.decoding import FrameDecoder
from tests.transport.partial_frames_peers import MIB, Peer, frame, kept
from transport.shell.partial_frames import (
    ALL_PROGRESS,
    IN_TURN,
    LEAST_PARTIAL_BYTES,
    MOST_PARTIAL_BYTES,
    SMALL_SHARE,
    PartialFrames,
    PartialRoom,
    partial_bytes_limit,
)
from transport.wire.frames import (
    CONTROL_FRAME_BYTES,
    FIRST_PARTIAL_BYTES,
    MAPPED_BYTES,
    MAX_FRAME_BYTES,
    MAX_HEADER_BYTES,
    MOST_RECEIVED_BYTES,
    PREFIX_BYTES,
    SCARCE_BYTES,
)
from transport.wire.messages import FRAMES
from transport.wire.protocol import FROM_BROKER, FROM_CLIENT, WITH_BODY, Protocol, Side, State
from transport.wire.receiving import SHARED_BUFFER_BYTES


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
