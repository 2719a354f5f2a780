"""Fetched batches as Arrow record batches.

The wire's columns are Arrow's layout, so the payloads of a batch become a column without being copied: Arrow keeps the frame's memory.
Only what is computed (sequence numbers, generated ids, offsets that do not start at zero) is made anew, with numpy, never
message by message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import msgpack
import numpy as np
import pyarrow as pa

from spark_bridge import schema as columns
from spark_bridge.errors import BadHeadersError
from transport.clients.subscription_client import Fetched
from transport.wire.amqp_headers import told_headers

WHOLE_ROWS = 5_000
"""A batch with so many messages is worth a record batch of its own; copying smaller ones together costs less than what is fixed for each,
ours (46 ms a million rows in batches of 1,000, 27 joined) and Spark's."""
COALESCE_ROWS = 10_000
COALESCE_BYTES = 2**20
"""Where joining small batches stops: well above Spark's fixed cost for a record batch, well below what a worker may hold."""
ID_BYTES = 16
MAX_HEADERS = 64 + 8
"""As many as a message may have: its sender's, and those that a broker adds to a dead letter."""

Int32 = np.dtype("<i4")


class BinaryLayout(Protocol):
    """Arrow's variable-size binary layout, as a fetched batch has it."""

    offsets: memoryview
    data: memoryview


class RecordBatchBuilder:
    """Builds record batches of one schema.

    Args:
        schema: from `spark_bridge.schema.arrow_schema`; only its columns are built.
        queue: the queue's name.
        id_prefix: the first 8 bytes of the queue's generated ids.
        bad_headers: ``null`` or ``fail``: what becomes of headers that cannot be read.
    """

    def __init__(self, schema: pa.Schema, queue: str, id_prefix: bytes, bad_headers: str = "null") -> None:
        self._schema = schema
        self._bad_headers = bad_headers
        self._queue = queue.encode()
        self._id_prefix = int.from_bytes(id_prefix, "big")
        makers: dict[str, Callable[[Sequence[Fetched], int], pa.Array]] = {
            columns.VALUE: self._value,
            columns.KEY: self._key,
            columns.QUEUE: self._queue_name,
            columns.POSITION: self._position,
            columns.ENQUEUED_AT: self._enqueued_at,
            columns.MESSAGE_ID: self._message_id,
            columns.DELIVERY_COUNT: self._delivery_count,
            columns.POSSIBLY_REPLAYED: self._possibly_replayed,
            columns.HEADERS: self._headers,
        }
        self._makers = [makers[name] for name in schema.names]

    def batches(self, fetched: Iterable[Fetched]) -> Iterator[pa.RecordBatch]:
        """Every message of ``fetched``, in order; small batches joined, large ones as they come."""
        pending: list[Fetched] = []
        rows = size = 0
        for part in fetched:
            count, nbytes = len(part.batch), part.batch.nbytes
            whole = count >= WHOLE_ROWS or nbytes >= COALESCE_BYTES
            if pending and (whole or rows + count > COALESCE_ROWS or size + nbytes > COALESCE_BYTES):
                yield self.build(pending)
                pending, rows, size = [], 0, 0
            if whole:
                yield self.build([part])
            else:
                pending.append(part)
                rows += count
                size += nbytes
        if pending:
            yield self.build(pending)

    def build(self, parts: Sequence[Fetched]) -> pa.RecordBatch:
        """One record batch of all of ``parts``."""
        rows = sum(len(part.batch) for part in parts)
        return pa.RecordBatch.from_arrays([make(parts, rows) for make in self._makers], schema=self._schema)

    def _value(self, parts: Sequence[Fetched], rows: int) -> pa.Array:
        return _binary(rows, *_joined([part.batch.payloads for part in parts]))

    def _key(self, parts: Sequence[Fetched], rows: int) -> pa.Array:
        if all(part.batch.keys is None for part in parts):
            return pa.nulls(rows, pa.binary())
        offsets, data = _joined([_or_empty(part.batch.keys, len(part.batch)) for part in parts])
        # An empty key means no key.
        present = np.packbits(np.diff(offsets) > 0, bitorder="little")
        return _binary(rows, offsets, data, pa.py_buffer(present))

    def _queue_name(self, parts: Sequence[Fetched], rows: int) -> pa.Array:  # noqa: ARG002 - as its siblings
        offsets = np.arange(rows + 1, dtype=Int32) * np.int32(len(self._queue))
        return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(self._queue * rows))

    def _position(self, parts: Sequence[Fetched], rows: int) -> pa.Array:
        return pa.array(_sequence_numbers(parts, rows), pa.int64())

    def _enqueued_at(self, parts: Sequence[Fetched], rows: int) -> pa.Array:
        times = _repeated([part.enqueued_us for part in parts], parts, np.int64)
        return pa.Array.from_buffers(pa.timestamp("us", tz="UTC"), rows, [None, pa.py_buffer(times)])

    def _message_id(self, parts: Sequence[Fetched], rows: int) -> pa.Array:
        ids = np.empty((rows, 2), dtype=">u8")
        ids[:, 0] = self._id_prefix
        ids[:, 1] = _sequence_numbers(parts, rows)
        row = 0
        for part in parts:
            count = len(part.batch)
            if part.batch.ids is not None:
                ids[row : row + count] = np.frombuffer(part.batch.ids, dtype=">u8").reshape(count, 2)
            row += count
        return _binary(rows, np.arange(rows + 1, dtype=Int32) * np.int32(ID_BYTES), ids)

    def _delivery_count(self, parts: Sequence[Fetched], rows: int) -> pa.Array:  # noqa: ARG002 - as its siblings
        return pa.array(_repeated([part.delivery_count for part in parts], parts, np.int32), pa.int32())

    def _possibly_replayed(self, parts: Sequence[Fetched], rows: int) -> pa.Array:  # noqa: ARG002 - as its siblings
        return pa.array(_repeated([part.possibly_replayed for part in parts], parts, np.bool_), pa.bool_())

    def _headers(self, parts: Sequence[Fetched], rows: int) -> pa.Array:
        arrow_type = self._schema.field(columns.HEADERS).type
        if all(part.batch.headers is None for part in parts):
            return pa.nulls(rows, arrow_type)
        values: list[list[tuple[str, bytes]] | None] = []
        for part in parts:
            packed = part.batch.headers
            values += [None] * len(part.batch) if packed is None else self._unpacked(part.first, packed)
        return pa.array(values, arrow_type)

    def _unpacked(self, first: int, packed: Iterable[bytes]) -> Iterator[list[tuple[str, bytes]] | None]:
        for number, one in enumerate(packed, first):
            headers = _unpacked(one)
            if headers is None and one and self._bad_headers == "fail":
                raise BadHeadersError(self._queue.decode(), number)
            yield headers


def _joined(parts: Sequence[BinaryLayout]) -> tuple[Any, Any]:
    """(int32 offsets from zero, data) of the values of all parts; one part's data is not copied."""
    if len(parts) == 1:
        offsets = np.frombuffer(parts[0].offsets, dtype=Int32)
        # Arrow wants offsets that its machine can load at once; where a frame put them is chance.
        if offsets[0] or not offsets.flags.aligned:
            offsets = offsets - offsets[0]
        return offsets, parts[0].data
    lengths = [np.diff(np.frombuffer(part.offsets, dtype=Int32)) for part in parts]
    offsets = np.concatenate([np.zeros(1, dtype=Int32), *lengths])
    return np.cumsum(offsets, dtype=Int32), b"".join([part.data for part in parts])


def _or_empty(column: BinaryLayout | None, count: int) -> BinaryLayout:
    return _Empty(count) if column is None else column


class _Empty:
    """A column of ``count`` empty values."""

    __slots__ = ("data", "offsets")

    def __init__(self, count: int) -> None:
        self.offsets = memoryview(bytes(4 * (count + 1)))
        self.data = memoryview(b"")


def _binary(rows: int, offsets: Any, data: Any, validity: Any = None) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(), rows, [validity, pa.py_buffer(offsets), pa.py_buffer(data)])


def _sequence_numbers(parts: Sequence[Fetched], rows: int) -> Any:
    numbers = np.empty(rows, dtype=np.int64)
    row = 0
    for part in parts:
        count = len(part.batch)
        numbers[row : row + count] = np.arange(part.first, part.first + count)
        row += count
    return numbers


def _repeated(values: Sequence[int], parts: Sequence[Fetched], dtype: Any) -> Any:
    """Each part's value once for each of its messages."""
    return np.repeat(np.array(values, dtype=dtype), [len(part.batch) for part in parts])


def _unpacked(packed: bytes) -> list[tuple[str, bytes]] | None:
    """One message's headers; None for none, and for bytes that are none."""
    if not packed:
        return None
    try:
        headers = msgpack.unpackb(packed, max_map_len=MAX_HEADERS, max_array_len=0, max_ext_len=0, strict_map_key=True)
    except (ValueError, msgpack.UnpackException):
        return None
    if not isinstance(headers, dict) or not all(
        isinstance(key, str) and isinstance(value, str | bytes) for key, value in headers.items()
    ):
        return None
    return [(key, value.encode() if isinstance(value, str) else value) for key, value in told_headers(headers).items()]
