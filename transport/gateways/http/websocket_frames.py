"""Frames of WebSocket (RFC 6455) as bytes, without I/O: those of a client are taken apart where they were received.

What the native protocol is told of is a stream. So a message is never put together: what has come of its payload is unmasked and moved to
the beginning of the buffer it was received in, and goes on at once. Nothing is kept here but a frame's head, of 14 bytes at most, and what
a control frame says, of 125. That the stream's own frames have a bound is the native protocol's business.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""Of one message, in all its frames together: as much as a frame of the native protocol."""
MAX_CONTROL_BYTES: Final = 125
"""Of what a control frame says; RFC 6455, section 5.5."""

NORMAL, GOING_AWAY, PROTOCOL_ERROR, UNSUPPORTED, NONE_SAID = 1000, 1001, 1002, 1003, 1005
POLICY, TOO_LARGE, INTERNAL = 1008, 1009, 1011
"""Close codes; RFC 6455, section 7.4.1."""

_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_FINAL: Final = 0x80
_MASKED: Final = 0x80
_CONTROL: Final = 0x8
_RESERVED: Final = 0x70
_MASK_BYTES: Final = 4
_SHORT, _LONG = struct.Struct(">H"), struct.Struct(">Q")
_SHORT_LENGTH, _LONG_LENGTH = 126, 127
_CODES: Final = frozenset({*range(1000, 1004), *range(1007, 1015)})
"""Close codes below 3000 that a peer may say."""

Mask = Callable[[bytes, bytearray], None]


def mask_plainly(key: bytes, data: bytearray) -> None:
    """Mask ``data`` in place, or unmask it, in Python alone."""
    size = len(data)
    repeated = (key * (size // _MASK_BYTES + 1))[:size]
    data[:] = (int.from_bytes(data, "little") ^ int.from_bytes(repeated, "little")).to_bytes(size, "little")


def _mask() -> Mask:
    try:
        # Its own module of C; where a later aiohttp has it elsewhere, this goes on more slowly.
        from aiohttp._websocket.helpers import websocket_mask  # noqa: PLC0415
    except ImportError:
        return mask_plainly
    found: Any = websocket_mask
    return found  # type: ignore[no-any-return]  # it says nothing of its types


mask: Final = _mask()


class Violation(NamedTuple):
    """What a peer did that ends the connection.

    Attributes:
        code: the close code.
        text: what it was.
    """

    code: int
    text: str


class FrameReader:
    """Takes apart what a client sends.

    Attributes:
        frames: how many have begun so far.
        ping: what the last ping said that was not answered; None where there is none. An earlier one needs no answer of its own.
        closed: the code of the peer's close frame, once it has come; what is behind it counts no more.
        violation: what the peer did wrong. Its messages are left out from then on; a close frame is still looked for.
    """

    def __init__(self) -> None:
        self.frames = 0
        self.ping: bytes | None = None
        self.closed: int | None = None
        self.violation: Violation | None = None
        # Of the frame whose payload is coming: what is left of it, the mask as it goes on, and its opcode.
        self._left = 0
        self._key = b""
        self._opcode = _BINARY
        self._head = bytearray()
        self._said = bytearray()
        self._in_message = False
        self._message = 0
        # There is no telling any more where a frame begins.
        self._lost = False

    def unwrap(self, view: memoryview, nbytes: int) -> int:
        """Take apart the first ``nbytes`` of ``view``; returns how many bytes of payload stand at its beginning then."""
        at = kept = 0
        while at < nbytes:
            if self._lost or self.closed is not None:
                break
            if not self._left:
                at = self._read_head(view, at, nbytes)
                continue
            size = min(self._left, nbytes - at)
            if self._opcode & _CONTROL:
                self._said += self._unmasked(view[at : at + size])
            elif self.violation is None:
                view[kept : kept + size] = self._unmasked(view[at : at + size])
                kept += size
            at += size
            self._left -= size
            if self._left:
                turned = size % _MASK_BYTES
                self._key = self._key[turned:] + self._key[:turned]
            elif self._opcode & _CONTROL:
                self._heard()
        return kept

    def _unmasked(self, piece: memoryview) -> bytearray:
        data = bytearray(piece)
        mask(self._key, data)
        return data

    def _read_head(self, view: memoryview, at: int, end: int) -> int:
        """Read a frame's head, or as much of it as there is; returns where to go on."""
        head = self._head
        if not head and end - at > 1 and (stop := at + _head_size(view[at + 1])) <= end:
            self._begin(view[at:stop])
            return stop
        size = _head_size(head[1]) if len(head) > 1 else 2
        taken = min(size - len(head), end - at)
        head += view[at : at + taken]
        if len(head) > 1 and len(head) == _head_size(head[1]):
            begun, self._head = head, bytearray()
            self._begin(memoryview(begun))
        return at + taken

    def _begin(self, head: memoryview) -> None:
        """A frame's head is there."""
        self.frames += 1
        first, second = head[0], head[1]
        opcode = first & 0xF
        length = second & 0x7F
        if length == _SHORT_LENGTH:
            (length,) = _SHORT.unpack_from(head, 2)
        elif length == _LONG_LENGTH:
            (length,) = _LONG.unpack_from(head, 2)
        if wrong := self._wrong(first, second, opcode, length):
            self._lost = True
            self._violated(PROTOCOL_ERROR, wrong)
            return
        self._opcode, self._left, self._key = opcode, length, bytes(head[-_MASK_BYTES:])
        if opcode & _CONTROL:
            self._said.clear()
            if not length:
                self._heard()
            return
        if opcode == _TEXT:
            self._violated(UNSUPPORTED, "a text message: the native protocol is bytes, in binary messages")
        self._message = length + (self._message if opcode == _CONTINUATION else 0)
        self._in_message = not first & _FINAL
        if self._message > MAX_MESSAGE_BYTES:
            self._violated(TOO_LARGE, f"a message has at most {MAX_MESSAGE_BYTES} bytes: send the stream in pieces")

    def _wrong(self, first: int, second: int, opcode: int, length: int) -> str | None:
        """What is wrong with a head, if anything; RFC 6455, sections 5.1 to 5.5."""
        wrong = None
        if first & _RESERVED:
            wrong = "a frame with a reserved bit: no extension was agreed upon, and nothing is compressed here"
        elif not second & _MASKED:
            wrong = "a frame that is not masked: a client masks all of its frames"
        elif _BINARY < opcode < _CLOSE or opcode > _PONG:
            wrong = f"a frame of the unknown kind {opcode}"
        elif opcode & _CONTROL:
            if not first & _FINAL or length > MAX_CONTROL_BYTES:
                wrong = f"a control frame in pieces, or of more than {MAX_CONTROL_BYTES} bytes"
        elif (opcode == _CONTINUATION) is not self._in_message:
            wrong = "a message that begins within another" if self._in_message else "a rest of no message"
        return wrong

    def _heard(self) -> None:
        """A control frame is complete."""
        said = bytes(self._said)
        if self._opcode == _PING:
            self.ping = said
        elif self._opcode == _CLOSE:
            code = NONE_SAID if not said else _SHORT.unpack_from(said)[0] if len(said) > 1 else 0
            if not said or code in _CODES or 3000 <= code < 5000:
                self.closed = code
            else:
                self._lost = True
                self._violated(PROTOCOL_ERROR, f"a close frame with the code {code}")

    def _violated(self, code: int, text: str) -> None:
        self.violation = self.violation or Violation(code, text)


def _head_size(second: int) -> int:
    """Bytes of the head whose second byte this is."""
    length = second & 0x7F
    size = 2 + (_MASK_BYTES if second & _MASKED else 0)
    return size + (_SHORT.size if length == _SHORT_LENGTH else _LONG.size if length == _LONG_LENGTH else 0)


def binary_head(size: int) -> bytes:
    """The head of a message of so many bytes, as a server sends it: whole, and not masked."""
    if size < _SHORT_LENGTH:
        return bytes((_FINAL | _BINARY, size))
    if size < 1 << 16:
        return bytes((_FINAL | _BINARY, _SHORT_LENGTH)) + _SHORT.pack(size)
    return bytes((_FINAL | _BINARY, _LONG_LENGTH)) + _LONG.pack(size)


def pong(said: bytes) -> bytes:
    """The answer to a ping."""
    return bytes((_FINAL | _PONG, len(said))) + said


def close_frame(code: int, reason: str = "") -> bytes:
    """The last frame of a server, with a reason of ASCII that is cut to what fits."""
    if code == NONE_SAID:
        return bytes((_FINAL | _CLOSE, 0))
    said = _SHORT.pack(code) + reason.encode("ascii", "replace")[: MAX_CONTROL_BYTES - _SHORT.size]
    return bytes((_FINAL | _CLOSE, len(said))) + said
