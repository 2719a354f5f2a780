"""What the payload of a record says of the items that it holds: of one stream (ITEMS), or of several in one instant (SEVERAL).

With ITEMS the payload begins with 16 bytes: stream u32, first u64, count u32. The record holds the items first <= n < first + count.

With SEVERAL it is::

    streams    u32  n, how many streams it holds items of
    other      u32  bytes of the caller's that are no stream's
    table           of n rows: stream u32, first u64, count u32, start u32, length u32
    other           so many bytes
    parts           what was appended for the streams

A row says of its stream which items the record holds, as ITEMS does, and where its part is: ``length`` bytes from ``start`` on, counted
from the first part. Streams ascend. Rows may name the same part: what several queues got alike stands there once. A part that is read is
what an ITEMS record of that stream alone would give. Nothing else in the record is read or kept for a stream; so the record is wanted
as long as any of its streams wants its items.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from journal.errors import FormatError, JournalUsageError
from journal.files import Buffer

ITEMS_PREFIX = struct.Struct("<IQI")
ITEMS_PREFIX_BYTES = ITEMS_PREFIX.size
_HEAD = struct.Struct("<II")
_ROW = struct.Struct("<IQIII")
_STREAM = struct.Struct("<I")


class Held(NamedTuple):
    """Items of one stream in a record of several: first <= n < first + items, which are part number ``part``."""

    stream: int
    first: int
    items: int
    part: int


class Part(NamedTuple):
    """The same as it is read back; ``payload`` is the stream's part."""

    stream: int
    first: int
    items: int
    payload: memoryview


class Packed(NamedTuple):
    """A payload of several streams: its rows by stream, the length of each row's part, and all of it in buffers of ``length`` bytes."""

    rows: list[Held]
    lengths: list[int]
    buffers: list[Buffer]
    length: int


def unpack_items_prefix(payload: Buffer) -> tuple[int, int, int]:
    """(stream, first, count) of an ITEMS record; raises FormatError for a payload that is too short for them or holds no item."""
    if len(payload) < ITEMS_PREFIX_BYTES:
        raise FormatError(f"an ITEMS record of {len(payload)} bytes, it begins with {ITEMS_PREFIX_BYTES}")
    stream, first, count = ITEMS_PREFIX.unpack_from(payload)
    if count < 1 or first + count > 1 << 64:
        raise FormatError(f"an ITEMS record of {count} items from {first} on")
    return stream, first, count


def pack_several(held: Iterable[Held], parts: Sequence[Sequence[Buffer]], other: bytes) -> Packed:
    """The payload of a SEVERAL record, without copying the parts.

    Raises:
        JournalUsageError: a stream that comes twice, or numbers that are out of range.
    """
    starts, sizes = [], []
    start = 0
    for part in parts:
        size = sum(memoryview(buffer).nbytes for buffer in part)
        starts.append(start)
        sizes.append(size)
        start += size
    rows = sorted(held)
    if any(before.stream == after.stream for before, after in pairwise(rows)):
        raise JournalUsageError("a record holds the items of a stream once")
    try:
        table = [_ROW.pack(stream, first, count, starts[part], sizes[part]) for stream, first, count, part in rows]
    except struct.error as error:
        raise JournalUsageError(f"a record of several streams that cannot be: {error}") from error
    head = b"".join((_HEAD.pack(len(rows), len(other)), *table, other))
    buffers = [head, *chain.from_iterable(parts)]
    return Packed(rows, [sizes[row.part] for row in rows], buffers, len(head) + start)


def unpack_several(payload: Buffer) -> tuple[list[Part], memoryview]:
    """The streams' parts of a SEVERAL record, and the caller's other bytes; raises FormatError for a payload that is none."""
    view = memoryview(payload).cast("B")
    streams, table, begin = _layout(view)
    parts: list[Part] = []
    before = -1
    for stream, first, items, start, length in _ROW.iter_unpack(view[_HEAD.size : table]):
        if stream <= before or items < 1 or first + items > 1 << 64 or begin + start + length > len(view):
            raise FormatError(f"a record of {streams} streams with {items} items of stream {stream} from {first} on")
        before = stream
        parts.append(Part(stream, first, items, view[begin + start : begin + start + length]))
    return parts, view[table:begin]


def part_of(payload: Buffer, stream: int) -> Part | None:
    """A stream's part of a SEVERAL record that was checked, None where it has none: one row is looked for, however many there are."""
    view = memoryview(payload).cast("B")
    streams, _, begin = _layout(view)
    row = bisect_left(range(streams), stream, key=lambda at: _STREAM.unpack_from(view, _HEAD.size + at * _ROW.size)[0])
    if row == streams:
        return None
    found, first, items, start, length = _ROW.unpack_from(view, _HEAD.size + row * _ROW.size)
    return Part(stream, first, items, view[begin + start : begin + start + length]) if found == stream else None


def holders_alike(payload: Buffer, stream: int) -> tuple[int, ...]:
    """The streams of a SEVERAL record that was checked whose part is the very part of ``stream``, which is among them; they ascend."""
    view = memoryview(payload).cast("B")
    _, table, _ = _layout(view)
    parts = [(held, (start, length)) for held, _, _, start, length in _ROW.iter_unpack(view[_HEAD.size : table])]
    own = dict(parts).get(stream)
    return tuple(held for held, part in parts if part == own)


def _layout(view: memoryview) -> tuple[int, int, int]:
    """How many streams a SEVERAL record has, where its table ends, and where its first part begins."""
    if len(view) < _HEAD.size:
        raise FormatError(f"a record of several streams of {len(view)} bytes, it begins with {_HEAD.size}")
    streams, other = _HEAD.unpack_from(view)
    table = _HEAD.size + streams * _ROW.size
    if table + other > len(view):
        raise FormatError(f"a record of {streams} streams and {other} other bytes that has {len(view)}")
    return streams, table, table + other
