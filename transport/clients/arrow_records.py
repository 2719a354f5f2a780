"""Delivered batches as Arrow record batches: payloads, keys and ids wrapped where they lie, the rest computed a column at a time.

The arrays keep the frame that they came in, up to 16 MiB, for as long as any array or slice of it is there. Whoever keeps a few rows of
many batches copies them: ``pyarrow.concat_batches([rows])`` or ``take``.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from actors.batch import ID_BYTES, OFFSET_BYTES, BinaryColumn
from transport.clients._pyarrow import pa, pc
from transport.clients.arrow_headers import HEADERS_TYPE, header_maps
from transport.clients.delivery import DeliveredBatch
from transport.errors import LocalProtocolError

TYPES: dict[str, Any] = {
    "payload": pa.binary(),
    "key": pa.binary(),
    "headers": HEADERS_TYPE,
    "id": pa.binary(ID_BYTES),
    "queue": pa.string(),
    "sequence": pa.int64(),
    "enqueued_at": pa.timestamp("us", tz="UTC"),
    "delivery_count": pa.int32(),
    "possibly_replayed": pa.bool_(),
}
"""A receiver's columns: those of a sender, then what the broker says of the delivery."""
PACKED = "packed_headers"
"""One more, for whoever asks: headers as they came, msgpack maps in a binary column."""
DEFAULT_COLUMNS = tuple(TYPES)
COUNTING_ROWS = 65_536
"""Rows of a batch up to which numbers come from a list made once, 512 KiB."""


def arrow_schema(columns: Sequence[str] = DEFAULT_COLUMNS) -> Any:
    """The Arrow schema of a receiver's record batches with these columns, in this order.

    Raises:
        LocalProtocolError: a column that there is not, or one twice, or none.
    """
    known = TYPES | {PACKED: pa.binary()}
    unknown = [name for name in columns if name not in known]
    if unknown or isinstance(columns, str):
        raise LocalProtocolError(
            f"there is no column {columns if isinstance(columns, str) else unknown[0]!r}; there are: {', '.join(known)}"
        )
    if not columns or len(set(columns)) < len(columns):
        raise LocalProtocolError(f"columns are {list(columns)}: give each once, and one at least")
    return pa.schema([(name, known[name]) for name in columns])


class ArrowDelivery:
    """A delivered batch as an Arrow record batch, and the way to answer for all of it at once.

    Attributes:
        records: the messages, one a row, in the columns that were asked for. It stays readable after the answer.
    """

    __slots__ = ("_delivered", "records")

    def __init__(self, delivered: DeliveredBatch, schema: Any) -> None:
        self._delivered = delivered
        self.records = record_batch(delivered, schema)

    def __len__(self) -> int:
        return len(self._delivered)

    def __repr__(self) -> str:
        return f"ArrowDelivery({self._delivered!r})"

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """The records by the Arrow PyCapsule interface: ``polars.DataFrame(delivery)``."""
        schema, records = self.records.__arrow_c_array__(requested_schema)
        return schema, records

    def acknowledge(self) -> None:
        """Every message of it is done; without effect the second time."""
        self._delivered.acknowledge()

    def reject(self, delay: float = 0.0, error: str | None = None) -> None:
        """Every message of it is to come again, after ``delay`` seconds; see `DeliveredBatch.reject`."""
        self._delivered.reject(delay, error)

    def extend(self, seconds: float) -> None:
        """Handling needs ``seconds`` from now: do not redeliver before; see `DeliveredBatch.extend`."""
        self._delivered.extend(seconds)

    def __untaken__(self) -> None:
        """It was handed on, and nobody has taken it."""
        self._delivered.__untaken__()

    def __passed_by__(self) -> None:
        """The stream ends before it, and has not worked on it."""
        self._delivered.__passed_by__()


def record_batch(delivered: DeliveredBatch, schema: Any) -> Any:
    """A delivered batch's messages as a record batch of ``schema``, which is from `arrow_schema`."""
    return pa.RecordBatch.from_arrays([_MAKERS[name](delivered) for name in schema.names], schema=schema)


def _payload(delivered: DeliveredBatch) -> Any:
    return _binary(delivered.batch.payloads)


def _key(delivered: DeliveredBatch) -> Any:
    return _or_null(delivered.batch.keys, len(delivered))


def _packed_headers(delivered: DeliveredBatch) -> Any:
    return _or_null(delivered.batch.headers, len(delivered))


def _headers(delivered: DeliveredBatch) -> Any:
    packed = delivered.batch.headers
    return pa.nulls(len(delivered), HEADERS_TYPE) if packed is None else header_maps(_binary(packed))


def _id(delivered: DeliveredBatch) -> Any:
    rows, ids = len(delivered), delivered.batch.ids
    if ids is None:
        ids = _generated_ids(delivered.message_id(0), delivered.first, rows)
    return pa.Array.from_buffers(TYPES["id"], rows, [None, pa.py_buffer(ids)])


def _generated_ids(first_id: bytes, first: int, rows: int) -> memoryview:
    """The queue's part of an id, and its message's number: both eight bytes, big-endian."""
    ids = bytearray(first_id * rows)
    numbers = memoryview(pc.add(_counting(rows), _scalar(pa.int64(), first)).buffers()[1]).tobytes()
    # Of the numbers of a batch all but the last few bytes are those of the first.
    for place in range(((first ^ (first + rows - 1)).bit_length() + 7) // 8):
        ids[ID_BYTES - 1 - place :: ID_BYTES] = numbers[place : 8 * rows : 8]
    return memoryview(ids)


def _queue(delivered: DeliveredBatch) -> Any:
    name, rows = delivered.queue.encode(), len(delivered)
    offsets = pc.multiply(_counting(rows + 1).cast(pa.int32()), _scalar(pa.int32(), len(name)))
    return pa.Array.from_buffers(pa.string(), rows, [None, offsets.buffers()[1], pa.py_buffer(name * rows)])


def _sequence(delivered: DeliveredBatch) -> Any:
    return pc.add(_counting(len(delivered)), _scalar(pa.int64(), delivered.first))


def _enqueued_at(delivered: DeliveredBatch) -> Any:
    return _repeated(TYPES["enqueued_at"], delivered.enqueued_us.to_bytes(8, "little", signed=True), len(delivered))


def _delivery_count(delivered: DeliveredBatch) -> Any:
    return _repeated(
        TYPES["delivery_count"], delivered.delivery_count.to_bytes(4, "little", signed=True), len(delivered)
    )


def _possibly_replayed(delivered: DeliveredBatch) -> Any:
    # Bits: one more byte than may be needed does not hurt.
    rows = len(delivered)
    bits = (b"\xff" if delivered.possibly_replayed else b"\0") * (rows // 8 + 1)
    return pa.Array.from_buffers(pa.bool_(), rows, [None, pa.py_buffer(bits)])


_MAKERS: dict[str, Callable[[DeliveredBatch], Any]] = {
    "payload": _payload,
    "key": _key,
    "headers": _headers,
    PACKED: _packed_headers,
    "id": _id,
    "queue": _queue,
    "sequence": _sequence,
    "enqueued_at": _enqueued_at,
    "delivery_count": _delivery_count,
    "possibly_replayed": _possibly_replayed,
}


def _repeated(kind: Any, value: bytes, rows: int) -> Any:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(value * rows)])


def _or_null(column: BinaryColumn | None, rows: int) -> Any:
    """A column in which empty means none."""
    if column is None:
        return pa.nulls(rows, pa.binary())
    values = _binary(column)
    present = pc.not_equal(pc.binary_length(values), _scalar(pa.int32(), 0)).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), rows, [present, *values.buffers()[1:]])


def _binary(column: BinaryColumn) -> Any:
    """A column as an Arrow array; the broker has checked its offsets."""
    offsets = pa.py_buffer(column.offsets)
    first = column.offsets[0]
    # Arrow wants offsets that its machine can load at once; where a frame put them is chance.
    if offsets.address % OFFSET_BYTES:
        offsets = pa.py_buffer(column.offsets.tobytes())
    if first:
        numbers = pa.Array.from_buffers(pa.int32(), len(column) + 1, [None, offsets])
        offsets = pc.subtract(numbers, numbers[0]).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), len(column), [None, offsets, pa.py_buffer(column.data)])


def _scalar(kind: Any, value: int) -> Any:
    # Not by pyarrow.scalar, which imports pandas where that is installed: a second of work before the first message.
    raw = value.to_bytes(kind.bit_width // 8, "little", signed=True)
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(raw)])[0]


def _counting(rows: int) -> Any:
    """0, 1, 2 ... as int64."""
    return _counted(COUNTING_ROWS).slice(0, rows) if rows <= COUNTING_ROWS else _counted.__wrapped__(rows)


@cache
def _counted(rows: int) -> Any:
    # Of a buffer, as `_scalar`.
    return pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(array("q", range(rows)))])
