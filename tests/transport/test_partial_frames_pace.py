"""Frames that are not complete: who is asked for its pace, and who is ended for being too slow."""

from __future__ import annotations

import pytest

from tests.transport.partial_frames_peers import MIB, Peer, frame, kept
from transport.shell.partial_frames import (
    ALL_PROGRESS,
    IN_TURN,
    LEAST_PARTIAL_BYTES,
    LEAST_PROGRESS,
    LOOK_SECONDS,
    PartialFrames,
    PartialRoom,
)
from transport.wire.frames import (
    FIRST_PARTIAL_BYTES,
    MAX_FRAME_BYTES,
)
from transport.wire.receiving import SHARED_BUFFER_BYTES


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
