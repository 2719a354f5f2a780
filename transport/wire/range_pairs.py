"""The ranges of an ACK, NACK or EXTEND as they stand on the wire."""

from __future__ import annotations

from transport.errors import RemoteProtocolError
from transport.wire.field_checks import MAX_INTEGER


def decode_ranges(flat: list[int]) -> list[tuple[int, int]]:
    """The pairs; one that goes on where the one before it ends is made one with it, as nothing else is kept for it."""
    if len(flat) == 2:
        # What most clients say most often.
        first, count = flat
        if count < 1 or first + count > MAX_INTEGER:
            raise _impossible()
        return [(first, count)]
    pairs: list[tuple[int, int]] = []
    start = end = -1
    for first, count in zip(flat[::2], flat[1::2], strict=True):
        if count < 1 or first + count > MAX_INTEGER:
            raise _impossible()
        if first == end:
            end += count
            pairs[-1] = (start, end - start)
        else:
            start, end = first, first + count
            pairs.append((first, count))
    return pairs


def _impossible() -> RemoteProtocolError:
    return RemoteProtocolError(f"a range that holds no message or ends beyond {MAX_INTEGER}")
