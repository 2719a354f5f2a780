"""Flows that make frames of a stream of bytes, which comes in blocks that mean nothing: those of a socket, or of a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from streams.errors import FrameTooLongError
from streams.flow import Flow
from streams.frame_decoders import ByteDelimiterDecoder, ByteOrder, DelimiterDecoder, LengthFieldDecoder
from streams.operators.via import not_negative, positive
from streams.stages.framing import Decoder, FramingStage
from streams.stages.fused import FusedFlow

MAX_FIELD_BYTES: Final = 8
"""Bytes of a length field at most: 64 bits count more bytes than any memory has, and a wider number would take time to make."""


class Framing:
    """The kinds of frames: ended by a delimiter, or with their length in front. Each is a ``Flow[bytes, bytes]``."""

    @staticmethod
    def delimiter(
        delimiter: bytes, max_frame_bytes: int, *, allow_truncation: bool = False
    ) -> Flow[bytes, bytes, None]:
        """Frames that end with ``delimiter``, without it.

        Args:
            delimiter: the bytes between frames.
            max_frame_bytes: a longer frame fails the stream with `FrameTooLongError`. So much is held in memory, and a block.
            allow_truncation: the last frame may do without a delimiter; otherwise `TruncatedFrameError` fails the stream.
        """
        if not isinstance(delimiter, bytes):
            raise TypeError(f"Framing.delimiter: the delimiter must be bytes, not {type(delimiter).__name__}")
        if not delimiter:
            raise ValueError("Framing.delimiter: the delimiter must have a byte at least")
        positive("Framing.delimiter", "max_frame_bytes", max_frame_bytes)
        kind = ByteDelimiterDecoder if len(delimiter) == 1 else DelimiterDecoder
        return _framing(lambda: kind(delimiter, max_frame_bytes, allow_truncation=allow_truncation), "delimiter")

    @staticmethod
    def length_field(
        field_length: int,
        field_offset: int = 0,
        *,
        max_frame_bytes: int,
        byte_order: ByteOrder = "big",
        compute_frame_size: Callable[[bytes, int], int] | None = None,
        keep_header: bool = True,
    ) -> Flow[bytes, bytes, None]:
        """Frames that say in a field of their header how long they are.

        Args:
            field_length: bytes of that field, an unsigned number.
            field_offset: bytes of the header before it.
            max_frame_bytes: bytes in a frame at most, its header included; one that says that it is longer fails the stream with
                `FrameTooLongError` before it is held in memory.
            byte_order: of the field.
            compute_frame_size: gives the size of the whole frame, for the header's bytes before the field and the field's value.
                Without it, the value counts the bytes behind the field.
            keep_header: frames come with their header, all that is before the field's end; otherwise without it.
        """
        _check_field("Framing.length_field", field_length)
        not_negative("Framing.length_field", "field_offset", field_offset)
        _check_order(byte_order)
        if max_frame_bytes < field_offset + field_length:
            raise ValueError(
                f"Framing.length_field: max_frame_bytes must hold the header of {field_offset + field_length} bytes, "
                f"but is {max_frame_bytes}"
            )
        return _framing(
            lambda: LengthFieldDecoder(
                field_length, field_offset, max_frame_bytes, byte_order, compute_frame_size, keep_header=keep_header
            ),
            "length_field",
        )

    @staticmethod
    def encode_length_field(
        field_length: int, *, max_frame_bytes: int, byte_order: ByteOrder = "big"
    ) -> Flow[bytes, bytes, None]:
        """Puts the length of each element in front of it: what ``length_field(..., keep_header=False)`` takes apart.

        Args:
            field_length: bytes of the length.
            max_frame_bytes: bytes in a frame at most, the length included; a longer one fails the stream with `FrameTooLongError`.
            byte_order: of the length.
        """
        _check_field("Framing.encode_length_field", field_length)
        _check_order(byte_order)
        largest = min(max_frame_bytes, field_length + 256**field_length - 1)
        if largest < field_length:
            raise ValueError(
                f"Framing.encode_length_field: max_frame_bytes must hold the length of {field_length} bytes, "
                f"but is {max_frame_bytes}"
            )

        def encode(element: bytes) -> bytes:
            size = field_length + len(element)
            if size > largest:
                setting = "max_frame_bytes" if largest == max_frame_bytes else f"field_length={field_length}"
                raise FrameTooLongError(size, largest, setting)
            return len(element).to_bytes(field_length, byte_order) + element

        name = "encode_length_field"
        return Flow(FusedFlow("map", encode, name).attach_flow, name)


def _framing(decoder: Callable[[], Decoder], name: str) -> Flow[bytes, bytes, None]:
    return Flow.from_stage(lambda downstream, m: FramingStage(downstream, m, decoder(), name), name)


def _check_field(operator: str, field_length: int) -> None:
    if not 1 <= field_length <= MAX_FIELD_BYTES:
        raise ValueError(f"{operator}: field_length must be 1 to {MAX_FIELD_BYTES} bytes, not {field_length}")


def _check_order(byte_order: str) -> None:
    if byte_order not in ("big", "little"):
        raise ValueError(f"byte_order must be 'big' or 'little', not {byte_order!r}")
