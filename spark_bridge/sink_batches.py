"""Arrow record batches as message batches, one for each queue.

The wire's columns are Arrow's variable-size binary layout, so a column of payloads or keys is wrapped, not copied: the message batch
keeps the record batch's memory. Rows are copied, by Arrow, only where a batch has several queues. Headers alone are packed row by
row, and only where there is such a column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import msgpack
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_bridge.errors import WriteError
from spark_bridge.option_values import name as checked_name
from spark_bridge.schema import HEADERS, KEY, QUEUE, ROUTING_KEY, VALUE
from transport import BinaryColumn, MessageBatch
from transport.clients.arrow_headers import wrong_with

MAX_COLUMN_BYTES = 2**31 - 1
"""Offsets are int32 on the wire."""

_WIDE = pa.large_binary()
_Entries: TypeAlias = list[tuple[str | None, str | bytes | None]]


class MessageBatchBuilder:
    """Makes message batches of the record batches of one task.

    Args:
        queue: where a row goes that names no queue, an exchange's name where all go there; None if every row must name one.
        max_column_bytes: bytes of one column of a message batch at most.
    """

    def __init__(self, queue: str | None, max_column_bytes: int = MAX_COLUMN_BYTES) -> None:
        self._queue = queue
        self._max_column_bytes = max_column_bytes
        self._rows = 0

    def batches(self, records: pa.RecordBatch) -> Iterator[tuple[str, MessageBatch]]:
        """(queue, messages) for each queue that ``records`` names; the rows of one queue in their order.

        Raises:
            WriteError: a row without a value or a queue, with a name that no queue can have, with headers that no message can
                have, or too large. It says which row of the task, counted from 0.
        """
        first, self._rows = self._rows, self._rows + records.num_rows
        if not records.num_rows:
            return
        columns = _message_columns(records, first)
        for queue, part in self._by_queue(records, columns, first):
            for piece in self._within_limit(part, first):
                yield queue, _message_batch(piece)

    def _by_queue(
        self, records: pa.RecordBatch, columns: pa.RecordBatch, first: int
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        if QUEUE not in records.schema.names:
            yield self._named(self._queue, first), columns
            return
        named = _decoded(records.column(QUEUE))
        if self._queue is not None and named.null_count:
            named = pc.fill_null(named, pa.scalar(self._queue, named.type))
        encoded = named.dictionary_encode(null_encoding="encode")
        codes = encoded.indices.to_numpy()
        # The row that names a queue first, for the error about it.
        _, where = np.unique(codes, return_index=True)
        queues = [
            self._named(queue, first + int(row))
            for queue, row in zip(encoded.dictionary.to_pylist(), where, strict=True)
        ]
        if len(queues) == 1:
            yield queues[0], columns
            return
        # One stable sort instead of one search a queue: the rows of a queue stay in order, and each part is a slice.
        sorted_columns = columns.take(pa.array(np.argsort(codes, kind="stable")))
        row = 0
        for queue, count in zip(queues, np.bincount(codes, minlength=len(queues)), strict=True):
            yield queue, sorted_columns.slice(row, int(count))
            row += int(count)

    def _named(self, queue: str | None, row: int) -> str:
        """``queue`` if there can be one of this name; ``row`` is the first that names it."""
        if queue is None:
            raise WriteError(f"row {row} of this task has no queue: column queue is null, and there is no option queue")
        try:
            return checked_name(queue)
        except ValueError as error:
            raise WriteError(
                f"row {row} of this task names a queue {queue!r:.60} that there cannot be: {error}"
            ) from None

    def _within_limit(self, columns: pa.RecordBatch, first: int) -> Iterator[pa.RecordBatch]:
        """``columns`` in parts none of whose columns is larger than offsets can say."""
        size = max(_data_bytes(column) for column in columns.columns)
        if size <= self._max_column_bytes:
            yield columns
        elif columns.num_rows == 1:
            raise WriteError(
                f"a row of this task's rows from {first} on has {size} bytes; a column of a batch has at most "
                f"{self._max_column_bytes}: split it or send a reference to it"
            )
        else:
            half = columns.num_rows // 2
            yield from self._within_limit(columns.slice(0, half), first)
            yield from self._within_limit(columns.slice(half), first)


def _message_columns(records: pa.RecordBatch, first: int) -> pa.RecordBatch:
    """Value, and where a row has any key and headers, as binary columns without nulls."""
    value = _binary(records.column(VALUE))
    if value.null_count:
        row = first + int(pc.index(value.is_null(), True).as_py())
        raise WriteError(
            f"row {row} of this task has no value: column value is null; a message has a payload, maybe an empty one"
        )
    columns = {VALUE: value}
    names = records.schema.names
    named = ROUTING_KEY if ROUTING_KEY in names else KEY
    if named in names:
        key = _binary(records.column(named))
        if key.null_count:
            key = pc.fill_null(key, pa.scalar(b"", key.type))
        columns[KEY] = key
    if HEADERS in names and records.column(HEADERS).null_count < records.num_rows:
        columns[HEADERS] = _packed_headers(records.column(HEADERS), first)
    # An empty key or map means none, and a column of them would only cost room.
    kept = {name: column for name, column in columns.items() if name == VALUE or _data_bytes(column)}
    return pa.RecordBatch.from_arrays(list(kept.values()), names=list(kept))


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _binary(array: pa.Array) -> pa.Array:
    """A column of bytes or text as binary, or as large_binary where its offsets are wide: both without copying."""
    array = _decoded(array)
    wide = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    return array.cast(_WIDE if wide else pa.binary())


def _offsets(array: pa.Array) -> Any:
    """The offsets of a binary array's own rows, as they stand."""
    dtype = np.int64 if array.type == _WIDE else np.int32
    return np.frombuffer(array.buffers()[1], dtype=dtype, count=array.offset + len(array) + 1)[array.offset :]


def _data_bytes(array: pa.Array) -> int:
    offsets = _offsets(array)
    return int(offsets[-1]) - int(offsets[0])


def _message_batch(columns: pa.RecordBatch) -> MessageBatch:
    """One message batch; the columns are binary, without nulls, and within int32 offsets."""
    wrapped = {name: _wrapped(columns.column(name)) for name in columns.schema.names}
    return MessageBatch(wrapped[VALUE], None, wrapped.get(KEY), wrapped.get(HEADERS))


def _wrapped(array: pa.Array) -> BinaryColumn:
    offsets = _offsets(array)
    start, stop = int(offsets[0]), int(offsets[-1])
    if array.type == _WIDE:
        offsets = (offsets - start).astype(np.int32)
    buffer = array.buffers()[2]
    data = memoryview(b"" if buffer is None else buffer)[start:stop]
    # Spark made the offsets, and the broker checks every one of them.
    return BinaryColumn.from_buffers(memoryview(offsets), data, checked=True)


def _packed_headers(array: pa.Array, first: int) -> pa.Array:
    """One msgpack map a message, empty for none."""
    packed = []
    for row, entries in enumerate(array.to_pylist(), start=first):
        pairs: _Entries = [
            (entry["key"], entry["value"]) if isinstance(entry, Mapping) else entry for entry in entries or ()
        ]
        packed.append(_packed(pairs, row))
    return pa.array(packed, _WIDE)


def _packed(entries: _Entries, row: int) -> bytes:
    if not entries:
        return b""
    wrong = wrong_with(tuple(entries))
    if wrong:
        raise WriteError(f"row {row} of this task has {wrong}")
    packed: bytes = msgpack.packb(dict(entries))
    return packed
