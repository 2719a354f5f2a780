"""Arrow columns as message batches: the same messages as if every row had been made into one by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.batch import MAX_HEADERS_PER_MESSAGE
from spark_bridge import WriteError
from spark_bridge.sink_batches import MessageBatchBuilder
from transport import Message, MessageBatch

HEADER_TYPES = {
    "list": lambda text, blob: pa.list_(pa.struct([("key", text), ("value", blob)])),
    "map": pa.map_,
}


@dataclass(frozen=True)
class Row:
    value: bytes
    key: bytes | None
    headers: tuple[tuple[str, Any], ...] | None
    queue: str | None


def built(records: pa.RecordBatch, queue: str | None = "q", **limits: int) -> list[tuple[str, MessageBatch]]:
    return list(MessageBatchBuilder(queue, **limits).batches(records))


def messages(batches: Sequence[tuple[str, MessageBatch]]) -> dict[str, list[Message]]:
    found: dict[str, list[Message]] = {}
    for queue, batch in batches:
        found.setdefault(queue, []).extend(batch.messages())
    return found


def one_by_one(rows: Sequence[Row], default: str) -> dict[str, list[Message]]:
    """The model: every row made into a message by hand."""
    found: dict[str, list[Message]] = {}
    for row in rows:
        message = Message(row.value, row.key or None, dict(row.headers) if row.headers else None)
        found.setdefault(default if row.queue is None else row.queue, []).append(message)
    return found


def of_bytes(kind: str) -> Callable[[Sequence[bytes | None]], pa.Array]:
    if kind in ("binary", "large_binary"):
        return lambda values: pa.array(values, getattr(pa, kind)())
    if kind == "dictionary":
        return lambda values: pa.array(values, pa.binary()).dictionary_encode()
    return lambda values: pa.array([None if v is None else v.decode() for v in values], getattr(pa, kind)())


texts = st.text(max_size=4)
kinds = st.sampled_from(["binary", "large_binary", "string", "large_string", "dictionary"])
rows_strategy = st.lists(
    st.builds(
        Row,
        value=texts.map(str.encode),
        key=st.none() | texts.map(str.encode),
        headers=st.none() | st.dictionaries(texts, texts.map(str.encode), max_size=3).map(lambda d: tuple(d.items())),
        queue=st.none() | st.sampled_from(["q", "a", "b", "Zürich"]),
    ),
    min_size=1,
    max_size=12,
)


@given(
    rows=rows_strategy,
    value_kind=kinds,
    key_kind=kinds,
    header_kind=st.sampled_from(sorted(HEADER_TYPES)),
    wide=st.booleans(),
    queue_kind=st.sampled_from(["string", "large_string", "dictionary"]),
    data=st.data(),
)
def test_columns_of_any_layout_become_the_messages_that_the_rows_are(
    rows: list[Row], value_kind: str, key_kind: str, header_kind: str, wide: bool, queue_kind: str, data: Any
) -> None:
    text, blob = (pa.large_string(), pa.large_binary()) if wide else (pa.string(), pa.binary())
    queues = pa.array([row.queue for row in rows], pa.large_string() if queue_kind == "large_string" else pa.string())
    records = pa.RecordBatch.from_arrays(
        [
            of_bytes(value_kind)([row.value for row in rows]),
            of_bytes(key_kind)([row.key for row in rows]),
            pa.array([row.headers for row in rows], pa.map_(text, blob))
            if header_kind == "map"
            else pa.array(
                [None if row.headers is None else [{"key": k, "value": v} for k, v in row.headers] for row in rows],
                HEADER_TYPES["list"](text, blob),
            ),
            queues.dictionary_encode() if queue_kind == "dictionary" else queues,
        ],
        names=["value", "key", "headers", "queue"],
    )
    start = data.draw(st.integers(0, len(rows)))
    stop = data.draw(st.integers(start, len(rows)))
    columns = data.draw(st.sets(st.sampled_from(["key", "headers", "queue"])))
    part = records.slice(start, stop - start).select(["value", *sorted(columns)])
    expected = [
        Row(
            row.value,
            row.key if "key" in columns else None,
            row.headers if "headers" in columns else None,
            row.queue if "queue" in columns else None,
        )
        for row in rows[start:stop]
    ]
    assert messages(built(part)) == one_by_one(expected, "q")


@given(values=st.lists(st.binary(max_size=9), min_size=1, max_size=20), limit=st.integers(9, 40), wide=st.booleans())
def test_a_column_larger_than_offsets_can_say_is_cut_into_batches_that_are_not(
    values: list[bytes], limit: int, wide: bool
) -> None:
    column = pa.array(values, pa.large_binary() if wide else pa.binary())
    batches = [batch for _, batch in built(pa.record_batch([column], names=["value"]), max_column_bytes=limit)]
    assert all(len(batch.payloads.data) <= limit for batch in batches)
    assert [payload for batch in batches for payload in batch.payloads] == values


def test_wide_offsets_beyond_int32_are_counted_from_the_first_row_of_a_slice() -> None:
    # As the end of a column of 3 GiB looks, without the 3 GiB: Arrow reads nothing before the first offset.
    far = 3 * 2**30
    keep = pa.py_buffer(b"abcdef")
    data = pa.foreign_buffer(keep.address - far, far + 6, base=keep)
    offsets = pa.py_buffer(b"".join(n.to_bytes(8, "little") for n in (far, far + 2, far + 6)))
    column = pa.Array.from_buffers(pa.large_binary(), 2, [None, offsets, data])
    ((_, batch),) = built(pa.record_batch([column], names=["value"]))
    assert list(batch.payloads) == [b"ab", b"cdef"]


def test_payloads_keep_the_memory_of_the_record_batch() -> None:
    column = pa.array([b"payload-%d" % n for n in range(100)], pa.binary())
    ((_, batch),) = built(pa.record_batch([column.slice(10, 50)], names=["value"]))
    wrapped = pa.py_buffer(batch.payloads.data).address
    whole = column.buffers()[2]
    assert whole.address < wrapped < whole.address + whole.size
    assert list(batch.payloads) == column.slice(10, 50).to_pylist()


def test_columns_that_say_nothing_are_left_out_of_the_batch() -> None:
    records = pa.record_batch(
        [
            pa.array([b"a", b""]),
            pa.array([None, b""], pa.binary()),
            pa.array([None, []], pa.map_(pa.string(), pa.binary())),
        ],
        names=["value", "key", "headers"],
    )
    ((_, batch),) = built(records)
    assert (batch.keys, batch.headers, batch.ids) == (None, None, None)
    assert batch.messages() == [Message(b"a"), Message(b"")]


def test_bytes_under_a_null_key_are_no_key() -> None:
    offsets, data = pa.py_buffer(b"\0\0\0\0\3\0\0\0\4\0\0\0"), pa.py_buffer(b"oldk")
    key = pa.Array.from_buffers(pa.binary(), 2, [pa.py_buffer(b"\2"), offsets, data])
    ((_, batch),) = built(pa.record_batch([pa.array([b"a", b"b"]), key], names=["value", "key"]))
    assert batch.messages() == [Message(b"a"), Message(b"b", key=b"k")]


def test_text_headers_stay_text_and_bytes_stay_bytes() -> None:
    records = pa.record_batch(
        [pa.array([b"a"]), pa.array([[("h", "v")]], pa.map_(pa.string(), pa.string()))], names=["value", "headers"]
    )
    ((_, batch),) = built(records)
    assert batch.message(0).headers == {"h": "v"}


def with_headers(entries: list[dict[str, Any]]) -> pa.RecordBatch:
    kind = HEADER_TYPES["list"](pa.string(), pa.binary())
    return pa.record_batch([pa.array([b"a", b"b"]), pa.array([None, entries], kind)], names=["value", "headers"])


def header(key: str | None, value: bytes | None = b"v") -> dict[str, Any]:
    return {"key": key, "value": value}


@pytest.mark.parametrize(
    ("records", "queue", "said"),
    [
        (pa.record_batch([pa.array([b"a", None])], names=["value"]), "q", "row 101 of this task has no value"),
        (
            pa.record_batch([pa.array([b"a", b"b"]), pa.array(["q", None])], names=["value", "queue"]),
            None,
            "row 101 of this task has no queue: column queue is null, and there is no option queue",
        ),
        (
            pa.record_batch([pa.array([b"a", b"b"]), pa.array(["q", "a b"])], names=["value", "queue"]),
            None,
            "row 101 of this task names a queue 'a b' that there cannot be: a name is printable and without white space",
        ),
        (with_headers([header(None)]), "q", "row 101 of this task has a header without a key"),
        (with_headers([header("h", None)]), "q", "row 101 of this task has header 'h' without a value"),
        (with_headers([header("h"), header("h")]), "q", "row 101 of this task has a header twice"),
        (
            with_headers([header(str(n)) for n in range(MAX_HEADERS_PER_MESSAGE + 1)]),
            "q",
            "row 101 of this task has 65 headers; a message has at most 64",
        ),
    ],
)
def test_a_row_that_is_no_message_is_named(records: pa.RecordBatch, queue: str | None, said: str) -> None:
    builder = MessageBatchBuilder(queue)
    before = pa.record_batch([pa.array([b""] * 100), pa.array(["q"] * 100)], names=["value", "queue"])
    assert len(list(builder.batches(before))) == 1
    with pytest.raises(WriteError) as caught:
        list(builder.batches(records))
    assert str(caught.value).startswith(said)


def test_a_single_value_larger_than_a_column_can_be_says_so() -> None:
    records = pa.record_batch([pa.array([b"a" * 50], pa.large_binary())], names=["value"])
    with pytest.raises(WriteError, match="has 50 bytes; a column of a batch has at most 40: split it"):
        built(records, max_column_bytes=40)


def test_a_record_batch_without_rows_is_no_batch() -> None:
    assert built(pa.record_batch([pa.array([], pa.binary())], names=["value"])) == []
