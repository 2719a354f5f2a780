"""The frames of a link between two nodes: cut, numbered, checked, and joined to messages again.

A frame has a header of 16 bytes, then its body::

    crc      u32  CRC-32C of the 12 bytes behind it and the body, begun with the direction's seed (`hello.py`)
    number   u32  counts the frames of this direction of this connection, from 0
    length   u32  bytes of the body, FRAME_BYTES at most
    lane     u8   0 PROMPT, 1 BULK, 2 TRANSFER
    flags    u8   bit 0 FIRST, bit 1 LAST of its message
    kind     u8   of the message (`link_codec.py`)
    reserved u8   0

A message that is larger than a frame is split. Its FIRST frame begins with the length of the whole message, u64. Frames of different lanes
may stand between those of a message, so a sign of life never waits for a large record. On one lane messages keep their order.

So whatever is flipped, lost, doubled or moved on the way is found: the checksum covers the number, and the seed is another one for each
connection. That is against damage, not against an attacker who writes into the connection; against that there is TLS.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from crc32c import crc32c

from transport.errors import RemoteProtocolError

Buffer: TypeAlias = bytes | bytearray | memoryview

FRAME_BYTES: Final = 64 * 1024
"""Of a body, at most: what a sign of life may have to wait for."""
MAX_PAYLOAD_BYTES: Final = 1 << 30
"""Of one record: what a journal's record can have."""
MAX_MESSAGE_BYTES: Final = MAX_PAYLOAD_BYTES + FRAME_BYTES
"""Of one message: its head and table fit into one frame, and a record that is the largest there is goes alone."""
RECEIVE_BYTES: Final = 256 * 1024
"""Of the buffer that a connection is received into: one frame at least."""
JOINED_BYTES: Final = 2 * 1024 * 1024
"""A message of so many bytes is joined to one piece as its frames come: what a leader ships at a time from memory. A larger one stays in
pieces."""
SMALL_BYTES: Final = 4_096
"""A message of so few bytes goes in one buffer with its frame's header."""
HOLD_INTERPRETER: Final = 0
"""Given to crc32c: of a frame it takes microseconds, to get the interpreter back from a busy thread can take milliseconds."""

PROMPT: Final = 0
"""Messages of one frame."""
BULK: Final = 1
"""Messages with records of the log."""
TRANSFER: Final = 2
"""Pieces of transfers: they go when nothing else waits."""
LANES: Final = 3

FIRST: Final = 1
LAST: Final = 2
WHOLE: Final = FIRST | LAST

_HEADER: Final = struct.Struct("<IIIBBBB")
_CHECKED: Final = struct.Struct("<IIBBBB")
_CRC: Final = struct.Struct("<I")
_TOTAL: Final = struct.Struct("<Q")
HEADER_BYTES: Final = _HEADER.size
NUMBERS: Final = 1 << 32


class FrameDamagedError(RemoteProtocolError):
    """What came is not what a peer of this protocol has sent; the text says what is wrong."""


class Whole(NamedTuple):
    """A message that has come whole.

    Attributes:
        kind: what message it is.
        lane: on which it came.
        pieces: its body. On the lane PROMPT one view, which is valid only until more is received; else memory of its own, in one piece
            unless it has more than ``JOINED_BYTES``.
    """

    kind: int
    lane: int
    pieces: Sequence[Buffer]


def frames_of(size: int) -> int:
    """How many frames a message of so many bytes has."""
    return 1 if size <= FRAME_BYTES else -(-(size + _TOTAL.size) // FRAME_BYTES)


class FrameWriter:
    """Cuts the messages of one direction of a connection to frames."""

    __slots__ = ("_number", "_seed")

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._number = 0

    def whole(self, lane: int, kind: int, parts: Sequence[Buffer], size: int) -> list[Buffer]:
        """The one frame of a message of ``size`` bytes, ``FRAME_BYTES`` at most."""
        number = self._number
        self._number = (number + 1) % NUMBERS
        checked = _CHECKED.pack(number, size, lane, WHOLE, kind, 0)
        if size <= SMALL_BYTES:
            # Buffers of their own cost more than the copy.
            checked = b"".join((checked, *parts))
            return [_CRC.pack(crc32c(checked, self._seed, HOLD_INTERPRETER)) + checked]
        crc = crc32c(checked, self._seed, HOLD_INTERPRETER)
        for part in parts:
            crc = crc32c(part, crc, HOLD_INTERPRETER)
        return [_CRC.pack(crc) + checked, *parts]

    def cut(self, lane: int, kind: int, parts: Sequence[Buffer], size: int) -> Iterator[list[Buffer]]:
        """The frames of a message, one after another; each gets its number when it is taken. Nothing of ``parts`` is copied."""
        if size <= FRAME_BYTES:
            yield self._frame(lane, WHOLE, kind, parts, size)
            return
        flags = FIRST
        taken: list[Buffer] = [_TOTAL.pack(size)]
        room = FRAME_BYTES - _TOTAL.size
        left = size
        for part in parts:
            view = memoryview(part)
            while view:
                piece = view[:room]
                view = view[room:]
                taken.append(piece)
                room -= len(piece)
                left -= len(piece)
                if not room or not left:
                    yield self._frame(lane, flags if left else flags | LAST, kind, taken, FRAME_BYTES - room)
                    flags, taken, room = 0, [], FRAME_BYTES

    def _frame(self, lane: int, flags: int, kind: int, parts: Sequence[Buffer], size: int) -> list[Buffer]:
        number = self._number
        self._number = (number + 1) % NUMBERS
        checked = _CHECKED.pack(number, size, lane, flags, kind, 0)
        crc = crc32c(checked, self._seed, HOLD_INTERPRETER)
        for part in parts:
            crc = crc32c(part, crc, HOLD_INTERPRETER)
        return [_CRC.pack(crc) + checked, *parts]


class FrameReader:
    """Takes what comes of one direction of a connection, and gives its messages.

    What it keeps: one buffer, and of each lane but PROMPT one message that has begun.
    """

    __slots__ = ("_buffer", "_end", "_joining", "_number", "_seed", "_start", "_view")

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._number = 0
        self._buffer = bytearray(RECEIVE_BYTES)
        self._view = memoryview(self._buffer)
        self._start = self._end = 0
        self._joining: list[_Joining | None] = [None] * LANES

    @property
    def mid_message(self) -> bool:
        """Whether a frame or a message has begun and is not whole."""
        return self._end > self._start or any(self._joining)

    def get_buffer(self) -> memoryview:
        """Where the next bytes go. What `next_message` gave on the lane PROMPT is no more."""
        start, end = self._start, self._end
        if start == end:
            self._start = self._end = end = 0
        elif start:
            # What is left is less than a frame, so there is room for the rest of it.
            self._view[: end - start] = self._view[start:end]
            self._start, self._end = 0, end - start
            end -= start
        return self._view[end:]

    def received(self, nbytes: int) -> None:
        """So many bytes have come, into what `get_buffer` gave; `next_message` is to be called until it gives None."""
        self._end += nbytes

    def feed(self, data: Buffer) -> Iterator[Whole]:
        """As of bytes that have come otherwise: all messages that are whole then."""
        view = memoryview(data)
        while view:
            room = self.get_buffer()
            taken = min(len(room), len(view))
            room[:taken] = view[:taken]
            self.received(taken)
            view = view[taken:]
            while (message := self.next_message()) is not None:
                yield message

    def next_message(self) -> Whole | None:
        """The next message that is whole, or None.

        Raises:
            FrameDamagedError: the stream is not what was sent; nothing more can be read of it.
        """
        while self._end - self._start >= HEADER_BYTES:
            start = self._start
            crc, number, length, lane, flags, kind, reserved = _HEADER.unpack_from(self._view, start)
            if length > FRAME_BYTES:
                raise FrameDamagedError(f"a frame of {length} bytes, and one has {FRAME_BYTES} at most")
            stop = start + HEADER_BYTES + length
            if stop > self._end:
                return None
            if crc32c(self._view[start + _CRC.size : stop], self._seed, HOLD_INTERPRETER) != crc:
                raise FrameDamagedError(f"the checksum of frame {self._number} does not hold")
            if number != self._number:
                raise FrameDamagedError(f"frame {number} came, where {self._number} is next")
            if lane >= LANES or flags > WHOLE or reserved:
                raise FrameDamagedError(f"a frame of lane {lane} and flags {flags}, which this version does not know")
            self._number = (number + 1) % NUMBERS
            self._start = stop
            body = self._view[start + HEADER_BYTES : stop]
            if lane == PROMPT:
                if flags != WHOLE:
                    raise FrameDamagedError(f"a part of a message of kind {kind}, which goes in one frame")
                return Whole(kind, lane, (body,))
            if flags == WHOLE and self._joining[lane] is None:
                return Whole(kind, lane, (bytes(body),))
            whole = self._join(lane, flags, kind, body)
            if whole is not None:
                return whole
        return None

    def _join(self, lane: int, flags: int, kind: int, body: memoryview) -> Whole | None:
        joining = self._joining[lane]
        if flags & FIRST:
            if joining is not None or flags & LAST:
                raise FrameDamagedError(f"a message begins on lane {lane}, where one is not whole")
            if len(body) <= _TOTAL.size:
                raise FrameDamagedError("a message in several frames begins with an empty one")
            (total,) = _TOTAL.unpack_from(body)
            if not FRAME_BYTES < total <= MAX_MESSAGE_BYTES:
                raise FrameDamagedError(f"a message of {total} bytes in several frames")
            joining = self._joining[lane] = _Joining(kind, total)
            body = body[_TOTAL.size :]
        elif joining is None or joining.kind != kind or not body:
            raise FrameDamagedError(f"a frame on lane {lane} goes on with what has not begun")
        left = joining.left - len(body)
        if left < 0 or (left == 0) != bool(flags & LAST):
            raise FrameDamagedError("a message has more or fewer bytes than it began with")
        joining.add(body)
        if left:
            return None
        self._joining[lane] = None
        return Whole(kind, lane, joining.pieces)


class _Joining:
    """A message that has begun, of ``total`` bytes; ``left`` of them have not come.

    What is small has its memory at once. What could be a gigabyte has only memory for what has come.
    """

    __slots__ = ("_room", "kind", "left", "pieces")

    def __init__(self, kind: int, total: int) -> None:
        self.kind = kind
        self.left = total
        self.pieces: list[Buffer] = []
        self._room: memoryview | None = None
        if total <= JOINED_BYTES:
            self._room = memoryview(bytearray(total))
            self.pieces.append(self._room)

    def add(self, body: memoryview) -> None:
        """More of it has come, and no more than is left."""
        if self._room is None:
            self.pieces.append(bytes(body))
        else:
            at = len(self._room) - self.left
            self._room[at : at + len(body)] = body
        self.left -= len(body)
