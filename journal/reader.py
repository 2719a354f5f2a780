"""Reading items back: from what is not written yet, or by one positioned read whose checksum is verified."""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap
from typing import NamedTuple, TypeAlias

from crc32c import crc32c

from journal.apart import ReadApart
from journal.catalog import Catalog, Place
from journal.durable import read_exactly
from journal.errors import FormatError, JournalDamagedError, UnknownItemError
from journal.files import Buffer, Files
from journal.format import (
    CHECKSUMMED_FROM,
    RECORD,
    RECORD_HEADER_BYTES,
    SEVERAL,
)
from journal.items import ITEMS_PREFIX, ITEMS_PREFIX_BYTES, holders_alike, part_of
from journal.segment import Segment

_PAYLOAD_FROM = RECORD_HEADER_BYTES + ITEMS_PREFIX_BYTES


RecordPlace: TypeAlias = "tuple[int, int]"
"""Where a record is: the number of its segment, which none other ever has, and the offset. A record that is copied is elsewhere."""


class Located(NamedTuple):
    """The record that holds an item: it has the items first <= n < stop; ``payload_bytes`` are those that `read` gives."""

    first: int
    stop: int
    payload_bytes: int


class StoredItems(NamedTuple):
    """A record with items; ``payload`` is what was appended for the stream that was asked for.

    ``alike`` are the streams, ascending, for which this very payload stands in the record: none of a record of one stream.
    """

    first: int
    stop: int
    kind: int
    lsn: int
    payload: memoryview
    place: RecordPlace
    alike: tuple[int, ...] = ()


def located(place: Place) -> Located:
    """What a place says without reading it."""
    rows, row = place.rows, place.row
    first = rows.firsts[row]
    return Located(first, first + rows.counts[row], rows.lengths[row] - ITEMS_PREFIX_BYTES)


def spans(catalog: Catalog, stream: int, start: int, stop: int) -> Iterator[Located]:
    """The records that hold items of start <= n < stop, ascending.

    Each is looked for when it is asked for, so segments may come and go between two of them.
    """
    while start < stop:
        place = catalog.find(stream, start)
        if place is None:
            return
        found = located(place)
        if found.first >= stop:
            return
        yield found
        start = found.stop


def read_apart(files: Files, catalog: Catalog, stream: int, sequence: int) -> ReadApart | None:
    """What reads the record of an item on another thread; None where it is not written yet, or there is none."""
    place = catalog.find(stream, sequence)
    if place is None or place.rows.firsts[place.row] > sequence:
        return None
    return None if place.rows.offsets[place.row] in place.segment.unwritten else ReadApart(files, place)


def taken_in(data: mmap, stream: int, first: int, stop: int) -> StoredItems | None:
    """The record that was read apart, of the items first <= n < stop; None where it holds others."""
    _, _, _, kind, flags, _, _, lsn = RECORD.unpack_from(data)
    view = memoryview(data)
    where = (-1, 0)  # it may be elsewhere by now
    try:
        if flags & SEVERAL:
            part = part_of(view[RECORD_HEADER_BYTES:], stream)
            if part is None or part[:3] != (stream, first, stop - first):
                return None
            return StoredItems(first, stop, kind, lsn, part.payload, where)
        if ITEMS_PREFIX.unpack_from(data, RECORD_HEADER_BYTES) != (stream, first, stop - first):
            return None
    except FormatError:
        return None
    return StoredItems(first, stop, kind, lsn, view[_PAYLOAD_FROM:], where)


def read_items(files: Files, catalog: Catalog, stream: int, sequence: int) -> StoredItems:
    """The record that holds an item.

    Raises:
        UnknownItemError: there is none.
        JournalDamagedError: it cannot be read, or is not what was written.
    """
    place = catalog.find(stream, sequence)
    if place is None or place.rows.firsts[place.row] > sequence:
        raise UnknownItemError(stream, sequence)
    segment, rows, row = place
    first, count = rows.firsts[row], rows.counts[row]
    offset, length = rows.offsets[row], rows.lengths[row]
    where = (segment.header.segment_id, offset)
    waiting = segment.unwritten.get(offset)
    if waiting is not None:
        _, _, lsn, kind, flags, _, _, _, _, parts = waiting
        payload = memoryview(parts[0] if len(parts) == 1 else b"".join(parts)).cast("B")
        alike: tuple[int, ...] = ()
        if flags & SEVERAL:
            payload, alike = _part(payload, (stream, first, count), segment, offset)
        return StoredItems(first, first + count, kind, lsn, payload, where, alike)
    data = _read_record(files, catalog, segment, offset, length)
    mark, crc, found_length, kind, flags, _, _, lsn = RECORD.unpack_from(data)
    if flags & SEVERAL and length < found_length <= segment.end - offset - RECORD_HEADER_BYTES:
        # The index says how long the stream's part is, and the record has others beside it: one checksum is over all of them.
        length = found_length
        data = _read_record(files, catalog, segment, offset, length)
    view = memoryview(data)
    if (
        mark != segment.header.mark
        or found_length != length
        or crc32c(view[CHECKSUMMED_FROM:], segment.salt_crc) != crc
        or (not flags & SEVERAL and ITEMS_PREFIX.unpack_from(data, RECORD_HEADER_BYTES) != (stream, first, count))
    ):
        raise _not_as_written(segment, offset)
    if flags & SEVERAL:
        payload, alike = _part(view[RECORD_HEADER_BYTES:], (stream, first, count), segment, offset)
        return StoredItems(first, first + count, kind, lsn, payload, where, alike)
    return StoredItems(first, first + count, kind, lsn, view[_PAYLOAD_FROM:], where)


def _read_record(files: Files, catalog: Catalog, segment: Segment, offset: int, length: int) -> bytes:
    """The header and ``length`` bytes of payload of the record at ``offset``, unchecked."""
    size = RECORD_HEADER_BYTES + length
    try:
        data = read_exactly(files, catalog.file(segment), size, offset)
    except OSError as error:
        raise JournalDamagedError(segment.path, offset, f"it cannot be read: {error}") from error
    if len(data) != size:
        raise JournalDamagedError(segment.path, offset, f"the file ends after {len(data)} bytes of the record")
    return data


def _part(
    payload: Buffer, items: tuple[int, int, int], segment: Segment, offset: int
) -> tuple[memoryview, tuple[int, ...]]:
    """What a record of several streams holds for one of them, and for which of them that stands there."""
    try:
        part = part_of(payload, items[0])
    except FormatError as error:
        raise JournalDamagedError(segment.path, offset, str(error)) from error
    if part is None or part[:3] != items:
        raise _not_as_written(segment, offset)
    return part.payload, holders_alike(payload, items[0])


def _not_as_written(segment: Segment, offset: int) -> JournalDamagedError:
    return JournalDamagedError(segment.path, offset, "the record is not what was written there")
