"""A record on its way from one replica to another: the same as it is appended, read and written there."""

from __future__ import annotations

from typing import NamedTuple

from journal.errors import FormatError
from journal.files import Buffer
from journal.items import ITEMS_PREFIX_BYTES, unpack_items_prefix


class Position(NamedTuple):
    """How far a log goes: the epoch and the lsn of its last record; (0, 0) of one that has none. Greater is more."""

    epoch: int
    lsn: int


class ShippedRecord(NamedTuple):
    """A whole record.

    Attributes:
        lsn: its number.
        epoch: that of the leader that appended it.
        kind: the caller's, 1 to 255.
        flags: ``ITEMS``, ``SEVERAL`` or 0 (journal/format.py).
        payload: all of it in buffers, end to end; what the record says of its items is at its beginning (journal/items.py). They are
            those that were appended, where they are in memory: they must not change.
    """

    lsn: int
    epoch: int
    kind: int
    flags: int
    payload: tuple[Buffer, ...]

    @property
    def size(self) -> int:
        """Bytes of the payload."""
        size = 0
        for part in self.payload:
            size += part.nbytes if type(part) is memoryview else len(part)
        return size

    def whole(self) -> memoryview:
        """The payload in one buffer, which is copied only where it is in several."""
        payload = self.payload
        return memoryview(payload[0] if len(payload) == 1 else b"".join(payload)).cast("B")


def split_items(record: ShippedRecord) -> tuple[int, int, int, tuple[Buffer, ...]]:
    """(stream, first, count, what was appended for them) of a record with ITEMS, without a copy of what is large.

    Raises:
        FormatError: its payload is that of none.
    """
    if not record.payload:
        raise FormatError("an ITEMS record without a payload")
    head = memoryview(record.payload[0]).cast("B")
    rest = record.payload[1:]
    if len(head) < ITEMS_PREFIX_BYTES:
        head, rest = record.whole(), ()
    stream, first, count = unpack_items_prefix(head)
    if len(head) > ITEMS_PREFIX_BYTES:
        rest = (head[ITEMS_PREFIX_BYTES:], *rest)
    return stream, first, count, rest
