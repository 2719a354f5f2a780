"""Arrow record batches as message batches: columns are wrapped, not copied, and cut to frames by slicing.

A message batch has Arrow's own layout of variable-size binary, so what is done here is done a column at a time. The message batch keeps the
memory of the Arrow array. Copied are 8-byte offsets (large_binary), views, dictionaries, keys of which some are null, and
headers (`arrow_headers`).

Offsets are checked in full before anything is read by them: 0.001 s a million messages. What only the producer knows, the size of
the memory behind a pointer of the C interface, nobody can check.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from actors.batch import ID_BYTES, OFFSET_BYTES, BinaryColumn, MessageBatch
from transport.clients._pyarrow import pa, pc
from transport.clients.arrow_headers import check_packed, packed_headers
from transport.clients.arrow_input import PAYLOAD, record_batches
from transport.errors import ArrowInputError
from transport.wire.frames import MAX_BODY_BYTES
from transport.wire.receiving import SHARED_BUFFER_BYTES

KEY, HEADERS, ID = "key", "headers", "id"
OTHER_NAMES = {"value": PAYLOAD, "message_id": ID}
"""Spark's names for them, so that what Spark has read can be sent as it is."""
OF_A_DELIVERY = frozenset({"queue", "sequence", "position", "enqueued_at", "delivery_count", "possibly_replayed"})
"""Columns that say how a message came; of a table that was received and is sent on they are passed over."""
INDEX_COLUMN = re.compile(r"__index_level_\d+__")
"""What pandas makes of an index."""
ARROW_BATCH_BYTES = SHARED_BUFFER_BYTES - 2048
"""Bytes of a batch: with its header it fits what both ends receive into. A larger one needs memory of its own, whose pages the system has
to make."""
SLICE_ROWS = 65_536
"""Rows that are worked on at a time: bounds the memory for what is copied."""
SLICE_DECODED_BYTES = 64 * 1024 * 1024
"""Bytes that a column of a dictionary or of views may become at a time; rows are halved until they do, or are one."""
VIEW_BYTES = 16
"""Of a view, the first four of which are the length of its value."""

_WIDE = pa.large_binary()


def message_batches(data: Any, max_bytes: int = ARROW_BATCH_BYTES) -> Iterator[MessageBatch]:
    """The messages of Arrow ``data``, in order, in batches of about ``max_bytes``; each batch is made when it is asked for.

    Args:
        data: a column of payloads (binary or text of any of Arrow's layouts), or rows with the column ``payload`` and, if you like, ``key``
            (binary or text; null or empty for none), ``headers`` (see `arrow_headers.SHAPES`; null for none) and ``id`` (16 bytes, in every
            row or in none). What a receiver adds to these is passed over. See `arrow_input.ACCEPTED` for what data can be.
        max_bytes: bytes of a batch at most, one message at least; never more than fits a frame, 16 MiB.

    Raises:
        ArrowInputError: it is no Arrow data or has not these columns, or a row is no message: a null payload, a message larger than a
            frame, wrong headers. It names the row, counted from 0 over all of ``data``.
    """
    limit = max(1, min(max_bytes, MAX_BODY_BYTES))
    first = 0
    for records in record_batches(data):
        columns = _message_columns(records)
        for part in _slices(columns):
            yield from _Rows(part, first).batches(limit)
            first += part.num_rows


def _message_columns(records: Any) -> Any:
    """The columns that a message has, under our names."""
    names = [OTHER_NAMES.get(name, name) for name in records.schema.names]
    wanted = [name for name in names if name in (PAYLOAD, KEY, HEADERS, ID)]
    described = ", ".join(records.schema.names) or "none"
    if PAYLOAD not in wanted:
        raise ArrowInputError(f"there is no column payload; the columns are: {described}")
    if len(set(wanted)) < len(wanted):
        raise ArrowInputError(
            f"a column is there twice (value is payload, message_id is id); the columns are: {described}"
        )
    unknown = [
        name for name in names if name not in wanted and name not in OF_A_DELIVERY and not INDEX_COLUMN.fullmatch(name)
    ]
    if unknown:
        raise ArrowInputError(
            f"a message has no {', '.join(unknown)}; its columns are payload, key, headers and id: select these, and put the rest "
            "into the payload or the headers"
        )
    return pa.RecordBatch.from_arrays([records.column(names.index(name)) for name in wanted], names=wanted)


def _slices(records: Any) -> Iterator[Any]:
    for start in range(0, records.num_rows, SLICE_ROWS):
        yield from _within_decoded(records.slice(start, SLICE_ROWS))


def _within_decoded(records: Any) -> Iterator[Any]:
    """``records`` in parts whose dictionaries and views become no more memory than is good: many may be of the same bytes."""
    if records.num_rows < 2 or all(_decoded_bytes(column) <= SLICE_DECODED_BYTES for column in records.columns):
        yield records
        return
    half = records.num_rows // 2
    yield from _within_decoded(records.slice(0, half))
    yield from _within_decoded(records.slice(half))


def _decoded_bytes(column: Any) -> int:
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    try:
        if _is_view(column.type):
            column.validate()
            return _bytes_of_views(column)
        if not pa.types.is_dictionary(column.type):
            return 0
        values = column.dictionary
        if _is_view(values.type):
            values = values.cast(_WIDE)
        column.validate(full=True)
        lengths = pc.binary_length(values).take(column.indices)
    except (pa.ArrowException, NotImplementedError):
        return 0  # whoever decodes it says what is wrong
    return int(pc.sum(lengths.cast(pa.int64())).as_py() or 0)


def _bytes_of_views(column: Any) -> int:
    words = VIEW_BYTES // OFFSET_BYTES
    views = pa.Array.from_buffers(
        pa.int32(), words * len(column), [None, column.buffers()[1]], offset=words * column.offset
    )
    lengths = views.take(pa.array(range(0, len(views), words))).cast(pa.int64())
    # What stands in the place of a null is no length.
    return int(pc.sum(lengths.filter(column.is_valid())).as_py() or 0)


def _binary(column: Any, name: str) -> Any:
    """A column of bytes or text as binary, or large_binary where its offsets are wide, checked in full."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind = column.type
    try:
        if pa.types.is_dictionary(kind):
            column.validate(full=True)
            # Of binary values: Arrow picks none out of views.
            binary = pa.DictionaryArray.from_arrays(column.indices, _binary(column.dictionary, name))
            return _binary(binary.dictionary_decode(), name)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            # Without a copy, and without a look at the text: bytes are bytes.
            column = column.cast(pa.binary() if pa.types.is_string(kind) else _WIDE)
        column.validate(full=True)
        if not (pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)):
            if not _convertible(kind):
                raise ArrowInputError(f"column {name} has the type {kind}; cast it to binary or to text before")
            # Wide: where they are more than 2 GiB, Arrow's narrow offsets begin anew without a word, and rows have wrong values.
            column = column.cast(_WIDE)
    except (pa.ArrowException, NotImplementedError) as error:
        raise ArrowInputError(f"column {name} of type {kind} cannot be read as binary: {error}") from error
    return column


def _convertible(kind: Any) -> bool:
    return bool(_is_view(kind) or pa.types.is_fixed_size_binary(kind))


def _is_view(kind: Any) -> bool:
    return bool(pa.types.is_binary_view(kind) or pa.types.is_string_view(kind))


class _Column:
    """A binary column between its offsets, which are int32 or int64."""

    __slots__ = ("_array", "_data", "_wide", "offsets")

    def __init__(self, array: Any) -> None:
        self._array = array
        self._wide = array.type == _WIDE
        _, offsets, data = array.buffers()
        width = OFFSET_BYTES * 2 if self._wide else OFFSET_BYTES
        raw = memoryview(offsets).cast("B")[array.offset * width : (array.offset + len(array) + 1) * width]
        self.offsets = raw.cast("q" if self._wide else "i")
        self._data = memoryview(b"") if data is None else memoryview(data).cast("B")

    def bytes_before(self, row: int) -> int:
        return self.offsets[row] - self.offsets[0]

    def part(self, start: int, stop: int) -> BinaryColumn:
        offsets = self.offsets
        data = self._data[offsets[start] : offsets[stop]]
        if not self._wide:
            return BinaryColumn(offsets[start : stop + 1], data)
        wide = pa.Array.from_buffers(
            pa.int64(), stop - start + 1, [None, self._array.buffers()[1]], offset=self._array.offset + start
        )
        narrow = pc.subtract(wide, wide[0]).cast(pa.int32())
        raw = memoryview(narrow.buffers()[1]).cast("B")[: (stop - start + 1) * OFFSET_BYTES]
        return BinaryColumn(raw.cast("i"), data)


class _Rows:
    """So many rows of a program's, each a message; ``first`` is the number of the first."""

    def __init__(self, records: Any, first: int) -> None:
        self._count = records.num_rows
        self._first = first
        names = records.schema.names
        self._payloads = _Column(self._payload(records.column(PAYLOAD)))
        self._keys = self._key(records.column(KEY)) if KEY in names else None
        self._headers = self._header(records.column(HEADERS)) if HEADERS in names else None
        self._ids = self._id(records.column(ID)) if ID in names else None
        self._columns = [column for column in (self._payloads, self._keys, self._headers) if column is not None]

    def batches(self, limit: int) -> Iterator[MessageBatch]:
        """The rows in batches of ``limit`` bytes at most, or of one message."""
        whole = self._size(0, self._count)
        # Cut evenly: a batch that is a little too large becomes two halves, not one and a crumb.
        even = -(-whole // -(-whole // limit))
        start = 0
        while start < self._count:
            stop = bisect_right(range(start + 1, self._count), even, key=lambda end: self._size(start, end)) + start
            stop = max(stop, start + 1)
            if self._size(start, self._count) <= limit:
                stop = self._count
            size = self._size(start, stop)
            if size > MAX_BODY_BYTES:
                raise ArrowInputError(
                    f"row {self._first + start} is a message of {size} bytes, which exceeds the {MAX_BODY_BYTES} that fit a frame; "
                    "split it or send a reference to it"
                )
            yield MessageBatch(
                self._payloads.part(start, stop),
                None if self._ids is None else self._ids[start * ID_BYTES : stop * ID_BYTES],
                None if self._keys is None else self._keys.part(start, stop),
                None if self._headers is None else self._headers.part(start, stop),
            )
            start = stop

    def _size(self, start: int, stop: int) -> int:
        """Bytes of the body of the rows from ``start`` to before ``stop``."""
        size = 0 if self._ids is None else ID_BYTES * (stop - start)
        for column in self._columns:
            size += OFFSET_BYTES * (stop - start + 1) + column.offsets[stop] - column.offsets[start]
        return size

    def _payload(self, column: Any) -> Any:
        if column.null_count:
            row = self._row(column.is_null())
            raise ArrowInputError(f"row {row} has no payload: it is null; a message has a payload, maybe an empty one")
        return self._without_nulls(_binary(column, PAYLOAD), PAYLOAD)

    def _key(self, column: Any) -> _Column | None:
        return None if pa.types.is_null(column.type) else self._if_any(_binary(column, KEY))

    def _header(self, column: Any) -> _Column | None:
        if column.null_count == len(column):
            return None
        try:
            column.validate(full=True)
            values = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        except pa.ArrowException as error:
            raise ArrowInputError(f"column headers of type {column.type} cannot be read: {error}") from error
        kind = values.type
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or _convertible(kind):
            values = _binary(values, HEADERS)
            check_packed(values, self._first)
        else:
            values = packed_headers(values, self._first)
        return self._if_any(values)

    def _id(self, column: Any) -> memoryview | None:
        if column.null_count == len(column):
            return None
        ids = _binary(column, ID)
        if ids.null_count:
            row = self._row(ids.is_null())
            raise ArrowInputError(f"row {row} has no id, but others have; give every row one, or none")
        wrong = pc.not_equal(pc.binary_length(ids), ID_BYTES)
        if pc.any(wrong).as_py():
            raise ArrowInputError(f"row {self._row(wrong)} has an id that is not of {ID_BYTES} bytes")
        return _Column(ids).part(0, self._count).data

    def _if_any(self, column: Any) -> _Column | None:
        """A column whose nulls are empty; None where all of it is: an empty key or map means none, and would only cost room."""
        if column.null_count:
            column = pc.fill_null(column, pa.scalar(b"", column.type))
        filled = _Column(column)
        return filled if filled.bytes_before(self._count) else None

    def _without_nulls(self, column: Any, name: str) -> Any:
        if column.null_count:  # a dictionary may have a null among its values
            raise ArrowInputError(f"row {self._row(column.is_null())} has no {name}: it is null")
        return column

    def _row(self, mask: Any) -> int:
        """The number of the first row of which ``mask`` is true."""
        return self._first + int(pc.index(mask, True).as_py())
