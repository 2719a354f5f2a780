"""Arrow data becomes message batches of the same values, without a copy of the payloads, cut to frames, or is refused by its row."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from transport import ArrowInputError, Message, MessageBatch  # noqa: E402 - behind what may be missing
from transport.clients.arrow_batches import ARROW_BATCH_BYTES, message_batches  # noqa: E402
from transport.clients.arrow_headers import HEADERS_TYPE  # noqa: E402
from transport.wire.frames import MAX_BODY_BYTES  # noqa: E402

TEXTS = ["a", "", "ö" * 9, "b" * 40, "a"]
PAYLOADS = [text.encode() for text in TEXTS]
LAYOUTS = {
    "binary": pa.array(PAYLOADS, pa.binary()),
    "large binary": pa.array(PAYLOADS, pa.large_binary()),
    "binary view": pa.array(PAYLOADS, pa.binary_view()),
    "string": pa.array(TEXTS),
    "large string": pa.array(TEXTS, pa.large_string()),
    "string view": pa.array(TEXTS, pa.string_view()),
    "dictionary": pa.array(TEXTS).dictionary_encode(),
    "dictionary of views": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, 3, 0]), pa.array(TEXTS[:4], pa.string_view())
    ),
    "slice": pa.array(["x", *TEXTS, "y"]).slice(1, 5),
    "slice of large": pa.array(["x", *TEXTS, "y"], pa.large_string()).slice(1, 5),
}


def sent(data: Any, *most: int) -> list[Message]:
    return [message for batch in message_batches(data, *most) for message in batch.messages()]


class Stream:
    """What Polars and DuckDB are to a sender: nothing but the PyCapsule interface."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._data.__arrow_c_stream__(requested_schema)


class Array:
    def __init__(self, data: Any) -> None:
        self._data = data

    def __arrow_c_array__(self, requested_schema: object | None = None) -> object:
        return self._data.__arrow_c_array__(requested_schema)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_column_of_any_layout_is_its_payloads(layout: str) -> None:
    assert [message.payload for message in sent(LAYOUTS[layout])] == PAYLOADS


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("most", [1, 30, ARROW_BATCH_BYTES])
def test_however_small_the_batches_the_messages_are_the_same(layout: str, most: int) -> None:
    table = pa.table({"payload": LAYOUTS[layout], "key": LAYOUTS[layout]})
    assert [(message.payload, message.key) for message in sent(table, most)] == [(p, p or None) for p in PAYLOADS]


TABLE = pa.table({"payload": pa.chunked_array([["a"], [], ["b", "c"]]), "key": pa.chunked_array([["k", None], [""]])})
MESSAGES = [Message(b"a", b"k"), Message(b"b"), Message(b"c")]


@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        TABLE.to_reader(),
        TABLE.to_batches(),
        iter([TABLE.slice(0, 1), TABLE.slice(1)]),
        Stream(TABLE),
        [Stream(TABLE.slice(0, 2)), Array(TABLE.slice(2).to_batches()[0])],
    ],
    ids=["table", "reader", "list", "iterator", "stream", "mixed"],
)
def test_rows_come_from_whatever_speaks_arrow(data: Any) -> None:
    assert sent(data) == MESSAGES


@pytest.mark.parametrize("data", [Stream(TABLE["payload"]), Array(TABLE["payload"].combine_chunks()), TABLE["payload"]])
def test_a_bare_column_is_the_payloads(data: Any) -> None:
    assert sent(data) == [Message(b"a"), Message(b"b"), Message(b"c")]


def test_a_pandas_frame_is_rows_and_its_index_is_no_column() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"payload": [b"a", b"b"], "key": [None, "k"]}, index=["one", "two"])
    assert sent(frame) == [Message(b"a"), Message(b"b", b"k")]


@pytest.mark.parametrize("data", [pa.array([], pa.binary()), pa.table({"payload": pa.array([], pa.string())}), []])
def test_nothing_is_no_batch(data: Any) -> None:
    assert sent(data) == []


def test_payloads_are_not_copied() -> None:
    column = pa.array([b"x" * 50] * 1000).slice(100)
    (batch,) = message_batches(column)
    first = column.buffers()[2].address
    data = pa.py_buffer(batch.payloads.data)
    assert first + 100 * 50 == data.address
    assert pa.py_buffer(batch.payloads.offsets).address == column.buffers()[1].address + 4 * 100


HEADERS = [{"a": b"1", "b": b"2"}, None, {"b": b"3"}]
AS_TUPLES = [None if one is None else list(one.items()) for one in HEADERS]
AS_STRUCTS = [None if one is None else [{"key": k, "value": v} for k, v in one.items()] for one in HEADERS]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(AS_TUPLES, HEADERS_TYPE),
        pa.array(AS_STRUCTS, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        pa.array(AS_STRUCTS, pa.large_list(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        pa.array(HEADERS, pa.struct([("a", pa.binary()), ("b", pa.binary())])),
        pa.array([b"\x82\xa1a\xc4\x011\xa1b\xc4\x012", None, b"\x81\xa1b\xc4\x013"]),
    ],
    ids=["map", "list", "large list", "struct", "packed"],
)
def test_headers_come_in_any_of_four_shapes(column: Any) -> None:
    table = pa.table({"payload": ["x", "y", "z"], "headers": column})
    assert [message.headers for message in sent(table)] == HEADERS
    assert [message.headers for message in sent(table.slice(1))] == HEADERS[1:]


def test_text_in_headers_stays_text() -> None:
    table = pa.table({"payload": ["x"], "headers": pa.array([[("a", "1")]], pa.map_(pa.string(), pa.string()))})
    assert sent(table)[0].headers == {"a": "1"}


def test_columns_without_a_value_take_no_room() -> None:
    table = pa.table({
        "payload": ["x", "y"], "key": [None, None], "headers": pa.array([None, []], HEADERS_TYPE), "id": [None, None],
    })  # fmt: skip
    (batch,) = message_batches(table)
    assert (batch.keys, batch.headers, batch.ids) == (None, None, None)


@pytest.mark.parametrize("kind", [pa.binary(16), pa.binary(), pa.large_binary()])
def test_ids_are_taken_along(kind: Any) -> None:
    ids = [bytes([n]) * 16 for n in range(5)]
    table = pa.table({"message_id": pa.array(ids, kind), "value": PAYLOADS}).slice(1)
    assert [message.id for message in sent(table, 1)] == ids[1:]


def filled(*headers: Any) -> Any:
    return pa.table({"payload": ["x"] * len(headers), "headers": pa.array(headers, HEADERS_TYPE)})


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (pa.array(["a", None]), "row 1 has no payload"),
        ([pa.array(["a"] * 7), pa.array(["a", None])], "row 8 has no payload"),
        (pa.array(["a", None]).dictionary_encode(), "row 1 has no payload"),
        (pa.DictionaryArray.from_arrays([0, 1], pa.array(["a", None])), "row 1 has no payload"),
        (pa.array([1]), "type int64; cast it to binary or to text"),
        (pa.table({"paylod": ["a"]}), "no column payload; the columns are: paylod"),
        (pa.table({"payload": ["a"], "header": ["b"]}), "a message has no header; its columns are"),
        (pa.table({"payload": ["a"], "value": ["b"]}), "twice"),
        (pa.table({"payload": ["a"], "id": [b"short"]}), "row 0 has an id that is not of 16 bytes"),
        (pa.table({"payload": ["a"] * 2, "id": [b"x" * 16, None]}), "row 1 has no id"),
        (pa.table({"payload": ["a"], "headers": [5]}), "column headers has the type int64; it can be a map"),
        (pa.table({"payload": ["a"] * 2, "headers": [None, b"\xc1"]}), "row 1 has headers that are not"),
        (filled(None, [("a", b"1"), ("a", b"2")]), "row 1 has a header twice"),
        (filled([(str(n), b"") for n in range(65)]), "row 0 has 65 headers"),
        (filled([("a", None)]), "row 0 has header 'a' without a value"),
        (pa.table({"payload": ["a"], "headers": [{"n": 1}]}), "header 'n' of the type int"),
        (pa.table({"payload": ["a"], "headers": [{"n": [1]}]}), "row 0 has header 'n' of the type list"),
        (
            pa.table({"payload": ["a"], "headers": pa.array([[(1, "x")]], pa.map_(pa.int8(), pa.string()))}),
            "name is 1;",
        ),
        (
            pa.table({"payload": ["a"], "headers": pa.StructArray.from_arrays([pa.array(["x"])] * 2, ["n", "n"])}),
            "duplicate field names",
        ),
        ([b"a", b"b"], "bytes is no Arrow data"),
        (b"a", "bytes is no Arrow data"),
        (5, "int is no Arrow data"),
    ],
)
def test_what_is_no_message_is_refused_in_one_line_that_says_what_and_where(data: Any, words: str) -> None:
    with pytest.raises(ArrowInputError, match=words) as refused:
        sent(data)
    assert "\n" not in str(refused.value)


def test_a_message_larger_than_a_frame_names_its_row_and_its_size() -> None:
    data = [pa.array(["a"] * 3), pa.array([b"a", bytes(MAX_BODY_BYTES)])]
    batches = message_batches(data)
    with pytest.raises(ArrowInputError, match=f"row 4 is a message of {MAX_BODY_BYTES + 8} bytes, which exceeds the"):
        list(batches)
    largest = pa.array([b"a", bytes(MAX_BODY_BYTES - 8), b"b"])
    assert [len(batch) for batch in message_batches(largest)] == [1, 1, 1]


@pytest.mark.parametrize("offsets", [(0, 5, 2, 6), (3, 1, 4, 6), (0, -1, 4, 6), (0, 2, 9, 6)])
@pytest.mark.parametrize("wide", [False, True])
def test_offsets_that_no_column_has_are_refused_before_anything_is_read(offsets: tuple[int, ...], wide: bool) -> None:
    raw = struct.pack(f"4{'q' if wide else 'i'}", *offsets)
    kind = pa.large_binary() if wide else pa.binary()
    column = pa.Array.from_buffers(kind, 3, [None, pa.py_buffer(raw), pa.py_buffer(b"abcdef")])
    with pytest.raises(ArrowInputError, match="cannot be read as binary"):
        sent(column)
    with pytest.raises(ArrowInputError, match="cannot be read as binary"):
        sent(pa.table({"payload": ["a"] * 3, "key": column}))


def test_offsets_that_decrease_are_refused_behind_the_c_interface_too() -> None:
    raw = pa.py_buffer(struct.pack("4i", 0, 5, 2, 6))
    column = pa.Array.from_buffers(pa.binary(), 3, [None, raw, pa.py_buffer(b"abcdef")])
    with pytest.raises(ArrowInputError, match="non-monotonic offset"):
        sent(Array(column))


def test_three_gibibytes_go_in_frames_and_take_no_memory_of_their_own() -> None:
    part = pa.array([bytes(1024 * 1024)] * 64, pa.large_binary())
    column = pa.chunked_array([part] * 48)
    before, count = pa.total_allocated_bytes(), 0
    for batch in message_batches(column):
        assert batch.nbytes <= MAX_BODY_BYTES
        count += len(batch)
        assert pa.total_allocated_bytes() - before < 2**20
    assert count == 64 * 48


def test_a_dictionary_of_large_values_is_decoded_a_part_at_a_time() -> None:
    words = pa.array([bytes(1024 * 1024), b"small"])
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 1500, pa.int32()), words)
    before = most = pa.total_allocated_bytes()
    total = 0
    for batch in message_batches(column):
        total += len(batch.payloads.data)
        most = max(most, pa.total_allocated_bytes())
    assert total == 1500 * (1024 * 1024 + 5)
    assert most - before < 200 * 1024 * 1024


def test_views_of_more_than_two_gibibytes_keep_their_values_and_are_copied_a_part_at_a_time() -> None:
    size, count = 1024 * 1024, 3000
    view = struct.pack("i4sii", size, bytes(4), 0, 0)
    column = pa.Array.from_buffers(
        pa.binary_view(), count, [None, pa.py_buffer(view * count), pa.py_buffer(bytes(size))]
    )
    before = most = pa.total_allocated_bytes()
    total = 0
    for batch in message_batches(column.slice(1)):
        total += len(batch.payloads.data)
        most = max(most, pa.total_allocated_bytes())
    assert total == size * (count - 1)
    assert most - before < 200 * 1024 * 1024


def test_the_length_behind_a_view_that_is_null_is_no_length() -> None:
    views = struct.pack("i12si12s", 2**31 - 1, bytes(12), 1, b"a" + bytes(11))
    keys = pa.Array.from_buffers(pa.binary_view(), 2, [pa.py_buffer(b"\2"), pa.py_buffer(views)])
    assert [message.key for message in sent(pa.table({"payload": ["x", "y"], "key": keys}))] == [None, b"a"]


def test_the_chunks_of_a_table_that_are_a_row_each_are_joined() -> None:
    table = pa.concat_tables([pa.table({"payload": [str(n)]}) for n in range(2000)])
    batches = list(message_batches(table))
    assert len(batches) == 1
    assert batches[0].payloads.tolist() == [str(n).encode() for n in range(2000)]


ROWS = st.lists(
    st.fixed_dictionaries({
        "payload": st.binary(max_size=20),
        "key": st.none() | st.binary(min_size=1, max_size=5),
        "headers": st.none() | st.dictionaries(st.text(max_size=3), st.binary(max_size=3), min_size=1, max_size=3),
    }),
    max_size=30,
)  # fmt: skip


@given(ROWS, st.lists(st.integers(0, 30), max_size=3), st.integers(1, 200), st.booleans())
def test_any_rows_however_chunked_are_the_same_messages(
    rows: list[dict[str, Any]], cuts: list[int], most: int, wide: bool
) -> None:
    kind = pa.large_binary() if wide else pa.binary()
    schema = pa.schema([("payload", kind), ("key", kind), ("headers", HEADERS_TYPE)])
    given_rows = [row | {"headers": row["headers"] and list(row["headers"].items())} for row in rows]
    table = pa.Table.from_pylist(given_rows, schema)
    ends = [0, *sorted(cuts), len(rows)]
    parts = [table.slice(start, max(0, end - start)) for start, end in pairwise(ends)]
    expected = [Message(row["payload"], row["key"], row["headers"]) for row in rows]
    batches: list[MessageBatch] = list(message_batches(parts, most))
    assert [message for batch in batches for message in batch.messages()] == expected
    assert all(batch.nbytes <= most or len(batch) == 1 for batch in batches)
