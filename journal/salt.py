"""Making a segment's header again from its records: without the salt that it holds none of them could be checked.

The first four bytes of the salt stand in every record as its mark. The other four follow from any record's checksum: a CRC
is linear, so as a function of four unknown bytes it can be solved (Stigge et al., "Reversing CRC - Theory and Practice", 2006).
"""

from __future__ import annotations

from collections.abc import Iterator

from crc32c import crc32c

from journal.format import (
    CHECKSUMMED_FROM,
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


def header_from_records(content: bytes, segment_id: int, kind: int, first_lsn: int) -> SegmentHeader | None:
    """The header of a segment whose own is damaged; None where no record confirms any.

    ``content`` is the whole file; the other facts are from its name, and from the checkpoint.
    """
    witnesses = list(_first_records(content))
    best: SegmentHeader | None = None
    most = 0
    for salt in (content[SALT_AT], *(salt_from_record(*witness) for witness in witnesses)):
        if salt is None or len(salt) != SALT_BYTES:
            continue
        header = SegmentHeader(segment_id, kind, first_lsn, salt)
        # A salt can be found for whatever bytes; those of another lsn or length are not what they are taken for.
        confirmed = sum(said.lsn >= first_lsn and record_is_whole(said, record, header) for said, record in witnesses)
        if confirmed > most:
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


def _first_records(content: bytes) -> Iterator[tuple[RecordHeader, bytes]]:
    """What look like the first records of a segment whose salt is not known: each begins where its predecessor ends."""
    at = SEGMENT_HEADER_BYTES
    for _ in range(WITNESSES):
        if len(content) - at < RECORD_HEADER_BYTES:
            return
        header = unpack_record_header(content, at)
        end = at + RECORD_HEADER_BYTES + header.length
        if end > len(content):
            return
        yield header, content[at:end]
        at = end


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
