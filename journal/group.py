"""The bytes of a group commit: every record that has arrived, in as few buffers as the operating system takes well.

Large parts are written from where they are. Small ones are joined: a buffer of its own costs the kernel more than the copy.
"""

from __future__ import annotations

from collections.abc import Sequence

from crc32c import crc32c

from journal.files import Buffer
from journal.format import GROUP_UNKNOWN, ITEMS, RECORD_HEAD, RECORD_TAIL, RECORD_TAIL_ITEMS
from journal.segment import Append, Segment

SMALL_RECORD = 4096
"""Bytes up to which a record is joined into one buffer."""
HOLD_INTERPRETER, RELEASE_INTERPRETER = 0, 1
"""Given to crc32c: a checksum takes microseconds, to get the interpreter back from a busy thread can take milliseconds."""
MUCH = 1 << 20
"""Bytes of which a checksum takes as long as that: others have the interpreter meanwhile."""


def pack_group(segment: Segment, records: Sequence[Append], position: int, epoch: int) -> list[Buffer]:
    """The buffers to write, end to end, for records that follow one another in a segment.

    ``position``: how many records stand before the first of them that no sync separates it from.
    """
    mark, salt = segment.header.mark, segment.salt_crc
    buffers: list[Buffer] = []
    small: list[Buffer] = []
    add = small.append
    for _, size, lsn, kind, flags, length, stream, first, count, parts in records:
        group = min(GROUP_UNKNOWN, position)
        position += 1
        if flags & ITEMS:
            tail = RECORD_TAIL_ITEMS.pack(length, kind, flags, group, epoch, lsn, stream, first, count)
        else:
            tail = RECORD_TAIL.pack(length, kind, flags, group, epoch, lsn)
        if size <= SMALL_RECORD:
            body = b"".join((tail, *parts))
            add(RECORD_HEAD.pack(mark, crc32c(body, salt, HOLD_INTERPRETER)))
            add(body)
            continue
        crc = crc32c(tail, salt, HOLD_INTERPRETER)
        for part in parts:
            crc = crc32c(part, crc, HOLD_INTERPRETER if len(part) < MUCH else RELEASE_INTERPRETER)
        add(RECORD_HEAD.pack(mark, crc))
        add(tail)
        buffers.append(b"".join(small))
        small.clear()
        buffers += parts
    if small:
        buffers.append(b"".join(small))
    return buffers
