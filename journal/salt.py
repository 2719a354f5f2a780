"""Making a segment's header again from its records: without the salt that it holds none of them could be checked.

The first four bytes of the salt stand in every record as its mark. The other four follow from any record's checksum: a CRC
is linear, so as a function of four unknown bytes it can be solved (Stigge et al., "Reversing CRC - Theory and Practice", 2006).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice, pairwise

from crc32c import crc32c

from journal.format import (
    CHECKSUMMED_FROM,
    COMPACTED,
    LOG,
    RECORD_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    SEVERAL,
    SEVERAL_VERSION,
    VERSION,
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


def header_from_records(content: bytes, segment_id: int, kind: int | None, first_lsn: int) -> SegmentHeader | None:
    """The header of a segment whose own is damaged; None where its records do not confirm any.

    ``content`` is the whole file; the other facts are from its name, and from the checkpoint, where one says the kind.
    """
    if len(content) < SEGMENT_HEADER_BYTES + RECORD_HEADER_BYTES:
        return None
    # Each of the three may be damaged, and payloads may hold any of them; the right one is at the beginning of every record.
    second = SEGMENT_HEADER_BYTES + RECORD_HEADER_BYTES + unpack_record_header(content, SEGMENT_HEADER_BYTES).length
    marks = {content[at : at + MARK_BYTES] for at in (SALT_AT.start, SEGMENT_HEADER_BYTES, second)}
    found = (
        _header_of_mark(content, mark, segment_id, kind, first_lsn)
        for mark in sorted(mark for mark in marks if len(mark) == MARK_BYTES and 0 not in mark)
    )
    # A payload may hold whole records of another segment. Of this one there are more.
    return max((header for header in found if header is not None), key=partial(_confirmed, content), default=None)


def _header_of_mark(
    content: bytes, mark: bytes, segment_id: int, kind: int | None, first_lsn: int
) -> SegmentHeader | None:
    """The header whose salt begins with ``mark`` that most of the first records confirm."""
    witnesses = list(islice(_records(content, mark), WITNESSES))
    if kind is None:
        steps = [later.lsn - said.lsn for (said, _), (later, _) in pairwise(_records(content, mark))]
        kind = LOG if 2 * steps.count(1) >= len(steps) else COMPACTED
    several = any(said.flags & SEVERAL for said, _ in _records(content, mark))
    best, most = None, 0
    for salt in (content[SALT_AT], *(salt_from_record(*witness) for witness in witnesses)):
        header = SegmentHeader(segment_id, kind, first_lsn, salt, version=SEVERAL_VERSION if several else VERSION)
        confirmed = _numbers(witnesses, header)
        # There is a salt that makes any one record look whole, a damaged one too; only a second shows that it is the salt.
        if confirmed > most and (confirmed > 1 or salt == content[SALT_AT]):
            best, most = header, confirmed
    return best


def _confirmed(content: bytes, header: SegmentHeader) -> int:
    """How many records of the whole file are whole under the header."""
    return _numbers(_records(content, header.salt[:MARK_BYTES]), header)


def _numbers(records: Iterable[tuple[RecordHeader, memoryview]], header: SegmentHeader) -> int:
    """How many of the records are whole under the header, each number counted once: a payload may hold the same one often."""
    first = header.first_lsn
    return len({said.lsn for said, record in records if said.lsn >= first and record_is_whole(said, record, header)})


def _records(content: bytes, mark: bytes) -> Iterator[tuple[RecordHeader, memoryview]]:
    """What look like the records of a segment whose salt is not known, each whole in length, damaged ones among them."""
    view = memoryview(content)
    at = content.find(mark, SEGMENT_HEADER_BYTES)
    while 0 <= at <= len(content) - RECORD_HEADER_BYTES:
        header = unpack_record_header(content, at)
        end = at + RECORD_HEADER_BYTES + header.length
        if end <= len(content):
            yield header, view[at:end]
        at = content.find(mark, end if end <= len(content) else at + 1)


def salt_from_record(said: RecordHeader, record: memoryview) -> bytes:
    """The one salt of the record's mark that gives its checksum: of a record that is not whole, a wrong one."""
    start = crc32c(said.mark)

    def checksum(unknown: int) -> int:
        return crc32c(record[CHECKSUMMED_FROM:], crc32c(unknown.to_bytes(MARK_BYTES, "little"), start))

    # A row is what some bits do to the checksum, and in its lower half these bits. A row in which another's highest bit is
    # set is the larger for it, so the least is the one without: Gauss's elimination, over bits.
    rows: list[int] = []

    def reduced(row: int) -> int:
        for each in rows:
            row = min(row, row ^ each)
        return row

    width = 8 * MARK_BYTES
    nothing = checksum(0)
    for bit in range(width):
        done = checksum(1 << bit) ^ nothing
        rows.append(reduced(done << width | 1 << bit))
    unknown = reduced((said.crc ^ nothing) << width)
    return said.mark + unknown.to_bytes(SALT_BYTES - MARK_BYTES, "little")
