"""Records of the log as they go over a link: a table of what they are, then their payloads as they stand, end to end.

A row of the table, 18 bytes: lsn u64, epoch u32, bytes of the payload u32, kind u8, flags u8. Nothing of a payload is copied to be sent. Of
what has come, a payload is a view of the message; it is in several where the message came in several frames.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from transport.cluster.frames import FRAME_BYTES, MAX_PAYLOAD_BYTES, Buffer
from transport.errors import LocalProtocolError, RemoteProtocolError

ROW: Final = struct.Struct("<QIIBB")
MAX_RECORDS: Final = 2_048
"""Of one message: their table fits into one frame with what stands before it."""
FEW_PARTS: Final = 16
SMALL_PART_BYTES: Final = 1_024
"""More buffers than that, smaller than that on the average, cost more to be handled one by one than to be copied."""
MOST_FLAGS: Final = 2
"""ITEMS or SEVERAL, and never both (journal/format.py)."""

assert MAX_RECORDS * ROW.size < FRAME_BYTES // 2 + FRAME_BYTES // 4


class Record(NamedTuple):
    """A record as it was sent; `journal.ShippedRecord` has the same fields."""

    lsn: int
    epoch: int
    kind: int
    flags: int
    payload: tuple[Buffer, ...]


MakeRecord: TypeAlias = Callable[[int, int, int, int, tuple[Buffer, ...]], Any]
"""Makes a record of: lsn, epoch, kind, flags, payload."""


def pack_records(records: Iterable[Any]) -> tuple[list[bytes | Any], int]:
    """The table, then the payloads' buffers; and how many bytes that are. Many small ones are joined.

    The first of them is bytes: something is put before it with little ado.

    Raises:
        LocalProtocolError: there are too many of them, or one is too large, or is none.
    """
    rows: list[Buffer] = []
    parts: list[Buffer] = []
    size = 0
    pack = ROW.pack
    try:
        for lsn, epoch, kind, flags, payload in records:
            length = 0
            for part in payload:
                # Columns are views of numbers: what goes out is their bytes.
                each = part.cast("B") if type(part) is memoryview and part.itemsize != 1 else part
                if nbytes := len(each):
                    parts.append(each)
                    length += nbytes
            rows.append(pack(lsn, epoch, length, kind, flags))
            size += length
    except (struct.error, TypeError, ValueError) as error:
        raise LocalProtocolError(f"a record that cannot be sent: {error}") from None
    if len(rows) > MAX_RECORDS or size > MAX_PAYLOAD_BYTES:
        raise LocalProtocolError(
            f"a message of {len(rows)} records and {size} bytes: {MAX_RECORDS} and {MAX_PAYLOAD_BYTES} are the most"
        )
    size += sum(map(len, rows))
    if len(parts) > FEW_PARTS and size < len(parts) * SMALL_PART_BYTES:
        return [b"".join(rows + parts)], size
    return [b"".join(rows), *parts], size


def unpack_records(
    pieces: Sequence[Buffer],
    at: int,
    count: int,
    make: MakeRecord,
    *,
    lsn: int,
    epochs: tuple[int, int],
    gaps: bool = False,
) -> list[Any]:
    """The records of a message, and nothing behind them.

    Args:
        pieces: the message; in the first of them is the whole table.
        at: where in it the table begins.
        count: how many there are.
        make: makes a record.
        lsn: of the first one.
        epochs: the least and the greatest that they may have; they do not descend unless there are gaps.
        gaps: whether lsns only have to ascend, from ``lsn`` on.

    Raises:
        RemoteProtocolError: they cannot be what was sent.
    """
    table = at + count * ROW.size
    if count > MAX_RECORDS or table > len(pieces[0]):
        raise RemoteProtocolError(f"a message of {count} records has no table for them")
    view = memoryview(pieces[0])
    if 1 < len(pieces) < count and sum(map(len, pieces)) < count * SMALL_PART_BYTES:
        pieces = (b"".join(pieces),)
    view = memoryview(pieces[0])
    rows = ROW.iter_unpack(view[at:table])
    if gaps or len(pieces) > 1:
        return _any_records(rows, _Several(pieces, table), make, lsn, epochs, gaps)
    records: list[Any] = []
    begin = table
    least, most = epochs
    for number, epoch, length, kind, flags in rows:
        if number != lsn or epoch < least or epoch > most or not kind or flags > MOST_FLAGS:
            raise _not_next(number, epoch, kind, flags, lsn)
        lsn += 1
        least = epoch
        stop = begin + length
        records.append(make(number, epoch, kind, flags, (view[begin:stop],)))
        begin = stop
    if begin != len(view):
        raise RemoteProtocolError(f"the records of a message have {begin} bytes with their table, it has {len(view)}")
    return records


def _any_records(
    rows: Iterable[Any], pieces: _Several, make: MakeRecord, lsn: int, epochs: tuple[int, int], gaps: bool
) -> list[Any]:
    """The same, wherever they lie."""
    records = []
    least, most = epochs
    for number, epoch, length, kind, flags in rows:
        wrong = number < lsn if gaps else number != lsn
        if wrong or epoch < least or epoch > most or not kind or flags > MOST_FLAGS:
            raise _not_next(number, epoch, kind, flags, lsn)
        lsn = number + 1
        if not gaps:
            least = epoch
        records.append(make(number, epoch, kind, flags, pieces.take(length)))
    if not pieces.empty:
        raise RemoteProtocolError("the records of a message have fewer bytes than it has")
    return records


def _not_next(lsn: int, epoch: int, kind: int, flags: int, wanted: int) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"record {lsn} of epoch {epoch}, kind {kind} and flags {flags} came, where {wanted} is next"
    )


class _Several:
    """The pieces of a message that came in several frames, from ``at`` of the first one on."""

    __slots__ = ("_waiting",)

    def __init__(self, pieces: Sequence[Buffer], at: int) -> None:
        self._waiting = [memoryview(piece) for piece in reversed(pieces)]
        self._waiting[-1] = self._waiting[-1][at:]

    def take(self, length: int) -> tuple[Buffer, ...]:
        """The next bytes."""
        taken: list[Buffer] = []
        while length:
            if not self._waiting:
                raise RemoteProtocolError("the records of a message have more bytes than it has")
            piece = self._waiting.pop()
            if len(piece) > length:
                self._waiting.append(piece[length:])
                piece = piece[:length]
            if piece:
                taken.append(piece)
                length -= len(piece)
        return tuple(taken)

    @property
    def empty(self) -> bool:
        """Whether nothing is left."""
        return not any(self._waiting)
