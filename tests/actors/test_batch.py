"""The columnar batch."""

from __future__ import annotations

import struct
from array import array

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.batch import (
    ID_BYTES,
    MAX_HEADERS_PER_MESSAGE,
    MORE_HEADERS,
    BinaryColumn,
    Message,
    MessageBatch,
    pack_headers,
    unpack_headers,
)
from actors.errors import BatchError

HEADERS = st.dictionaries(st.text(max_size=5), st.one_of(st.text(max_size=5), st.binary(max_size=5)), max_size=3)


@st.composite
def message_lists(draw: st.DrawFn) -> list[Message]:
    with_ids = draw(st.booleans())
    identifier = st.binary(min_size=ID_BYTES, max_size=ID_BYTES) if with_ids else st.none()
    message = st.builds(
        Message,
        payload=st.binary(max_size=20),
        key=st.one_of(st.none(), st.binary(min_size=1, max_size=5)),
        headers=st.one_of(st.none(), HEADERS.filter(bool)),
        id=identifier,
    )
    return draw(st.lists(message, min_size=1, max_size=12))


def body_of(batch: MessageBatch) -> bytes:
    return b"".join(batch.buffers())


@given(message_lists())
def test_messages_come_out_as_they_went_in(messages: list[Message]) -> None:
    batch = MessageBatch.from_messages(messages)
    assert batch.messages() == messages
    assert batch.payloads.tolist() == list(batch.payloads) == [message.payload for message in messages]
    assert len(batch) == len(messages)


@given(message_lists())
def test_a_body_is_read_back_from_its_descriptor(messages: list[Message]) -> None:
    batch = MessageBatch.from_messages(messages)
    body = body_of(batch)
    assert batch.nbytes == len(body)
    assert MessageBatch.from_body(*batch.descriptor(), body) == batch


@given(message_lists(), st.data())
def test_a_slice_is_a_batch_like_any_other(messages: list[Message], data: st.DataObject) -> None:
    batch = MessageBatch.from_messages(messages)
    start = data.draw(st.integers(0, len(messages) - 1))
    stop = data.draw(st.integers(start + 1, len(messages)))
    part = batch.slice(start, stop)
    assert part.messages() == messages[start:stop]
    assert MessageBatch.from_body(*part.descriptor(), body_of(part)).messages() == messages[start:stop]
    middle = data.draw(st.integers(0, len(part) - 1))
    assert part.slice(middle, len(part)).messages() == messages[start + middle : stop]


@given(message_lists(), st.data())
def test_prefix_bytes_is_the_size_of_the_prefix(messages: list[Message], data: st.DataObject) -> None:
    batch = MessageBatch.from_messages(messages)
    start = data.draw(st.integers(0, len(messages) - 1))
    part = batch.slice(start, len(batch))
    assert part.prefix_bytes(0) == 0
    for count in range(1, len(part) + 1):
        assert part.prefix_bytes(count) == part.slice(0, count).nbytes


@given(message_lists(), st.integers(-5, 400), st.data())
def test_demand_lets_through_all_messages_before_it_is_used_up(
    messages: list[Message], limit: int, data: st.DataObject
) -> None:
    batch = MessageBatch.from_messages(messages)
    start = data.draw(st.integers(0, len(messages) - 1))
    part = batch.slice(start, len(batch))
    expected = sum(part.prefix_bytes(count) < limit for count in range(len(part)))
    assert batch.count_within(limit, start) == expected


def test_slicing_shares_the_buffers() -> None:
    batch = MessageBatch.from_payloads([b"a" * 100, b"b" * 100, b"c" * 100])
    part = batch.slice(1, 3)
    assert part.payloads.data.obj is batch.payloads.data.obj
    assert part.payloads.offsets.obj is batch.payloads.offsets.obj
    assert part.payloads.offsets.tolist() == [100, 200, 300]
    assert batch.slice(0, 3) is batch


def test_a_body_is_wrapped_without_copying() -> None:
    body = body_of(MessageBatch.from_payloads([b"abc", b"de"]))
    batch = MessageBatch.from_body(2, 5, False, None, None, body)
    assert batch.payloads.data.obj is body


def test_the_layout_is_the_one_of_the_protocol() -> None:
    batch = MessageBatch.from_messages(
        [Message(b"ab", key=b"k", id=b"1" * 16), Message(b"c", headers={"h": "v"}, id=b"2" * 16)]
    )
    packed = msgpack.packb({"h": "v"})
    assert batch.descriptor() == (2, 3, True, 1, len(packed))
    assert body_of(batch) == (
        struct.pack("<3i", 0, 2, 3)
        + b"abc"
        + b"1" * 16
        + b"2" * 16
        + struct.pack("<3i", 0, 1, 1)
        + b"k"
        + struct.pack("<3i", 0, 0, len(packed))
        + packed
    )


def test_columns_that_no_message_needs_are_left_out() -> None:
    batch = MessageBatch.from_messages([Message(b"a"), Message(b"b", key=b"", headers={})])
    assert (batch.ids, batch.keys, batch.headers) == (None, None, None)
    assert batch.message(1) == Message(b"b")


def test_a_batch_holds_at_least_one_message() -> None:
    with pytest.raises(BatchError, match="at least one"):
        MessageBatch.from_payloads([])
    with pytest.raises(BatchError, match="at least one"):
        MessageBatch.from_messages([])
    with pytest.raises(BatchError, match="says 0"):
        MessageBatch.from_body(0, 0, False, None, None, b"\0" * 4)


@pytest.mark.parametrize("ids", [[b"1" * 16, None], [b"1" * 15, b"2" * 16]])
def test_ids_are_given_for_all_messages_and_are_of_their_size(ids: list[bytes | None]) -> None:
    with pytest.raises(BatchError, match="16 bytes"):
        MessageBatch.from_messages([Message(b"x", id=value) for value in ids])


@pytest.mark.parametrize(
    ("offsets", "data"),
    [
        ([], b""),
        ([-1, 0], b"x"),
        ([0, 2, 1], b"x"),
        ([0, 2], b"x"),
        ([0, 1], b"xy"),
        ([5, 5], b"x"),
    ],
    ids=["none", "negative", "decreasing", "beyond the data", "short of the data", "empty over data"],
)
def test_offsets_that_do_not_hold_together_are_refused(offsets: list[int], data: bytes) -> None:
    with pytest.raises(BatchError):
        BinaryColumn.from_buffers(array("i", offsets).tobytes(), data)


def test_a_broken_offset_is_refused() -> None:
    with pytest.raises(BatchError, match="5 bytes"):
        BinaryColumn.from_buffers(b"\0" * 5, b"")


@given(
    st.lists(st.sampled_from([b"", b"a", b"aa", b"b"]), min_size=1, max_size=5)
    | st.tuples(st.binary(max_size=3), st.integers(1, 5)).map(lambda same: [same[0]] * same[1]),
    st.integers(0, 4),
    st.integers(0, 4),
)
def test_a_value_is_the_same_of_all_where_all_are_equal_and_only_then(values: list[bytes], cut: int, left: int) -> None:
    start = min(cut, len(values) - 1)
    stop = max(start + 1, len(values) - left)
    column = BinaryColumn.from_values(values).slice(start, stop)
    some = values[start:stop]
    assert column.same() == (some[0] if set(some) == {some[0]} else None)


def test_offsets_may_begin_above_zero() -> None:
    column = BinaryColumn.from_buffers(array("i", [7, 9, 10]).tobytes(), b"abc")
    assert column.tolist() == [b"ab", b"c"]
    assert [column[0], column[1]] == [b"ab", b"c"]
    with pytest.raises(IndexError):
        column[2]
    with pytest.raises(IndexError):
        column[-1]


@given(st.integers(1, 2**31), st.integers(0, 2**40), st.booleans(), st.none() | st.integers(0, 2**40), st.binary())
def test_a_forged_descriptor_is_refused_before_anything_is_built(
    count: int, data_bytes: int, has_ids: bool, keys_bytes: int | None, body: bytes
) -> None:
    try:
        batch = MessageBatch.from_body(count, data_bytes, has_ids, keys_bytes, None, body)
    except BatchError:
        return
    assert batch.nbytes == len(body)
    assert len(batch.messages()) == count


def test_a_column_that_int32_cannot_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return 2**30

    with pytest.raises(BatchError, match="smaller batches"):
        BinaryColumn.from_values([Huge()] * 3)


def test_headers_are_strings_and_few() -> None:
    many = {str(n): "" for n in range(MAX_HEADERS_PER_MESSAGE + 1)}
    with pytest.raises(BatchError, match="exceed"):
        pack_headers(many)
    with pytest.raises(BatchError, match="must be a string"):
        pack_headers({"h": 1})  # type: ignore[dict-item]  # what callers without a type checker do
    assert pack_headers(None) == pack_headers({}) == b""
    assert unpack_headers(b"") is None


@pytest.mark.parametrize(
    "packed",
    [
        b"\xc1",
        msgpack.packb([1]),
        msgpack.packb("text"),
        msgpack.packb({"a": [1]}),
        msgpack.packb({str(n): "" for n in range(MAX_HEADERS_PER_MESSAGE + MORE_HEADERS + 1)}),
        msgpack.packb({"a": "b"})[:-1],
        msgpack.packb({"a": "b"}) + b"x",
        msgpack.packb({1: "b"}),
        msgpack.packb({"a": 1}),
        b"\x81\xa1a" * 2000 + b"\x80",
    ],
    ids=[
        "invalid",
        "array",
        "string",
        "nested",
        "too many",
        "cut off",
        "trailing",
        "integer key",
        "integer value",
        "deep",
    ],
)
def test_bytes_that_are_no_headers_are_refused(packed: bytes) -> None:
    with pytest.raises(BatchError):
        unpack_headers(packed)


def test_batches_are_equal_by_what_they_hold_and_are_no_keys() -> None:
    one, two = MessageBatch.from_payloads([b"x"]), MessageBatch.from_payloads([b"w", b"x"]).slice(1, 2)
    assert one == two
    assert one != MessageBatch.from_payloads([b"y"])
    assert one != "x"
    assert repr(one) == "MessageBatch(count=1, nbytes=9)"
    with pytest.raises(TypeError):
        hash(one)
