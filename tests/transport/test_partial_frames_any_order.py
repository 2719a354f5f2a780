"""Frames that are not complete: whatever the order in which peers send, wait and are held up, nothing is lost and all is given back."""

from __future__ import annotations

import random

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transport.partial_frames_peers import MIB, Peer, frame
from transport.errors import RemoteProtocolError
from transport.shell.partial_frames import (
    PartialFrames,
)
from transport.wire.frames import (
    HEADER_OBJECT_BYTES,
)
from transport.wire.receiving import SHARED_BUFFER_BYTES


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
            assert everybody._in_turn.keys() <= {each.room for each in peers if each.decoder.mid_event}
    for sizes, peer in zip(streams, peers, strict=True):
        assert [(raw.header[1], len(raw.body)) for raw in peer.frames] == list(enumerate(sizes))
    assert everybody.bytes == everybody.waiting == 0
