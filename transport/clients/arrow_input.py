"""What a program may hand in as Arrow data, as record batches: pyarrow's own, and all that speaks the Arrow PyCapsule interface.

https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from transport.clients._pyarrow import pa
from transport.errors import ArrowInputError

PAYLOAD = "payload"
JOINED_ROWS = 10_000
"""Rows to which the small chunks of a table are joined: a copy of those costs less than a frame and a record for each."""
SMALL_ROWS = 1_000
"""A table whose chunks have fewer rows than these on average is joined."""
ACCEPTED = (
    "an Arrow array, record batch or table, anything with __arrow_c_stream__ or __arrow_c_array__ "
    "(of pyarrow, Polars, DuckDB, pandas 2.2), or an iterable of these"
)


def record_batches(data: Any) -> Iterator[Any]:
    """The record batches of ``data``, each made when it is asked for; an array is the column ``payload``.

    Raises:
        ArrowInputError: it is nothing of the kind, or its producer failed.
    """
    try:
        yield from _batches(data)
    except (pa.ArrowException, pa.ArrowTypeError) as error:
        raise ArrowInputError(f"the Arrow data cannot be read: {error}") from error


def _batches(data: Any) -> Iterator[Any]:
    if isinstance(data, pa.RecordBatch):
        yield data
    elif isinstance(data, pa.Table):
        yield from _joined(data)
    elif isinstance(data, pa.RecordBatchReader):
        yield from data
    elif isinstance(data, pa.ChunkedArray):
        yield from map(_of_array, data.chunks)
    elif isinstance(data, pa.Array):
        yield _of_array(data)
    elif hasattr(data, "__arrow_c_stream__"):
        yield from _of_stream(data)
    elif hasattr(data, "__arrow_c_array__"):
        yield _of_array(pa.array(data))
    elif isinstance(data, Iterable) and not isinstance(data, str | bytes | bytearray | memoryview):
        for part in data:
            if isinstance(part, str | bytes | bytearray | memoryview):
                raise _refused(part)
            yield from _batches(part)
    else:
        raise _refused(data)


def _refused(data: Any) -> ArrowInputError:
    return ArrowInputError(
        f"{type(data).__name__} is no Arrow data; what can be sent is {ACCEPTED}. A list of bytes is one by pyarrow.array(...)"
    )


def _of_stream(data: Any) -> Iterator[Any]:
    try:
        reader = pa.RecordBatchReader.from_stream(data)
    except pa.ArrowInvalid:
        # A stream of bare columns, such as a Polars Series is, and not of rows.
        yield from map(_of_array, pa.chunked_array(data).chunks)
        return
    yield from reader


def _of_array(array: Any) -> Any:
    if not pa.types.is_struct(array.type):
        return pa.RecordBatch.from_arrays([array], names=[PAYLOAD])
    if array.null_count:
        raise ArrowInputError("a row is null as a whole; a message has a payload, maybe an empty one")
    return pa.RecordBatch.from_struct_array(array)


def _joined(table: Any) -> Iterator[Any]:
    """A table's batches; small ones joined, of which a thousand rows came as a thousand chunks."""
    parts = table.to_batches()
    if len(parts) < 2 or table.num_rows >= SMALL_ROWS * len(parts):
        yield from parts
        return
    pending: list[Any] = []
    rows = 0
    for part in parts:
        if pending and rows + part.num_rows > JOINED_ROWS:
            yield from _one(pending)
            pending, rows = [], 0
        pending.append(part)
        rows += part.num_rows
    yield from _one(pending)


def _one(parts: list[Any]) -> list[Any]:
    batches: list[Any] = pa.Table.from_batches(parts).combine_chunks().to_batches() if len(parts) > 1 else parts
    return batches
