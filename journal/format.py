"""The journal's files, bit for bit. This docstring is the specification; what packs or unpacks is below, and in checkpoint_format.py.

All integers are little-endian; every checksum is CRC-32C (Castagnoli), reflected, as in iSCSI (RFC 3720, B.4). An *lsn* is the
number of a record, counted from 1 without a gap for as long as the directory lives. A *stream* is a numbered queue, whose *items*
are numbered too.

Directory::

    lock                                     held with flock(2) while a journal is open; empty
    checkpoint-<lsn, 20 digits>              the newest, and the one before it
    newest                                   which segment of the log was made last (journal/newest.py)
    encountered                              where a broker ended on damage, until that is gone (journal/encountered.py)
    <first lsn, 20 digits>-<segment id, 8 hex>.segment
    <first lsn, 20 digits>-<segment id, 8 hex>.index     of a sealed segment; may be missing, then it is made again
    spare-<segment id, 8 hex>.segment        a dead segment that waits to be written over; its contents mean nothing
    reserve                                  room for a start on a full disk (journal/reserve.py); its contents mean nothing
    replica                                  whose replica of a cluster the directory is, if of any (journal/replica_file.py)
    transfer                                 it is being filled by another node, and no journal yet (journal/transfer_target.py)
    torn-<stem of a segment>-<offset>        what was cut off behind that offset; kept for a person to look at
    damaged-<name>                           an original that repair has replaced; likewise
    damaged-<number>                         a replica's whole journal that was damaged, a folder (journal/setting_aside.py); likewise.
                                             Its name ends with .part while it is being moved there
    diverged-<name of a segment>             what was cut off a replica's log: records that were never committed; likewise. A whole
    diverged-<number>-<name of a segment>    segment, but that the first lsn of its name and header may be another (journal/diverged.py)
    superseded-<name>                        a whole segment that repair has taken out of use, as others hold its records; likewise
    *.tmp                                    being written when the program ended; removed at the next start

Segment, header of 48 bytes, then records end to end::

    magic      8s   b"PENSTOCK"
    version    u16  1; 2 where it may hold SEVERAL records, or ITEMS records that say what their writer did not say before there were
                    these: so that a program that knows none of them refuses it
    checksum   u8   1 = CRC-32C
    kind       u8   0 log: records of contiguous lsns from the first lsn on
                    1 compacted: records with items only, ascending lsns with gaps, group 0
    flags      u32  bit 0 RECYCLED: the file was written over, so anything may stand behind its last record; otherwise
                    zeros do, unless a write was not finished
    segment id u64  never used again in this directory
    first lsn  u64  also in the name
    salt       8s   random, no zero byte among the first four
    reserved   u32  0
    crc        u32  of the 44 bytes before it

Record, header of 28 bytes, then the payload::

    mark       4s   the first four bytes of the segment's salt, so that records can be searched for
    crc        u32  of the salt (8 bytes), the header behind this field (20 bytes) and the payload
    length     u32  bytes of payload
    kind       u8   0 CLOSED: the journal's own, empty payload, the last record of a clean shutdown; 1..255 the caller's
    flags      u8   bit 0 ITEMS, bit 1 SEVERAL, never both; the others are 0
    group      u16  how many records stand before it that no sync separates it from; 65535: that many or more
    epoch      u32  number of the start of the journal that wrote it; of a replica's record, that of the leader it came from
    lsn        u64

The salt makes records that an earlier life of a recycled file left behind fail their checksum.

lsn - group is the first lsn of the record's group. With ``sync="always"`` a group is written only when the sync of the one before
it has returned; with the other policies a group reaches back to the last sync that there was. So a valid record behind a bad one
proves damage exactly when its group began behind the bad one's lsn: everything before that group was durable. Otherwise the bad one
lies in the last group, which was never synced: a torn tail, which is cut off. A group of 65535 proves nothing.

With ITEMS or SEVERAL the payload begins with what it says of the items that it holds: journal/items.py has both, bit for bit.

A replica's log has no CLOSED: logs would part at each clean shutdown. The file ``replica`` says instead what was durable then.

A segment that is followed by another was cut to the end of its last record and synced before the other got its name.

Checkpoint::

    magic      8s   b"PENSTCKP"
    version    u16  1; 2 of a replica's
    reserved   u16  0
    length     u64  bytes of body
    body            msgpack map: lsn, epoch, next_segment (id), payload (the caller's: bin or nil), segments: array of
                    [segment id, kind, first lsn, stop lsn, end, sealed]; stop lsn and end (bytes) are 0 for the one not sealed.
                    Where records were appended while it was made, also behind: the payload may contain some of the records from
                    lsn up to this one, and all of these were durable before it was stored.
                    In version 2 also log: [start, committed, array of [epoch, first lsn]], ascending. Records below start are of
                    no epoch; those below committed were committed; the epochs are those of the records below lsn that the log may
                    still hold, and of the one before these
    crc        u32  of everything before it

Records with an lsn below the checkpoint's are contained in it; they are kept only for their items.

Index of a sealed segment, header of 64 bytes, then two tables::

    magic      8s   b"PENSTIDX"
    version    u16  1
    reserved   u16  0
    streams    u32  n, how many streams have records in the segment
    segment id u64
    first lsn  u64
    stop lsn   u64  one more than its last record's
    end        u64  bytes of the segment
    rows       u64  how many records with items it has, one of several streams counted for each
    rows crc   u32  of the second table
    crc        u32  of the 60 bytes before it and the first table
    summary         columns of n values: stream u32, records u32, first u64, stop u64, items u64, bytes u64
    rows            for each stream, in the order of the summary, columns: first u64, count u32, offset u32, length u32

``first`` and ``stop`` span the stream's items in the segment, ``bytes`` are those of its records with their headers, ``offset`` is where
a record's header is, ``length`` that of its payload: of one of several streams what an ITEMS record of this stream alone would have.
Streams ascend, and so do the items of each.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from crc32c import crc32c

from journal.errors import FormatError

if sys.byteorder != "little":  # pragma: no cover - no such machine in CI
    raise ImportError("penstock keeps columns little-endian and reads them in place; this machine is big-endian")

VERSION = 1
SEVERAL_VERSION = 2
"""Of a segment that may hold SEVERAL records, or others that programs do not know that know none of these."""
CHECKSUM_CRC32C = 1
SEGMENT_MAGIC = b"PENSTOCK"
INDEX_MAGIC = b"PENSTIDX"

LOG = 0
COMPACTED = 1

RECYCLED = 1
"""Flag of a segment: what stands behind its last record means nothing."""
CLOSED = 0
"""Kind of the record that a clean shutdown ends with."""
ITEMS = 1
"""Flag: the payload begins with stream, first and count."""
SEVERAL = 2
"""Flag: it begins with a table of these, of several streams (journal/items.py)."""
GROUP_UNKNOWN = 0xFFFF
"""So many records since the last sync, or more: the record proves nothing about those before it."""
FIRST_LSN = 1
"""Not 0, so that a stretch of zeros is never the record that is expected."""
MAX_EPOCH = (1 << 32) - 1
"""A record has four bytes for it."""
MAX_PAYLOAD = 1 << 30
"""Bytes; a frame of the wire has 16 MiB at most, so what is larger is a mistake."""
MAX_SEGMENT_BYTES = (1 << 32) - 1
"""Offsets in an index are u32."""

_SEGMENT = struct.Struct("<8sHBBIQQ8sI")
_CRC = struct.Struct("<I")
_INDEX = struct.Struct("<8sHHIQQQQQI")

RECORD = struct.Struct("<4sIIBBHIQ")
RECORD_HEAD = struct.Struct("<4sI")
"""mark and crc, the part of the header that the checksum does not cover."""
RECORD_TAIL = struct.Struct("<IBBHIQ")
"""length, kind, flags, group, epoch, lsn."""
RECORD_TAIL_ITEMS = struct.Struct("<IBBHIQIQI")
"""The same, and the stream, first and count that the payload of an ITEMS record begins with."""

SEGMENT_HEADER_BYTES = _SEGMENT.size + _CRC.size
RECORD_HEADER_BYTES = RECORD.size
CHECKSUMMED_FROM = RECORD_HEAD.size
"""Where in a record the part begins that its checksum covers."""
INDEX_HEADER_BYTES = _INDEX.size + _CRC.size
SUMMARY_ROW_BYTES = 40
INDEX_ROW_BYTES = 20

Buffer = bytes | bytearray | memoryview


class SegmentHeader(NamedTuple):
    """What a segment says of itself."""

    segment_id: int
    kind: int
    first_lsn: int
    salt: bytes
    recycled: bool = False
    version: int = VERSION

    @property
    def mark(self) -> bytes:
        """What each of its records begins with."""
        return self.salt[:4]


class RecordHeader(NamedTuple):
    """The 28 bytes before a payload, as they stand; nothing is checked."""

    mark: bytes
    crc: int
    length: int
    kind: int
    flags: int
    group: int
    epoch: int
    lsn: int


class StreamRows(NamedTuple):
    """The records of one stream in one segment, as columns of equal length in ascending order."""

    firsts: array[int]
    counts: array[int]
    offsets: array[int]
    lengths: array[int]

    @classmethod
    def empty(cls) -> StreamRows:
        """No record yet."""
        return cls(array("Q"), array("I"), array("I"), array("I"))


class Summary(NamedTuple):
    """What a segment holds of each stream, as columns of equal length; streams ascend."""

    stream: array[int]
    records: array[int]
    first: array[int]
    stop: array[int]
    items: array[int]
    bytes: array[int]


class IndexHeader(NamedTuple):
    """The start of an index file."""

    streams: int
    segment_id: int
    first_lsn: int
    stop_lsn: int
    end: int
    rows: int
    rows_crc: int

    @property
    def summary_bytes(self) -> int:
        """Bytes of header and first table together."""
        return INDEX_HEADER_BYTES + self.streams * SUMMARY_ROW_BYTES


def pack_segment_header(header: SegmentHeader) -> bytes:
    """The 48 bytes that a segment begins with."""
    segment_id, kind, first_lsn, salt, recycled, version = header
    flags = RECYCLED if recycled else 0
    packed = _SEGMENT.pack(SEGMENT_MAGIC, version, CHECKSUM_CRC32C, kind, flags, segment_id, first_lsn, salt, 0)
    return packed + _CRC.pack(crc32c(packed))


def unpack_segment_header(data: Buffer) -> SegmentHeader:
    """The reverse; raises FormatError for 48 bytes, or fewer, that are no such header."""
    if len(data) < SEGMENT_HEADER_BYTES:
        raise FormatError(f"a segment's header has {SEGMENT_HEADER_BYTES} bytes, these are {len(data)}")
    magic, version, checksum, kind, flags, segment_id, first_lsn, salt, _ = _SEGMENT.unpack_from(data)
    check_crc(data, _SEGMENT.size, "the segment's header")
    check_magic(magic, SEGMENT_MAGIC, version, "segment", SEVERAL_VERSION)
    if checksum != CHECKSUM_CRC32C or kind not in {LOG, COMPACTED}:
        raise FormatError(f"a segment of checksum {checksum} and kind {kind}, which this version does not know")
    return SegmentHeader(segment_id, kind, first_lsn, salt, bool(flags & RECYCLED), version)


def salt_crc(salt: bytes) -> int:
    """What the checksum of every record of a segment starts from."""
    return crc32c(salt)


def pack_record(
    header: SegmentHeader, lsn: int, epoch: int, kind: int, flags: int, group: int, payload: Buffer
) -> bytes:
    """One whole record; the group commit packs its own, without copying payloads (journal/group.py)."""
    body = RECORD_TAIL.pack(len(payload), kind, flags, group, epoch, lsn) + payload
    return RECORD_HEAD.pack(header.mark, crc32c(body, crc32c(header.salt))) + body


def unpack_record_header(data: Buffer, offset: int = 0) -> RecordHeader:
    """The 28 bytes at ``offset``, unchecked; raises FormatError where there are fewer."""
    if len(data) - offset < RECORD_HEADER_BYTES:
        raise FormatError(f"a record's header has {RECORD_HEADER_BYTES} bytes, these are {len(data) - offset}")
    return RecordHeader._make(RECORD.unpack_from(data, offset))


def record_is_whole(header: RecordHeader, record: Buffer, segment: SegmentHeader) -> bool:
    """Whether ``record`` (header and payload) is what was written into this segment."""
    return (
        header.mark == segment.mark
        and len(record) == RECORD_HEADER_BYTES + header.length
        and crc32c(memoryview(record)[CHECKSUMMED_FROM:], salt_crc(segment.salt)) == header.crc
    )


def pack_index(header: SegmentHeader, stop_lsn: int, end: int, streams: Mapping[int, StreamRows]) -> list[Buffer]:
    """A whole index file in parts, without copying the columns."""
    ordered = sorted(streams)
    summary = summarize(streams)
    rows: list[Buffer] = [memoryview(column).cast("B") for stream in ordered for column in streams[stream]]
    rows_crc = 0
    for part in rows:
        rows_crc = crc32c(part, rows_crc)
    count = sum(summary.records)
    start = _INDEX.pack(
        INDEX_MAGIC, VERSION, 0, len(ordered), header.segment_id, header.first_lsn, stop_lsn, end, count, rows_crc
    )
    table = b"".join(column.tobytes() for column in summary)
    return [start, _CRC.pack(crc32c(table, crc32c(start))), table, *rows]


def unpack_index_header(data: Buffer) -> IndexHeader:
    """The first 64 bytes, whose checksum `unpack_summary` checks; raises FormatError for bytes that are no index."""
    if len(data) < INDEX_HEADER_BYTES:
        raise FormatError(f"an index of {len(data)} bytes has not even a header")
    magic, version, _, *rest = _INDEX.unpack_from(data)
    check_magic(magic, INDEX_MAGIC, version, "index")
    return IndexHeader._make(rest)


def unpack_summary(header: IndexHeader, data: Buffer) -> Summary:
    """The first table, from header and table together; raises FormatError where their checksum does not hold."""
    if len(data) < header.summary_bytes:
        raise FormatError(f"an index of {len(data)} bytes, its summary ends at {header.summary_bytes}")
    view = memoryview(data).cast("B")[: header.summary_bytes]
    (crc,) = _CRC.unpack_from(view, _INDEX.size)
    if crc32c(view[INDEX_HEADER_BYTES:], crc32c(view[: _INDEX.size])) != crc:
        raise FormatError("the checksum of the index's summary does not hold")
    columns, _ = _columns(view, INDEX_HEADER_BYTES, header.streams, "IIQQQQ")
    summary = Summary(*columns)
    if sum(summary.records) != header.rows:
        raise FormatError(f"an index of {header.rows} rows whose summary counts {sum(summary.records)}")
    return summary


def unpack_rows(header: IndexHeader, summary: Summary, data: Buffer) -> dict[int, StreamRows]:
    """The second table, from a whole index file; raises FormatError where its checksum does not hold."""
    end = header.summary_bytes + header.rows * INDEX_ROW_BYTES
    if len(data) != end:
        raise FormatError(f"an index of {len(data)} bytes, its header says {end}")
    view = memoryview(data).cast("B")
    if crc32c(view[header.summary_bytes :]) != header.rows_crc:
        raise FormatError("the checksum of the index's rows does not hold")
    streams = {}
    at = header.summary_bytes
    for stream, records in zip(summary.stream, summary.records, strict=True):
        columns, at = _columns(view, at, records, "QIII")
        streams[stream] = StreamRows(*columns)
    return streams


def summarize(streams: Mapping[int, StreamRows]) -> Summary:
    """What the summary of an index says of these rows."""
    summary = Summary(array("I"), array("I"), array("Q"), array("Q"), array("Q"), array("Q"))
    for stream in sorted(streams):
        rows = streams[stream]
        values = (
            stream,
            len(rows.firsts),
            rows.firsts[0],
            rows.firsts[-1] + rows.counts[-1],
            sum(rows.counts),
            sum(rows.lengths) + RECORD_HEADER_BYTES * len(rows.firsts),
        )
        for column, value in zip(summary, values, strict=True):
            column.append(value)
    return summary


def _columns(view: memoryview, at: int, count: int, codes: Sequence[str]) -> tuple[list[array[int]], int]:
    """Columns of ``count`` values each from ``at`` on, and where they end."""
    columns = []
    for code in codes:
        column: array[int] = array(code)
        end = at + count * column.itemsize
        column.frombytes(view[at:end])
        columns.append(column)
        at = end
    return columns, at


def check_crc(data: Buffer, end: int, what: str) -> None:
    """Raise FormatError where the checksum at ``end`` is not that of everything before it."""
    (crc,) = _CRC.unpack_from(data, end)
    if crc32c(memoryview(data)[:end]) != crc:
        raise FormatError(f"the checksum of {what} does not hold")


def check_magic(magic: bytes, expected: bytes, version: int, what: str, newest: int = VERSION) -> None:
    """Raise FormatError where a file is another, or of a version above ``newest``."""
    if magic != expected:
        raise FormatError(f"a {what} begins with {expected!r}, this with {magic!r}")
    if not VERSION <= version <= newest:
        raise FormatError(f"a {what} of version {version}; this program knows {newest}")
