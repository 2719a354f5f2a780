"""Fetched batches become Arrow record batches with the same values, and payloads are not copied on the way."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import BinaryType, StructField, StructType

from actors.batch import MAX_HEADERS_PER_MESSAGE
from actors.queue.operations.dead_letters import packed_facts, with_facts
from spark_bridge.arrow import COALESCE_BYTES, COALESCE_ROWS, WHOLE_ROWS, RecordBatchBuilder
from spark_bridge.errors import BadHeadersError
from spark_bridge.schema import arrow_schema, source_schema
from transport import Message, MessageBatch
from transport.clients.subscription_client import Fetched

PREFIX = b"\x01\x02\x03\x04\x05\x06\x07\x08"
ALL_COLUMNS = arrow_schema(source_schema(include_headers=True))
ONLY_VALUE = arrow_schema(StructType([StructField("value", BinaryType())]))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

HEADERS = st.dictionaries(st.text(max_size=5), st.binary(max_size=5) | st.text(max_size=5), max_size=3)


@st.composite
def fetched_batches(draw: st.DrawFn) -> list[Fetched]:
    """Consecutive pieces, some of them slices of a larger batch, whose columns come and go."""
    pieces = []
    position = draw(st.integers(0, 10))
    for _ in range(draw(st.integers(1, 4))):
        with_id = draw(st.booleans())
        messages = draw(
            st.lists(
                st.builds(
                    Message,
                    st.binary(max_size=20),
                    key=st.none() | st.binary(max_size=5),
                    headers=st.none() | HEADERS,
                    id=st.binary(min_size=16, max_size=16) if with_id else st.none(),
                ),
                min_size=1,
                max_size=6,
            )
        )
        batch = MessageBatch.from_messages(messages)
        start = draw(st.integers(0, len(batch) - 1))
        batch = batch.slice(start, draw(st.integers(start + 1, len(batch))))
        pieces.append(
            Fetched(
                1,
                position,
                draw(st.integers(0, 2**40)),
                draw(st.integers(0, 2**51)),
                draw(st.integers(1, 100)),
                draw(st.booleans()),
                batch,
            )
        )
        position += len(batch)
    return pieces


def over_the_wire(piece: Fetched, misalign: int) -> Fetched:
    """The piece as a frame's body brings it: all columns in one buffer that begins anywhere."""
    body = bytes(misalign) + b"".join(piece.batch.buffers())
    batch = MessageBatch.from_body(*piece.batch.descriptor(), memoryview(body)[misalign:])
    return Fetched(
        1, piece.position, piece.first, piece.enqueued_us, piece.delivery_count, piece.possibly_replayed, batch
    )


def expected_rows(pieces: list[Fetched]) -> list[dict[str, Any]]:
    rows = []
    for piece in pieces:
        for index, message in enumerate(piece.batch.messages()):
            sequence = piece.first + index
            headers = [
                {"key": key, "value": value.encode() if isinstance(value, str) else value}
                for key, value in (message.headers or {}).items()
            ]
            rows.append(
                {
                    "value": message.payload,
                    "key": message.key,
                    "queue": "órders",
                    "position": sequence,
                    "enqueued_at": piece.enqueued_us,
                    "message_id": message.id or PREFIX + sequence.to_bytes(8, "big"),
                    "delivery_count": piece.delivery_count,
                    "possibly_replayed": piece.possibly_replayed,
                    "headers": headers or None,
                }
            )
    return rows


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    batch.validate(full=True)
    rows: list[dict[str, Any]] = batch.to_pylist()
    for row in rows:
        delta = row["enqueued_at"] - EPOCH
        row["enqueued_at"] = (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
    return rows


@given(fetched_batches(), st.integers(0, 9))
def test_every_column_has_the_values_of_its_messages(pieces: list[Fetched], misalign: int) -> None:
    builder = RecordBatchBuilder(ALL_COLUMNS, "órders", PREFIX)
    received = [over_the_wire(piece, misalign) for piece in pieces]
    together = builder.build(received)
    assert together.schema.equals(ALL_COLUMNS, check_metadata=True)
    assert rows_of(together) == expected_rows(pieces)
    for piece, one in zip(pieces, received, strict=True):
        assert rows_of(builder.build([one])) == expected_rows([piece])


@given(fetched_batches(), st.integers(0, 9))
def test_what_is_built_survives_sparks_ipc_stream(pieces: list[Fetched], misalign: int) -> None:
    batch = RecordBatchBuilder(ALL_COLUMNS, "órders", PREFIX).build(
        [over_the_wire(piece, misalign) for piece in pieces]
    )
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, batch.schema) as writer:
        writer.write_batch(batch)
    assert rows_of(pa.ipc.open_stream(stream.getvalue()).read_next_batch()) == expected_rows(pieces)


def piece_of(count: int, size: int = 1, position: int = 0) -> Fetched:
    return Fetched(1, position, position, 0, 1, False, MessageBatch.from_payloads([b"x" * size] * count))


def test_a_payload_column_is_the_memory_that_the_frame_came_in() -> None:
    piece = over_the_wire(piece_of(WHOLE_ROWS), misalign=0)
    column = RecordBatchBuilder(ONLY_VALUE, "q", PREFIX).build([piece]).column(0)
    assert column.buffers()[2].address == pa.py_buffer(piece.batch.payloads.data).address


def test_a_schema_with_few_columns_builds_only_those() -> None:
    batch = RecordBatchBuilder(ONLY_VALUE, "q", PREFIX).build([piece_of(2)])
    assert batch.to_pylist() == [{"value": b"x"}, {"value": b"x"}]


def test_single_messages_are_joined_and_large_batches_are_left_alone() -> None:
    builder = RecordBatchBuilder(ONLY_VALUE, "q", PREFIX)
    singles = [piece_of(1) for _ in range(COALESCE_ROWS + 5)]
    built = list(builder.batches([*singles, piece_of(WHOLE_ROWS), piece_of(3), piece_of(4)]))
    assert [batch.num_rows for batch in built] == [COALESCE_ROWS, 5, WHOLE_ROWS, 7]


def test_joined_batches_stay_below_their_bytes() -> None:
    size = COALESCE_BYTES // 4
    built = list(RecordBatchBuilder(ONLY_VALUE, "q", PREFIX).batches([piece_of(1, size) for _ in range(10)]))
    assert sum(batch.num_rows for batch in built) == 10
    assert max(batch.nbytes for batch in built) <= COALESCE_BYTES
    assert len(built) < 10


@given(st.lists(st.integers(1, 2 * WHOLE_ROWS), max_size=12))
def test_joining_loses_and_repeats_nothing(counts: list[int]) -> None:
    schema = arrow_schema(source_schema(include_headers=False))
    pieces, position = [], 0
    for count in counts:
        pieces.append(piece_of(count, position=position))
        position += count
    built = RecordBatchBuilder(schema, "q", PREFIX).batches(pieces)
    assert [value for batch in built for value in batch.column("position").to_pylist()] == list(range(position))


@pytest.mark.parametrize(
    "packed", [b"\xc1", msgpack.packb([1]), msgpack.packb({"a": 1}), msgpack.packb({1: "a"}), b"\x81\xa1a", b"\x80x"]
)
def test_headers_that_are_none_read_as_null_and_end_no_query(packed: bytes) -> None:
    batch = MessageBatch.from_messages([Message(b"a", headers={"x": "y"}), Message(b"b", headers={"k": b"v"})])
    good = MessageBatch.from_messages([Message(b"b", headers={"k": b"v"})])
    assert batch.headers is not None
    assert good.headers is not None
    batch.headers = type(batch.headers).from_values([packed, good.headers[0]])
    fetched = Fetched(1, 0, 70, 0, 1, False, batch)
    rows = RecordBatchBuilder(ALL_COLUMNS, "q", PREFIX).build([fetched]).to_pylist()
    assert [row["headers"] for row in rows] == [None, [{"key": "k", "value": b"v"}]]
    with pytest.raises(BadHeadersError, match="position 70 of queue 'q' has headers that are no msgpack map") as caught:
        RecordBatchBuilder(ALL_COLUMNS, "q", PREFIX, "fail").build([fetched])
    # From a task to the driver it goes pickled.
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    whole = Fetched(1, 0, 70, 0, 1, False, good)
    assert RecordBatchBuilder(ALL_COLUMNS, "q", PREFIX, "fail").build([whole]).num_rows == 1


def test_a_dead_letter_with_as_many_headers_as_a_message_may_have_is_read_whole() -> None:
    names = {f"name {number}": str(number) for number in range(MAX_HEADERS_PER_MESSAGE)}
    sent = MessageBatch.from_messages([Message(b"a", headers=names)])
    dead = with_facts(sent, packed_facts("rejected", "orders", 1, 2, "no such customer"))
    fetched = Fetched(1, 0, 0, 0, 1, False, dead)
    [row] = RecordBatchBuilder(ALL_COLUMNS, "orders.dead", PREFIX, "fail").build([fetched]).to_pylist()
    found = {header["key"]: header["value"].decode() for header in row["headers"]}
    assert found.items() > names.items()
    assert found["penstock-dead-error"] == "no such customer"
