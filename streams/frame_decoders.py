"""Frames out of blocks of bytes, however those are cut: pure decoders, in time and memory that grow with the bytes and no faster.

Each has ``feed(block)``, which returns the frames that are whole with that block, and ``finish()``, which returns what is left as frames
or raises `TruncatedFrameError`. Of a block with a frame that cannot be read, those before it come first, as they would if the block had
been cut there. After a failure a decoder is of no use: nobody knows where the next frame begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from streams.errors import FrameTooLongError, FramingError, TruncatedFrameError

ByteOrder = Literal["big", "little"]
"""Which end of a length comes first."""


def _then_fail(frames: list[bytes], error: Exception) -> Iterable[bytes]:
    """``frames``, and then ``error``; raised at once if there are none."""
    if not frames:
        raise error
    return _failing(frames, error)


def _failing(frames: list[bytes], error: Exception) -> Iterator[bytes]:
    yield from frames
    raise error


def _up_to_too_long(frames: list[bytes], limit: int, too_long: Callable[[int], Exception]) -> Iterable[bytes]:
    """Those of ``frames`` before the first that is longer than ``limit``, and then the error of that."""
    first = next(at for at, frame in enumerate(frames) if len(frame) > limit)
    return _then_fail(frames[:first], too_long(len(frames[first])))


class ByteDelimiterDecoder:
    """Frames that end with one byte, a newline for example. One pass of ``split`` a block: the fastest there is in Python.

    Args:
        delimiter: the byte; frames come without it.
        limit: bytes in a frame at most.
        allow_truncation: at the end, what has no delimiter yet is a frame too.
        too_long: makes the error of a frame of so many bytes or more.
    """

    __slots__ = ("_allow_truncation", "_delimiter", "_held", "_held_bytes", "_limit", "_too_long")

    def __init__(
        self,
        delimiter: bytes,
        limit: int,
        *,
        allow_truncation: bool,
        too_long: Callable[[int], Exception] | None = None,
    ) -> None:
        self._delimiter = delimiter
        self._limit = limit
        self._allow_truncation = allow_truncation
        self._too_long = too_long or (lambda size: FrameTooLongError(size, limit))
        self._held: list[bytes] = []
        """The beginning of a frame whose end has not come, in pieces: joined once, so a long frame costs no more than its length."""
        self._held_bytes = 0

    def feed(self, block: bytes) -> Iterable[bytes]:
        """The frames that are whole with ``block``.

        Raises:
            FrameTooLongError: one is longer than the limit, whole or not; raised by the iterable where others are before it.
        """
        frames = block.split(self._delimiter)
        rest = frames.pop()
        if frames:
            self._held.append(frames[0])
            frames[0] = b"".join(self._held)
            self._held.clear()
            self._held_bytes = 0
            if len(max(frames, key=len)) > self._limit:
                return _up_to_too_long(frames, self._limit, self._too_long)
        if rest:
            self._held.append(rest)
            self._held_bytes += len(rest)
            if self._held_bytes > self._limit:
                return _then_fail(frames, self._too_long(self._held_bytes))
        return frames

    def finish(self) -> list[bytes]:
        """What is left as a frame, if it may be one.

        Raises:
            TruncatedFrameError: it may not.
        """
        if not self._held:
            return []
        frame = b"".join(self._held)
        self._held.clear()
        if not self._allow_truncation:
            raise TruncatedFrameError(len(frame), f"its delimiter {self._delimiter!r} is missing (allow_truncation)")
        return [frame]


class DelimiterDecoder:
    """Frames that end with a sequence of bytes, which may itself come in pieces.

    Args:
        delimiter: the sequence; frames come without it.
        limit: bytes in a frame at most.
        allow_truncation: at the end, what has no delimiter yet is a frame too.
    """

    __slots__ = ("_allow_truncation", "_delimiter", "_held", "_limit")

    def __init__(self, delimiter: bytes, limit: int, *, allow_truncation: bool) -> None:
        self._delimiter = delimiter
        self._limit = limit
        self._allow_truncation = allow_truncation
        self._held = bytearray()
        """What has no delimiter in it, but may end with the beginning of one."""

    def feed(self, block: bytes) -> Iterable[bytes]:
        """The frames that are whole with ``block``.

        Raises:
            FrameTooLongError: one is longer than the limit, whole or not; raised by the iterable where others are before it.
        """
        held, delimiter = self._held, self._delimiter
        # What was looked through before is not looked through again, but for what may be the beginning of a delimiter.
        unseen = max(0, len(held) - len(delimiter) + 1)
        held += block
        frames: list[bytes] = []
        if held.find(delimiter, unseen) >= 0:
            frames = bytes(held).split(delimiter)
            self._held = bytearray(frames.pop())
            if len(max(frames, key=len)) > self._limit:
                return _up_to_too_long(frames, self._limit, self._too_long)
        # All but the beginning of a delimiter is certain to belong to the frame.
        if (certain := len(self._held) - len(delimiter) + 1) > self._limit:
            return _then_fail(frames, self._too_long(certain))
        return frames

    def _too_long(self, size: int) -> FrameTooLongError:
        return FrameTooLongError(size, self._limit)

    def finish(self) -> list[bytes]:
        """What is left as a frame, if it may be one.

        Raises:
            TruncatedFrameError: it may not.
            FrameTooLongError: it is longer than the limit.
        """
        frame, self._held = bytes(self._held), bytearray()
        if not frame:
            return []
        if not self._allow_truncation:
            raise TruncatedFrameError(len(frame), f"its delimiter {self._delimiter!r} is missing (allow_truncation)")
        if len(frame) > self._limit:
            raise self._too_long(len(frame))
        return [frame]


class LengthFieldDecoder:
    """Frames that say in a field of their header how long they are.

    Args:
        field_length: bytes of the field.
        field_offset: bytes of the header before it.
        limit: bytes in a frame at most, its header included.
        byte_order: of the field, which is unsigned.
        compute_frame_size: gives the size of the whole frame for the header's bytes before the field and the field's value;
            without it, the value counts the bytes behind the field.
        keep_header: frames come with their header.
    """

    __slots__ = (
        "_byte_order",
        "_compute_frame_size",
        "_field_offset",
        "_held",
        "_keep_header",
        "_limit",
        "_minimum",
        "_size",
    )

    def __init__(
        self,
        field_length: int,
        field_offset: int,
        limit: int,
        byte_order: ByteOrder,
        compute_frame_size: Callable[[bytes, int], int] | None,
        *,
        keep_header: bool,
    ) -> None:
        self._field_offset = field_offset
        self._minimum = field_offset + field_length
        """The header up to the end of the field; no frame is shorter."""
        self._limit = limit
        self._byte_order: ByteOrder = byte_order
        self._compute_frame_size = compute_frame_size
        self._keep_header = keep_header
        self._held = bytearray()
        self._size = 0
        """The size of the frame that begins ``_held``; 0 until its header is whole."""

    def feed(self, block: bytes) -> Iterable[bytes]:
        """The frames that are whole with ``block``.

        Raises:
            FrameTooLongError: one says that it is longer than the limit; raised by the iterable where others are before it.
            FramingError: one says that it is shorter than its header; raised likewise.
        """
        self._held += block
        frames: list[bytes] = []
        begin = 0
        skipped = 0 if self._keep_header else self._minimum
        with memoryview(self._held) as view:
            while True:
                if not self._size and len(view) - begin >= self._minimum:
                    try:
                        self._size = self._size_of(view[begin : begin + self._minimum])
                    except Exception as error:  # noqa: BLE001 - of the user's function, too
                        return _then_fail(frames, error)
                if not self._size or len(view) - begin < self._size:
                    break
                frames.append(bytes(view[begin + skipped : begin + self._size]))
                begin += self._size
                self._size = 0
        del self._held[:begin]
        return frames

    def finish(self) -> list[bytes]:
        """Nothing: a frame that is not whole is none.

        Raises:
            TruncatedFrameError: the beginning of a frame is left.
        """
        if self._held:
            wanted = self._size or self._minimum
            what = "in the frame" if self._size else "in the header"
            raise TruncatedFrameError(len(self._held), f"{wanted} bytes were expected {what}")
        return []

    def _size_of(self, header: memoryview) -> int:
        with header:
            value = int.from_bytes(header[self._field_offset :], self._byte_order)
            if self._compute_frame_size is None:
                size = self._minimum + value
            else:
                size = self._compute_frame_size(bytes(header[: self._field_offset]), value)
        if size < self._minimum:
            raise FramingError(
                f"a frame's size is given as {size} bytes, which is less than its header's {self._minimum}"
            )
        if size > self._limit:
            raise FrameTooLongError(size, self._limit)
        return size
