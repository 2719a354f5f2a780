"""The messages of a link as bytes, and back: `actors/replication/vocabulary.py`, `transfer_messages.py`, and a sign of life.

Numbers are little-endian, of eight bytes unless it is said otherwise; docs/cluster-wire.md has every message. What has come is checked
field by field, so no machine behind it sees what a peer of this protocol cannot have said.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from actors.replication import vocabulary as say
from actors.replication.document import MAX_EPOCH
from actors.replication.forming import Here
from actors.replication.limits import MAX_EPOCH_STARTS
from actors.replication.positions import EpochStart, LogSummary, Position
from transport.cluster import transfer_messages as of_transfers
from transport.cluster.frames import BULK, FRAME_BYTES, PROMPT, TRANSFER, Buffer, Whole
from transport.cluster.here_message import pack_here, unpack_here
from transport.cluster.records import MakeRecord, Record, pack_records, unpack_records
from transport.cluster.tidings import Heal, Tidings, pack_tidings, unpack_tidings
from transport.errors import LocalProtocolError, RemoteProtocolError

MAX_LSN: Final = (1 << 63) - 1
MAX_REASON_BYTES: Final = 300
SHARED_BYTES: Final = 2 * 1024 * 1024
"""Records of so many bytes are kept, packed, for the next who is sent the same: what is shipped at a time from memory."""
MAX_STATE_PIECE_BYTES: Final = 2 * 1024 * 1024
"""Of a checkpoint's state, in one message."""


class Alive(NamedTuple):
    """A sign of life, where nothing else was said for a while."""


class Encoded(NamedTuple):
    """A message that can be sent.

    Attributes:
        lane: on which.
        kind: what it is.
        parts: its bytes, end to end; none is empty.
        size: how many these are.
    """

    lane: int
    kind: int
    parts: Sequence[Buffer]
    size: int


_ONE: Final = struct.Struct("<Q")
_TWO: Final = struct.Struct("<QQ")
_THREE: Final = struct.Struct("<QQQ")
_STORED: Final = struct.Struct("<QQd")
_MISSING: Final = struct.Struct("<QQQQ")
_MISSED: Final = struct.Struct("<QQ?QQ")
_REPLICATE: Final = struct.Struct("<QQQQdI")
_FETCHED: Final = struct.Struct("<QQI")
_GIVEN: Final = struct.Struct("<QQI")
_HEAD: Final = struct.Struct("<QQQQQ")
_SUMMARY: Final = struct.Struct("<QQQQQI")
_COUNT: Final = struct.Struct("<I")

_ALIVE, _FOLLOW, _FOLLOWING, _REPLICATED, _STORES, _REFUSED, _SEAL, _SEALED = range(8)
_ASKS, _MISSES, _FETCH, _FETCHES, _TAKE_TRANSFER, _TAKE_OVER = range(8, 14)
_HERE, _TIDINGS, _HEAL = range(48, 51)
_ASK_RECORDS, _ASK_STATE, _GIVEN_RECORDS, _GIVEN_HEAD, _GIVEN_STATE, _WAIT, _NO_TRANSFER = range(32, 39)


class LinkCodec:
    """Encodes and decodes.

    Args:
        make: makes the records of what has come.
    """

    __slots__ = ("_make", "_packed", "_records")

    def __init__(self, make: MakeRecord = Record) -> None:
        self._make = make
        self._records: Sequence[Any] = ()  # those of the last message that was sent, if they are few:
        self._packed: tuple[list[Buffer], int] = [], 0  # others are sent the same

    def encode(self, message: Any) -> Encoded:
        """A message as bytes.

        Raises:
            LocalProtocolError: it is none, or has more records or bytes than one can have.
        """
        try:
            if type(message) is say.Replicate:  # as mostly
                return self._replicate(message)
            encode = _ENCODE.get(type(message))
            if encode is None:
                raise LocalProtocolError(f"{type(message).__name__} is no message of a link")
            return encode(message)
        except struct.error as error:
            raise LocalProtocolError(f"{type(message).__name__} cannot be sent: {error}") from None

    def decode(self, whole: Whole) -> Any:
        """The message of what has come whole.

        Raises:
            RemoteProtocolError: it is none.
        """
        kind, lane, pieces = whole
        decode = _DECODE.get((kind, lane))
        if decode is None:
            raise RemoteProtocolError(f"a message of kind {kind} on lane {lane}, which this version does not know")
        try:
            return decode(pieces, self._make)
        except struct.error:
            raise RemoteProtocolError(
                f"a message of kind {kind} has {sum(map(len, pieces))} bytes, which are too few or too many"
            ) from None

    def _replicate(self, message: say.Replicate) -> Encoded:
        """Records are packed once for all that are sent the same."""
        epoch, previous, committed, sent, records = message
        head = _REPLICATE.pack(epoch, *previous, committed, sent, len(records))
        if not records:
            return _prompt(_REPLICATED, head)
        if records is self._records:
            parts, size = self._packed
        else:
            parts, size = packed = pack_records(records)
            if size <= SHARED_BYTES:
                self._records, self._packed = records, packed
        return Encoded(BULK, _REPLICATED, (head + parts[0], *parts[1:]), _REPLICATE.size + size)


# Encoding


def _prompt(kind: int, body: bytes) -> Encoded:
    return Encoded(PROMPT, kind, (body,) if body else (), len(body))


def _with_records(kind: int, head: bytes, records: Sequence[Any], lane: int = BULK) -> Encoded:
    if not records and lane == BULK:
        return _prompt(kind, head)
    parts, size = pack_records(records)
    return Encoded(lane, kind, (head + parts[0], *parts[1:]), len(head) + size)


def _fetched(message: say.Fetched) -> Encoded:
    epoch, lsn, records = message
    return _with_records(_FETCHES, _FETCHED.pack(epoch, lsn, len(records)), records)


def _given_records(message: of_transfers.GivenRecords) -> Encoded:
    lsn, stop, records = message
    if not records:
        raise LocalProtocolError("a piece of a transfer has one record at least")
    return _with_records(_GIVEN_RECORDS, _GIVEN.pack(lsn, stop, len(records)), records, TRANSFER)


def _given_state(message: of_transfers.GivenState) -> Encoded:
    lsn, offset, piece = message
    parts: tuple[Buffer, ...] = (_TWO.pack(lsn, offset), piece)
    if not 0 < len(piece) <= MAX_STATE_PIECE_BYTES:
        raise LocalProtocolError(f"a piece of a state of {len(piece)} bytes: 1 to {MAX_STATE_PIECE_BYTES} can be sent")
    return Encoded(TRANSFER, _GIVEN_STATE, parts, _TWO.size + len(piece))


def _summary(log: LogSummary, *, doubt: bool = False) -> bytes:
    start, end, committed, epoch, starts = log
    if len(starts) > MAX_EPOCH_STARTS:
        raise LocalProtocolError(f"a summary of {len(starts)} epochs, and {MAX_EPOCH_STARTS} can be named")
    head = _SUMMARY.pack(start, end, committed, epoch, doubt, len(starts))
    return head + b"".join(_TWO.pack(*each) for each in starts)


def _no_transfer(message: of_transfers.NoTransfer) -> Encoded:
    return _prompt(_NO_TRANSFER, message.reason.encode(errors="replace")[:MAX_REASON_BYTES])


_ENCODE: Final[dict[type, Callable[[Any], Encoded]]] = {
    Alive: lambda _: _prompt(_ALIVE, b""),
    say.Follow: lambda m: _prompt(_FOLLOW, _ONE.pack(*m)),
    say.Following: lambda m: _prompt(_FOLLOWING, _ONE.pack(m.epoch) + _summary(m.log)),
    say.Stored: lambda m: _prompt(_STORES, _STORED.pack(*m)),
    say.Refused: lambda m: _prompt(_REFUSED, _ONE.pack(*m)),
    say.Seal: lambda m: _prompt(_SEAL, _ONE.pack(*m)),
    say.Sealed: lambda m: _prompt(_SEALED, _ONE.pack(m.epoch) + _summary(m.log, doubt=m.doubt)),
    say.Missing: lambda m: _prompt(_ASKS, _MISSING.pack(m.epoch, m.ask, *m.position)),
    say.Missed: lambda m: _prompt(_MISSES, _MISSED.pack(m.epoch, m.ask, m.missed, *m.position)),
    say.Fetch: lambda m: _prompt(_FETCH, _TWO.pack(*m)),
    say.Fetched: _fetched,
    say.TakeTransfer: lambda m: _prompt(_TAKE_TRANSFER, _THREE.pack(m.epoch, *m.before)),
    say.TakeOver: lambda m: _prompt(_TAKE_OVER, _ONE.pack(*m)),
    of_transfers.AskRecords: lambda m: _prompt(_ASK_RECORDS, _ONE.pack(*m)),
    of_transfers.AskState: lambda m: _prompt(_ASK_STATE, _TWO.pack(*m)),
    of_transfers.GivenRecords: _given_records,
    of_transfers.GivenHead: lambda m: _prompt(_GIVEN_HEAD, _HEAD.pack(*m)),
    of_transfers.GivenState: _given_state,
    of_transfers.Wait: lambda _: _prompt(_WAIT, b""),
    Here: lambda m: _prompt(_HERE, pack_here(m)),
    Tidings: lambda m: _prompt(_TIDINGS, pack_tidings(m)),
    Heal: lambda _: _prompt(_HEAL, b""),
    of_transfers.NoTransfer: _no_transfer,
}

# Decoding: each takes all of a message, or raises.


def _epoch(value: int, least: int = 0) -> int:
    if not least <= value <= MAX_EPOCH:
        raise RemoteProtocolError(f"an epoch of {value}")
    return value


def _lsn(value: int) -> int:
    if value > MAX_LSN:
        raise RemoteProtocolError(f"a record's number of {value}")
    return value


def _time(value: float) -> float:
    if not math.isfinite(value):
        raise RemoteProtocolError(f"a time of {value}")
    return value


def _of_epoch(make: Callable[[int], Any]) -> Callable[[Sequence[Buffer], MakeRecord], Any]:
    def decode(pieces: Sequence[Buffer], _: MakeRecord) -> Any:
        return make(_epoch(*_ONE.unpack(pieces[0])))

    return decode


def _unpack_following(pieces: Sequence[Buffer], _: MakeRecord) -> say.Following:
    return say.Following(*_unpack_log(pieces, 0)[:2])


def _unpack_sealed(pieces: Sequence[Buffer], _: MakeRecord) -> say.Sealed:
    epoch, log, doubt = _unpack_log(pieces, 1)
    return say.Sealed(epoch, log, doubt > 0)


def _unpack_log(pieces: Sequence[Buffer], most: int) -> tuple[int, LogSummary, int]:
    body = memoryview(pieces[0])
    (epoch,) = _ONE.unpack_from(body)
    return _epoch(epoch), *_unpack_summary(body[_ONE.size :], most)


def _unpack_summary(body: memoryview, most: int) -> tuple[LogSummary, int]:
    start, end, committed, last, doubt, count = _SUMMARY.unpack_from(body)
    if count > MAX_EPOCH_STARTS or len(body) != _SUMMARY.size + count * _TWO.size or doubt > most:
        raise RemoteProtocolError(f"a log with {count} epochs in {len(body)} bytes")
    starts = tuple(EpochStart(*each) for each in _TWO.iter_unpack(body[_SUMMARY.size :]))
    if not 1 <= start <= end <= MAX_LSN or committed > end:
        raise RemoteProtocolError(f"a log from {start} to {end}, of which those below {committed} are committed")
    # The first may be that of the record before the log's first.
    epoch, lsn = -1, max(start - 2, 0)
    for each in starts:
        if each.epoch <= epoch or each.lsn <= lsn:
            raise RemoteProtocolError(f"a log whose epoch {each.epoch} begins at {each.lsn}, behind {epoch} at {lsn}")
        epoch, lsn = each
    if lsn >= end or (starts and epoch != last):
        raise RemoteProtocolError(f"a log up to {end} of epoch {last}, whose epoch {epoch} begins at {lsn}")
    return LogSummary(start, end, committed, _epoch(last), starts), doubt


def _unpack_replicate(pieces: Sequence[Buffer], make: MakeRecord) -> say.Replicate:
    epoch, before, last, committed, sent, count = _REPLICATE.unpack_from(pieces[0])
    if before > epoch or not count:
        raise RemoteProtocolError(f"{count} records behind one of epoch {before}, of a leader of epoch {epoch}")
    epochs = (max(before, 1), epoch)
    records = unpack_records(pieces, _REPLICATE.size, count, make, lsn=last + 1, epochs=epochs)
    return say.Replicate(_epoch(epoch), Position(before, _lsn(last)), _lsn(committed), _time(sent), records)


def _unpack_beat(pieces: Sequence[Buffer], _: MakeRecord) -> say.Replicate:
    """One without records."""
    epoch, before, last, committed, sent, count = _REPLICATE.unpack(pieces[0])
    if before > epoch or count:
        raise RemoteProtocolError(f"a sign of a leader of epoch {epoch} behind epoch {before}, with {count} records")
    return say.Replicate(_epoch(epoch), Position(before, _lsn(last)), _lsn(committed), _time(sent))


def _unpack_stored(pieces: Sequence[Buffer], _: MakeRecord) -> say.Stored:
    epoch, lsn, sent = _STORED.unpack(pieces[0])
    return say.Stored(_epoch(epoch), _lsn(lsn), _time(sent))


def _unpack_missing(pieces: Sequence[Buffer], _: MakeRecord) -> say.Missing:
    epoch, ask, last, lsn = _MISSING.unpack(pieces[0])
    return say.Missing(_epoch(epoch), ask, Position(_epoch(last), _lsn(lsn)))


def _unpack_missed(pieces: Sequence[Buffer], _: MakeRecord) -> say.Missed:
    epoch, ask, missed, last, lsn = _MISSED.unpack(pieces[0])
    if memoryview(pieces[0])[_TWO.size] > 1:
        raise RemoteProtocolError("a truth that is neither 0 nor 1")
    return say.Missed(_epoch(epoch), ask, missed, Position(_epoch(last), _lsn(lsn)))


def _unpack_take_transfer(pieces: Sequence[Buffer], _: MakeRecord) -> say.TakeTransfer:
    epoch, before, lsn = _THREE.unpack(pieces[0])
    return say.TakeTransfer(_epoch(epoch), Position(before, _lsn(lsn)))


def _unpack_fetch(pieces: Sequence[Buffer], _: MakeRecord) -> say.Fetch:
    epoch, lsn = _TWO.unpack(pieces[0])
    return say.Fetch(_epoch(epoch), _lsn(lsn))


def _unpack_fetched(pieces: Sequence[Buffer], make: MakeRecord) -> say.Fetched:
    epoch, lsn, count = _FETCHED.unpack_from(pieces[0])
    if not count:
        raise RemoteProtocolError("records that were asked for, and there are none")
    records = unpack_records(pieces, _FETCHED.size, count, make, lsn=_lsn(lsn), epochs=(1, MAX_EPOCH))
    return say.Fetched(_epoch(epoch), lsn, records)


def _unpack_none_fetched(pieces: Sequence[Buffer], _: MakeRecord) -> say.Fetched:
    epoch, lsn, count = _FETCHED.unpack(pieces[0])
    if count:
        raise RemoteProtocolError(f"{count} records that were asked for, and none came")
    return say.Fetched(_epoch(epoch), _lsn(lsn))


def _unpack_ask_records(pieces: Sequence[Buffer], _: MakeRecord) -> of_transfers.AskRecords:
    return of_transfers.AskRecords(_lsn(*_ONE.unpack(pieces[0])))


def _unpack_ask_state(pieces: Sequence[Buffer], _: MakeRecord) -> of_transfers.AskState:
    lsn, offset = _TWO.unpack(pieces[0])
    return of_transfers.AskState(_lsn(lsn), offset)


def _unpack_given_records(pieces: Sequence[Buffer], make: MakeRecord) -> of_transfers.GivenRecords:
    lsn, stop, count = _GIVEN.unpack_from(pieces[0])
    records = unpack_records(pieces, _GIVEN.size, count, make, lsn=_lsn(lsn), epochs=(0, MAX_EPOCH), gaps=True)
    if not records or stop <= records[-1].lsn or stop > MAX_LSN:
        raise RemoteProtocolError(f"a piece of a transfer from {lsn} to {stop} of {count} records")
    return of_transfers.GivenRecords(lsn, stop, records)


def _unpack_given_head(pieces: Sequence[Buffer], _: MakeRecord) -> of_transfers.GivenHead:
    lsn, epoch, first, size, asked = _HEAD.unpack(pieces[0])
    if not first < _lsn(lsn) or epoch > MAX_EPOCH:
        raise RemoteProtocolError(f"a checkpoint before record {lsn}, of epoch {epoch} from {first} on")
    return of_transfers.GivenHead(lsn, epoch, first, size, _lsn(asked))


def _unpack_given_state(pieces: Sequence[Buffer], _: MakeRecord) -> of_transfers.GivenState:
    lsn, offset = _TWO.unpack_from(pieces[0])
    piece = memoryview(pieces[0] if len(pieces) == 1 else b"".join(pieces))[_TWO.size :]
    if not 0 < len(piece) <= MAX_STATE_PIECE_BYTES:
        raise RemoteProtocolError(f"a piece of a state of {len(piece)} bytes")
    return of_transfers.GivenState(_lsn(lsn), offset, piece)


def _unpack_no_transfer(pieces: Sequence[Buffer], _: MakeRecord) -> of_transfers.NoTransfer:
    if len(pieces[0]) > MAX_REASON_BYTES:
        raise RemoteProtocolError(f"a reason of {len(pieces[0])} bytes")
    return of_transfers.NoTransfer(bytes(pieces[0]).decode(errors="replace"))


def _empty(message: Any) -> Callable[[Sequence[Buffer], MakeRecord], Any]:
    def decode(pieces: Sequence[Buffer], _: MakeRecord) -> Any:
        if len(pieces[0]):
            raise RemoteProtocolError(f"{type(message).__name__} has {len(pieces[0])} bytes, and has none")
        return message

    return decode


_DECODE: Final[dict[tuple[int, int], Callable[[Sequence[Buffer], MakeRecord], Any]]] = {
    (_ALIVE, PROMPT): _empty(Alive()),
    (_FOLLOW, PROMPT): _of_epoch(say.Follow),
    (_FOLLOWING, PROMPT): _unpack_following,
    (_REPLICATED, PROMPT): _unpack_beat,
    (_REPLICATED, BULK): _unpack_replicate,
    (_STORES, PROMPT): _unpack_stored,
    (_REFUSED, PROMPT): _of_epoch(say.Refused),
    (_SEAL, PROMPT): _of_epoch(say.Seal),
    (_SEALED, PROMPT): _unpack_sealed,
    (_ASKS, PROMPT): _unpack_missing,
    (_MISSES, PROMPT): _unpack_missed,
    (_FETCH, PROMPT): _unpack_fetch,
    (_FETCHES, PROMPT): _unpack_none_fetched,
    (_FETCHES, BULK): _unpack_fetched,
    (_TAKE_TRANSFER, PROMPT): _unpack_take_transfer,
    (_TAKE_OVER, PROMPT): _of_epoch(say.TakeOver),
    (_ASK_RECORDS, PROMPT): _unpack_ask_records,
    (_ASK_STATE, PROMPT): _unpack_ask_state,
    (_GIVEN_RECORDS, TRANSFER): _unpack_given_records,
    (_GIVEN_HEAD, PROMPT): _unpack_given_head,
    (_GIVEN_STATE, TRANSFER): _unpack_given_state,
    (_WAIT, PROMPT): _empty(of_transfers.Wait()),
    (_HERE, PROMPT): lambda pieces, _: unpack_here(pieces[0]),
    (_TIDINGS, PROMPT): lambda pieces, _: unpack_tidings(pieces[0]),
    (_HEAL, PROMPT): _empty(Heal()),
    (_NO_TRANSFER, PROMPT): _unpack_no_transfer,
}
"""What decodes a kind of message on a lane."""

assert _SUMMARY.size + MAX_EPOCH_STARTS * _TWO.size < FRAME_BYTES
