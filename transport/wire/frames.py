"""Framing without I/O: bytes in, frames out. docs/protocol.md, section "Frames", is the specification.

A connection's shell asks the decoder for a buffer, receives into it and reports how much came (the shape of
``asyncio.BufferedProtocol``). Between frames every connection of a thread receives into one shared buffer; a frame that is
only partly there moves to memory of its own, which grows with what has really arrived, never with what was announced.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgpack

from transport.errors import FrameTooLargeError, LocalProtocolError, RemoteProtocolError
from transport.wire.receiving import AMPLE, Part, Receiver, Room, shared_view

HANDSHAKE_FRAME_BYTES = 4 * 1024
"""Largest frame before HELLO is answered: a stranger gets no more of our memory than this."""
MAX_FRAME_BYTES = 16 * 1024 * 1024
"""Largest frame after that, of a peer whose role sends batches: bounds what one connection makes us hold, and one message's size."""
MAX_HEADER_BYTES = 4 * 1024
"""Headers describe; what is large goes into the body."""
CONTROL_FRAME_BYTES = 8 * 1024
"""Largest frame of a peer whose role sends no bodies: twice the largest header."""
MAX_BODY_BYTES = MAX_FRAME_BYTES - MAX_HEADER_BYTES - 64
"""Bytes of a batch's columns that fit a frame whatever its header: what was sent must also fit the frame that delivers it."""
HEADER_OBJECT_BYTES = 96
"""What a header takes in memory for each of its bytes, at most: an empty array is one byte, and a map in a map two."""
LITTLE_HEADER_BYTES = 1024
"""A body keeps a header in memory that is no longer than this, or than itself, where both came alone: what a queue counts for a batch
covers it."""
MAX_HEADER_ITEMS = 1024
"""Elements of one array or map in a header."""
MIN_FRAME_BYTES = 7
"""Length, header length and the one byte of an empty array."""
PREFIX_BYTES = 6
MOST_RECEIVED_BYTES = 512 * 1024
"""One receive within a frame takes at most this, straight to where it stays: fewer receives are fewer turns of the loop."""
FIRST_PARTIAL_BYTES = 64 * 1024
"""First size of an unfinished frame's own buffer; it doubles as bytes arrive."""
MAPPED_BYTES = 2 * 1024 * 1024
"""From this size on an unfinished frame has a mapping of its whole length, of which the system gives a page when it is written to. Growing
costs nothing then: a buffer that is made anew, zeroed and copied held the loop for six milliseconds where many sent large frames. Below it
buffers are quicker: their memory is used again, and a page costs more than its copy."""
SCARCE_BYTES = 4 * 1024
"""What is received at a time where memory for unfinished frames is scarce: enough to know what has begun."""

PREFIX = struct.Struct(">IH")
"""A frame's length and its header's."""
_NOTHING = memoryview(b"")


class RawFrame(NamedTuple):
    """One complete frame: its header's array (type first) and its body, which owns its memory."""

    header: list[Any]
    body: memoryview


@dataclass(eq=False, repr=False, slots=True)
class FrameDecoder(Receiver):
    """Cuts a TCP stream into frames, whatever way it was fragmented; each only when it is asked for.

    Attributes:
        max_frame_bytes: the limit in force; raised by the shell once HELLO is answered.
        error: what ended the stream behind frames that were still good.
    """

    max_frame_bytes: int = HANDSHAKE_FRAME_BYTES
    _room: Room = AMPLE
    error: RemoteProtocolError | None = None
    _line: Collection[object] = field(init=False)
    _partial: bytearray | mmap.mmap | None = None
    # Of the unfinished frame's memory: what has arrived, and what may.
    _filled: int = 0
    _granted: int = 0
    _target: memoryview = _NOTHING
    _view: memoryview = _NOTHING
    # What of the view was not looked at, and whether the view is memory of this connection alone.
    _start: int = 0
    _end: int = 0
    _kept: bool = False
    # A frame that was given and put back; and whether what was given last is still counted.
    _held: RawFrame | None = None
    _lent: bool = False
    # Of the frame that was given last.
    _header_bytes: int = 0

    def __post_init__(self) -> None:
        self._line = self._room.line

    def keep_in(self, room: Room) -> None:
        """Count what is kept in ``room``."""
        self._room = room
        self._line = room.line

    @property
    def mid_event(self) -> bool:
        """Whether a frame has begun and is not complete."""
        return self._partial is not None

    @property
    def begun(self) -> int:
        """Bytes that have come of a frame that is not complete; 0 between frames."""
        return 0 if self._partial is None else self._filled

    @property
    def waiting(self) -> bool:
        """Whether there are bytes that were received and not looked at, or a frame put back: `next_frame` may have something."""
        return self._held is not None or self._start < self._end

    def get_buffer(self) -> memoryview:
        """Where the next bytes go; valid until they are reported, which must follow on the same thread at once."""
        if self._partial is None or self.error is not None or self.stalled:
            self._target = shared_view()[:SCARCE_BYTES] if self._line else shared_view()
        else:
            end = min(self._granted, self._filled + MOST_RECEIVED_BYTES)
            self._target = memoryview(self._partial)[self._filled : end]
        return self._target

    def received(self, nbytes: int) -> None:
        """Take the ``nbytes`` just received. `next_frame` has what they complete; what waits for later must be kept by `keep`.

        Raises:
            RemoteProtocolError: the frame that has begun is over a limit, or the stream had ended with an error before.
        """
        if self.error is not None:
            raise self.error
        self.idle = False
        if self._start < self._end or self.stalled:
            # The shell has been asked to receive no more, and one more receive was under way.
            if self._partial is not None:
                self._view, self._start, self._end = memoryview(self._partial), 0, self._filled
                self._partial, self.stalled = None, False
            self._keep(bytes(self._view[self._start : self._end]) + bytes(self._target[:nbytes]))
        elif self._partial is None:
            self._view, self._start, self._end, self._kept = self._target, 0, nbytes, False
        else:
            # Not kept by this: a connection that says no more would hold the memory of a frame that is long handled.
            self._target = _NOTHING
            self._filled += nbytes
            self._grow_partial(self._partial)

    def next_frame(self) -> RawFrame | None:
        """The next frame that is complete, in order; None when there is none.

        Raises:
            RemoteProtocolError: bytes that are no frame, or one over a limit. The stream cannot be read on.
        """
        held = self._held
        if held is not None:
            self._held = None
            self._lent = True
            return held
        if self._lent:
            self.handled()
        view, start, end = self._view, self._start, self._end
        if start >= end:
            return None
        try:
            if end - start >= PREFIX_BYTES:
                length, header_length = PREFIX.unpack_from(view, start)
                body_at = start + PREFIX_BYTES + header_length
                if (
                    not MIN_FRAME_BYTES <= length <= self.max_frame_bytes
                    or header_length > MAX_HEADER_BYTES
                    or body_at - start > length
                ):
                    raise self._wrong_prefix(view, start)
                if end - start >= length:
                    header = _unpack_header(bytes(view[body_at - header_length : body_at]))
                    body = view[body_at : start + length]
                    # A frame that came in pieces has its memory to itself; another is copied out of what it shares.
                    alone = self._kept and length == len(view) and header_length <= max(LITTLE_HEADER_BYTES, len(body))
                    body = body.toreadonly() if alone else memoryview(bytes(body))
                    self._start = start + length
                    self._header_bytes = header_length
                    if self._start == end:
                        self._view = _NOTHING
                        self._lent = self._kept
                        self.idle = not self._kept
                    return RawFrame(header, body)
            self._begin_partial(view[start:end])
        except RemoteProtocolError as error:
            self.error = error
            self.drop()
            raise
        self._start = self._end = 0
        self._view = _NOTHING
        return None

    def keep(self) -> None:
        """Have what waits outlive this receive: the shared buffer is reused at once."""
        if self._start < self._end and not self._kept:
            self._keep(bytes(self._view[self._start : self._end]))

    def put_back(self, raw: RawFrame) -> None:
        """``raw``, the last that was given, is to be given again later: until then its memory counts, beside what is behind it."""
        self._held = raw
        self._lent = self.idle = False
        self._count()

    def handled(self) -> None:
        """All that was given is handled: what it took counts no more."""
        if self._lent:
            self._lent = False
            self.idle = self._partial is None and self._start >= self._end
            self._count()

    def go_on(self) -> None:
        """There is room for the frame that has begun, or more of it."""
        partial = self._partial
        if self.stalled and partial is not None:
            self._begin_partial(memoryview(partial)[: self._filled])

    def drop(self) -> None:
        """Let go of what was received: nothing more will be read of this stream."""
        self._partial = None
        self._start = self._end = 0
        self._held = None
        self._lent = False
        self._view = self._target = _NOTHING
        self.stalled = False
        self.idle = True
        self._room.leave()

    def close(self) -> None:
        """The stream is over: nothing is kept, and nobody is told of anything."""
        self.drop()
        self.error = None
        self._room = AMPLE
        self._line = AMPLE.line

    def _keep(self, rest: bytes) -> None:
        self._view, self._start, self._end, self._kept = memoryview(rest), 0, len(rest), True
        self._count()

    def _count(self) -> None:
        """Tell the room what is kept of complete frames, and of what was not looked at."""
        held = 0 if self._held is None else len(self._held.body) + self._header_bytes * HEADER_OBJECT_BYTES
        # All of what is kept stays in memory until the last of it was looked at.
        behind = len(self._view) if self._kept and self._start < self._end else 0
        if behind:
            self._room.keep(held + behind)
        elif held:
            self._room.hold(held)
        else:
            self._room.leave()

    def _begin_partial(self, received: memoryview) -> None:
        """Give the frame that begins with ``received`` room for twice that, within its length where that is known."""
        self._filled = len(received)
        length = size = PREFIX_BYTES
        if self._filled >= PREFIX_BYTES:
            length, _ = self._prefix(received)
            size = min(length, max(FIRST_PARTIAL_BYTES, 2 * self._filled))
        self.stalled = not self._room.take(size, length)
        if self.stalled:
            # What has come is kept, and no more is to come.
            size = self._filled
            self._room.keep(size)
        self._granted = size
        if not isinstance(self._partial, mmap.mmap):
            self._partial = _mapping(length) if size >= MAPPED_BYTES else bytearray(size)
            self._partial[: self._filled] = received

    def _grow_partial(self, partial: bytearray | mmap.mmap) -> None:
        """More has arrived of the frame that has begun: give it more room, or have it ready where it is complete."""
        if self._filled < self._granted:
            return
        received = memoryview(partial)[: self._filled]
        try:
            length, _ = self._prefix(received)
        except RemoteProtocolError as error:
            self.error = error
            self.drop()
            raise
        if self._filled < length:
            # More of a mapping, or a new buffer, not a resized one: the event loop still holds the view that it received into.
            self._begin_partial(received)
            return
        self._partial = None
        self._view, self._start, self._end, self._kept = received, 0, length, True

    def _prefix(self, view: memoryview) -> tuple[int, int]:
        length, header_length = PREFIX.unpack_from(view)
        if (
            not MIN_FRAME_BYTES <= length <= self.max_frame_bytes
            or header_length > MAX_HEADER_BYTES
            or PREFIX_BYTES + header_length > length
        ):
            raise self._wrong_prefix(view, 0)
        return length, header_length

    def _wrong_prefix(self, view: memoryview, start: int) -> RemoteProtocolError:
        """The error for a prefix that begins no frame."""
        length, header_length = PREFIX.unpack_from(view, start)
        if length > self.max_frame_bytes:
            return _too_large(bytes(view[start : start + PREFIX_BYTES]), length, self.max_frame_bytes)
        if length < MIN_FRAME_BYTES:
            return RemoteProtocolError(f"a frame of {length} bytes is shorter than the shortest of {MIN_FRAME_BYTES}")
        if header_length > MAX_HEADER_BYTES:
            return RemoteProtocolError(f"a header of {header_length} bytes exceeds {MAX_HEADER_BYTES}")
        return RemoteProtocolError(f"a header of {header_length} bytes does not fit its frame of {length}")


def _mapping(size: int) -> mmap.mmap | bytearray:
    """Memory of ``size`` bytes that takes a page when it is written to; all of it at once where the system maps no more."""
    try:
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:
        return bytearray(size)


def _too_large(prefix: bytes, length: int, limit: int) -> RemoteProtocolError:
    """The error for a length over the limit, which is often the beginning of another protocol."""
    if what := next((what for beginnings, what in _STRANGERS.items() if prefix.startswith(beginnings)), None):
        return RemoteProtocolError(f"this is no frame but {what}")
    return FrameTooLargeError(length, limit, _SMALLER.get(limit, "send smaller batches"))


_STRANGERS: dict[tuple[bytes, ...], str] = {
    (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PATC", b"CONN", b"TRAC", b"PRI "): (
        "an HTTP request: this address speaks the Penstock protocol, so use one of its clients (docs/protocol.md)"
    ),
    (b"HTTP",): "an HTTP server's answer: the address is not a broker's",
    (
        b"\x16\x03",
    ): "the hello of TLS, and this address is without it: connect without TLS, or give the broker a certificate",
    (b"\x15\x03",): "an alert of TLS: this address speaks it, so this side must as well",
    (b"SSH-",): "the hello of SSH: the address and the program do not belong together",
}
"""Who connects to the wrong address: how other protocols begin, and what to do. As a frame's length each is far over any limit."""
_SMALLER = {
    HANDSHAKE_FRAME_BYTES: "the first frame is HELLO, and it is small",
    CONTROL_FRAME_BYTES: "in this role frames have a header only",
}


def encode_frame(header: list[Any], body: Iterable[Part] = ()) -> list[Part]:
    """The buffers of one frame, to be written one after another; the body's, views of bytes, are passed on uncopied.

    None is empty: there are event loops that never finish writing an empty one.

    Raises:
        LocalProtocolError: a header over ``MAX_HEADER_BYTES``, a frame over ``MAX_FRAME_BYTES``, or a number over 64 bits.
    """
    try:
        packed = msgpack.packb(header)
    except OverflowError as error:
        raise LocalProtocolError("a number of more than 64 bits fits no frame; give a smaller one") from error
    if len(packed) > MAX_HEADER_BYTES:
        raise LocalProtocolError(f"a header of {len(packed)} bytes exceeds {MAX_HEADER_BYTES}")
    parts: list[Part] = [b""]
    length = PREFIX_BYTES + len(packed)
    for part in body:
        if size := len(part):
            parts.append(part)
            length += size
    if length > MAX_FRAME_BYTES:
        raise LocalProtocolError(f"a frame of {length} bytes exceeds {MAX_FRAME_BYTES}")
    parts[0] = PREFIX.pack(length, len(packed)) + packed
    return parts


def _unpack_header(packed: bytes) -> list[Any]:
    try:
        header = msgpack.unpackb(
            packed,
            max_array_len=MAX_HEADER_ITEMS,
            max_map_len=MAX_HEADER_ITEMS,
            max_ext_len=0,
            ext_hook=_no_extension,
            strict_map_key=True,
        )
    except (ValueError, msgpack.UnpackException) as error:
        raise RemoteProtocolError(
            f"a header that is not msgpack within its limits: {error or type(error).__name__}"
        ) from error
    if not isinstance(header, list) or not header:
        raise RemoteProtocolError(
            f"a header must be a msgpack array that begins with its type, not {type(header).__name__}"
        )
    return header


def _no_extension(code: int, _data: bytes) -> None:
    raise ValueError(f"extension type {code}")
