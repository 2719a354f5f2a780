"""Peers whose frames arrive bit by bit, and what all of them keep."""

from __future__ import annotations

import struct

import msgpack

from tests.decoding import FrameDecoder
from transport.shell.partial_frames import (
    PartialFrames,
    PartialRoom,
)
from transport.wire.frames import (
    MAX_FRAME_BYTES,
    PREFIX_BYTES,
    RawFrame,
)
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
