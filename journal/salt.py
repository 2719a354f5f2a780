"""Making a segment's header again from its records: without the salt that it holds none of them could be checked.

The first four bytes of the salt stand in every record as its mark. The other four follow from any record's checksum: a CRC
is linear, so as a function of four unknown bytes it can be solved (Stigge et al., "Reversing CRC - Theory and Practice", 2006).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise

from crc32c import crc32c

from journal.format import (
    CHECKSUMMED_FROM,
    COMPACTED,
    LOG,
    RECORD_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    Buffer,
    RecordHeader,
    SegmentHeader,
    record_is_whole,
    unpack_record_header,
)
from journal.segment import MARK_BYTES, SALT_BYTES

SALT_AT = slice(32, 32 + SALT_BYTES)
"""Where in a segment's header the salt is."""
WITNESSES = 8
"""Records that are asked for the salt: the first may be damaged as the header is."""
_BITS = 32


def header_from_records(content: bytes, segment_id: int, kind: int | None, first_lsn: int) -> SegmentHeader | None:
    """The header of a segment whose own is damaged; None where its records do not confirm any.

    ``content`` is the whole file; the other facts are from its name, and from the checkpoint, where one says the kind.
    """
    # Each of the three may be damaged; the right one is at the beginning of every record.
    first = content[SEGMENT_HEADER_BYTES:][:RECORD_HEADER_BYTES]
    if len(first) < RECORD_HEADER_BYTES:
        return None
    second = content[SEGMENT_HEADER_BYTES + RECORD_HEADER_BYTES + unpack_record_header(first).length :]
    marks = (content[SALT_AT][:MARK_BYTES], first[:MARK_BYTES], second[:MARK_BYTES])
    mark = max((mark for mark in marks if len(mark) == MARK_BYTES and 0 not in mark), key=content.count, default=None)
    if mark is None:
        return None
    if kind is None:
        lsns = [said.lsn for said, _ in _records(content, mark)]
        in_row = sum(later == lsn + 1 for lsn, later in pairwise(lsns))
        kind = LOG if 2 * in_row >= len(lsns) - 1 else COMPACTED
    witnesses = list(islice(_records(content, mark), WITNESSES))
    best: SegmentHeader | None = None
    most = 0
    for salt in (content[SALT_AT], *(salt_from_record(*witness) for witness in witnesses)):
        if salt is None:
            continue
        header = SegmentHeader(segment_id, kind, first_lsn, salt)
        confirmed = sum(said.lsn >= first_lsn and record_is_whole(said, record, header) for said, record in witnesses)
        # There is a salt that makes any one record look whole, a damaged one too; only a second shows that it is the salt.
        if confirmed > most and (confirmed > 1 or salt == content[SALT_AT]):
            best, most = header, confirmed
    return best


def salt_from_record(header: RecordHeader, record: Buffer) -> bytes | None:
    """The salt under which a record's checksum holds; there always is one, so that others have to confirm it.

    ``record`` is header and payload. None where it has another length than its header says.
    """
    if len(record) != RECORD_HEADER_BYTES + header.length:
        return None
    body = memoryview(record)[CHECKSUMMED_FROM:]
    start = crc32c(header.mark)

    def checksum(unknown: int) -> int:
        return crc32c(body, crc32c(unknown.to_bytes(MARK_BYTES, "little"), start))

    nothing = checksum(0)
    unknown = _solve([checksum(1 << bit) ^ nothing for bit in range(_BITS)], header.crc ^ nothing)
    return None if unknown is None else header.mark + unknown.to_bytes(MARK_BYTES, "little")


def _records(content: bytes, mark: bytes) -> Iterator[tuple[RecordHeader, bytes]]:
    """What look like the records of a segment whose salt is not known, damaged ones among them."""
    at = content.find(mark, SEGMENT_HEADER_BYTES)
    while 0 <= at <= len(content) - RECORD_HEADER_BYTES:
        header = unpack_record_header(content, at)
        end = at + RECORD_HEADER_BYTES + header.length
        if end > len(content):
            at = content.find(mark, at + 1)
            continue
        yield header, content[at:end]
        at = content.find(mark, end)


def _solve(columns: list[int], target: int) -> int | None:
    """Which columns xor to the target, as a number with their bits set; None where none do. Gauss, over bits."""
    pivots: dict[int, tuple[int, int]] = {}
    for bit, whole in enumerate(columns):
        column, chosen = whole, 1 << bit
        while column and column.bit_length() in pivots:
            pivot, with_it = pivots[column.bit_length()]
            column ^= pivot
            chosen ^= with_it
        if column:
            pivots[column.bit_length()] = (column, chosen)
    found = 0
    while target:
        if target.bit_length() not in pivots:
            return None
        pivot, with_it = pivots[target.bit_length()]
        target ^= pivot
        found ^= with_it
    return found
