"""Frames as values: what goes in comes out, and every field of the wrong type is refused."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.batch import ID_BYTES, Message, MessageBatch
from tests.decoding import FrameDecoder
from transport.errors import InvalidNameError, RemoteProtocolError
from transport.wire import messages as wire
from transport.wire.codec import decode, encode
from transport.wire.field_checks import MAX_INTEGER, MAX_RANGES_PER_FRAME
from transport.wire.frames import MAX_FRAME_BYTES, RawFrame
from transport.wire.messages import Ack, Cancel, Deliver, Fetched, Frame, Nack, Result, Send, split_ranges
from transport.wire.names import MAX_NAME_BYTES, check_name

NUMBERS = {
    wire.Hello: 1,
    wire.Welcome: 2,
    wire.Error: 3,
    wire.Ping: 4,
    wire.Pong: 5,
    wire.Auth: 6,
    wire.Why: 7,
    wire.Because: 8,
    wire.Returned: 19,
    wire.Tally: 20,
    wire.Tallied: 21,
    wire.Demand: 16,
    wire.Send: 17,
    wire.Sent: 18,
    wire.Request: 32,
    wire.Deliver: 33,
    wire.Ack: 34,
    wire.Nack: 35,
    wire.Extend: 36,
    wire.Cancel: 37,
    wire.Turn: 38,
    wire.Reserve: 48,
    wire.Reserved: 49,
    wire.Commit: 50,
    wire.Committed: 51,
    wire.Fetch: 52,
    wire.Fetched: 53,
    wire.FetchEnd: 54,
    wire.Command: 64,
    wire.Result: 65,
    wire.Enlist: 80,
    wire.CommitTransaction: 81,
    wire.AbortTransaction: 82,
    wire.TransactionEnded: 83,
}
BATCH_FIELDS = 5

uints = st.integers(0, MAX_INTEGER)
texts = st.text(max_size=30)
options = st.dictionaries(
    st.text(max_size=8), st.none() | st.booleans() | uints | texts | st.binary(max_size=8), max_size=4
)
pairs = st.tuples(st.integers(0, 2**40), st.integers(1, 2**20))
messages = st.builds(
    Message,
    st.binary(max_size=40),
    st.none() | st.binary(min_size=1, max_size=10),
    st.none() | st.dictionaries(texts, texts | st.binary(max_size=10), min_size=1, max_size=3),
)


def with_ids(batch: list[Message]) -> list[Message]:
    return [Message(m.payload, m.key, m.headers, index.to_bytes(ID_BYTES, "big")) for index, m in enumerate(batch)]


batches = (
    st.lists(messages, min_size=1, max_size=6)
    .flatmap(lambda some: st.sampled_from([some, with_ids(some)]))
    .map(MessageBatch.from_messages)
)
names = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=60)

BY_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "int": uints,
    "int | None": st.none() | uints,
    "bool": st.booleans(),
    "str": texts,
    "str | None": st.none() | texts,
    "Name": names,
    "Name | None": st.none() | names,
    "bytes": st.binary(max_size=100),
    "Options": options,
    "Options | None": st.none() | options,
    # None goes on where the one before it ends: those are decoded as one (test_work.py).
    "Ranges": st.lists(pairs, min_size=1, max_size=20).filter(
        lambda ranges: all(first + count != then for (first, count), (then, _) in pairwise(ranges))
    ),
    "MessageBatch": batches,
}
WRONG: dict[str, list[object]] = {
    "int": [None, True, -1, 2**63, 1.0, "1", b"1", [], {}],
    "int | None": [False, -1, 2**63, 1.5, "1", b"", [], {}],
    "bool": [None, 0, 1, "true", b"", [], {}],
    "str": [None, 1, True, b"x", [], {}],
    "bytes": [None, 1, True, "x", [], {}],
    "str | None": [1, True, b"x", [], {}],
    "Name": [None, 1, True, b"x", [], {}, "", "a b", "n" * 256],
    "Name | None": [1, True, b"x", [], {}, "", "a\n", "n" * 256],
    "Options": [None, 1, "x", b"x", [], {b"bytes": 1}],
    "Options | None": [1, "x", b"x", [], {b"bytes": 1}],
    "Ranges": [None, 1, "x", {}, [], [1], [1, 2, 3], [1, 0], [1, -1], [-1, 1], [1, None], [1, True], [MAX_INTEGER, 1]],
}
BATCH_WRONG: list[list[object]] = [
    [None, True, -1, 0, 2**63, "1", []],
    [None, True, -1, 2**63, "1", []],
    [None, 0, 1, "x", []],
    [True, -1, 2**63, "1", []],
    [True, -1, 2**63, "1", []],
]


def strategy(frame: type[Any]) -> st.SearchStrategy[Any]:
    built = st.builds(frame, **{field.name: BY_TYPE[str(field.type)] for field in fields(frame)})
    # What was sent to the queue itself has no routing key.
    return built.map(lambda made: replace(made, routing_key=None) if getattr(made, "exchange", "") is None else made)


def raw(frame: Frame) -> RawFrame:
    frames = FrameDecoder(MAX_FRAME_BYTES).receive_data(b"".join(bytes(part) for part in encode(frame)))
    assert len(frames) == 1
    return frames[0]


def example(frame: type[Any]) -> Any:
    """One valid frame of a type."""
    values: dict[str, Any] = {
        "int": 3,
        "int | None": 4,
        "bool": True,
        "str": "sender",
        "str | None": "name",
        "Name": "name",
        "Name | None": "name",
        "bytes": b"{}",
        "Options": {"a": 1},
        "Options | None": {"a": 1},
        "Ranges": [(5, 2), (9, 1)],
        "MessageBatch": MessageBatch.from_messages([Message(b"ab", b"k", {"h": "v"}), Message(b"c")]),
    }
    return frame(**{field.name: values[str(field.type)] for field in fields(frame)})


def field_cases() -> list[Any]:
    """(frame type, index in its header, wrong value) for every header field of every type."""
    cases: list[Any] = []
    for frame in NUMBERS:
        index = 0
        for field in fields(frame):
            kind = str(field.type)
            if field.name == "json":
                # The body.
                continue
            if kind == "MessageBatch":
                wrong_lists = BATCH_WRONG
                names = ["count", "data_bytes", "has_ids", "keys_bytes", "headers_bytes"]
            else:
                wrong_lists, names = [WRONG[kind]], [field.name]
            for name, wrong in zip(names, wrong_lists, strict=True):
                index += 1
                cases += [
                    pytest.param(frame, index, value, id=f"{frame.__name__}-{name}-{value!r:.12}") for value in wrong
                ]
    return cases


def test_every_frame_has_the_number_the_protocol_gives_it() -> None:
    frames = [value for value in vars(wire).values() if isinstance(value, type) and issubclass(value, Frame)]
    assert {frame: frame.TYPE for frame in frames if frame is not Frame} == NUMBERS


@pytest.mark.parametrize("frame", NUMBERS, ids=lambda frame: frame.__name__)
@given(data=st.data())
def test_encoding_then_decoding_gives_the_frame_back(frame: type[Frame], data: st.DataObject) -> None:
    value = data.draw(strategy(frame))
    assert decode(raw(value)) == value


@pytest.mark.parametrize("frame", NUMBERS, ids=lambda frame: frame.__name__)
def test_additional_trailing_header_fields_are_ignored(frame: type[Frame]) -> None:
    value = example(frame)
    header, body = raw(value)
    # What older peers do not know is left out where it says what they take for granted.
    unsaid = [field.default for field in fields(frame) if field.metadata]
    assert decode(RawFrame([*header, *unsaid, "later", [1, 2], None], body)) == value


def test_what_older_peers_do_not_know_is_said_only_where_it_says_something_else() -> None:
    for frame, header in ((Nack([(3, 2)], 5), [35, [3, 2], 5]), (Cancel(), [37])):
        assert raw(frame)[0] == header
        assert decode(RawFrame(header, memoryview(b""))) == frame
        assert frame.failed
        assert raw(replace(frame, failed=False))[0] == [*header, False]
        with pytest.raises(RemoteProtocolError, match="field failed"):
            decode(RawFrame([*header, 0], memoryview(b"")))


@pytest.mark.parametrize("frame", NUMBERS, ids=lambda frame: frame.__name__)
def test_a_frame_that_lacks_a_field_is_refused(frame: type[Frame]) -> None:
    value = example(frame)
    header, body = raw(value)
    later = [field for field in fields(frame) if field.metadata]
    said = max(
        (number for number, field in enumerate(later, 1) if getattr(value, field.name) != field.default), default=0
    )
    for length in range(1, len(header) - said):
        with pytest.raises(RemoteProtocolError, match="header fields"):
            decode(RawFrame(header[:length], body))


@pytest.mark.parametrize(("frame", "index", "value"), field_cases())
def test_a_field_of_the_wrong_type_is_refused(frame: type[Frame], index: int, value: object) -> None:
    header, body = raw(example(frame))
    with pytest.raises(RemoteProtocolError):
        decode(RawFrame([*header[:index], value, *header[index + 1 :]], body))


@pytest.mark.parametrize(
    "frame", [f for f in NUMBERS if f not in (Send, Deliver, Fetched, Result)], ids=lambda frame: frame.__name__
)
def test_a_body_where_none_belongs_is_refused(frame: type[Frame]) -> None:
    header, _ = raw(example(frame))
    with pytest.raises(RemoteProtocolError, match="has a body of 1 bytes"):
        decode(RawFrame(header, memoryview(b"x")))


@pytest.mark.parametrize("frame", [Send, Deliver, Fetched], ids=lambda frame: frame.__name__)
@pytest.mark.parametrize("change", [-1, 1, 100])
def test_a_body_of_another_size_than_described_is_refused(frame: type[Frame], change: int) -> None:
    header, body = raw(example(frame))
    wrong = bytes(body)[:change] if change < 0 else bytes(body) + b"\x00" * change
    with pytest.raises(RemoteProtocolError, match="describes a body"):
        decode(RawFrame(header, memoryview(wrong)))


@pytest.mark.parametrize(
    "kind",
    [0, 9, 15, 22, 31, 39, 47, 55, 63, 66, 79, 84, 255, -1, 2**63, None, True, 1.0, "1", b"1", [], [1], {}, {"a": 1}],
)
def test_an_unknown_type_is_refused(kind: object) -> None:
    with pytest.raises(RemoteProtocolError, match="unknown type"):
        decode(RawFrame([kind, 1, 1, 1], memoryview(b"")))


@pytest.mark.parametrize("depth", [600, 900, 990, 1000, 1015])
@pytest.mark.parametrize("place", ["type", "field"])
def test_a_deeply_nested_value_is_refused_as_the_peers_fault(depth: int, place: str) -> None:
    # The error shows the value, and showing one nested as deep as the stack must not fail in its own way.
    nest = b"\x91" * depth + b"\x00"
    packed = b"\x92" + nest + b"\x00" if place == "type" else b"\x92\x04" + nest
    data = (6 + len(packed)).to_bytes(4, "big") + len(packed).to_bytes(2, "big") + packed
    with pytest.raises(RemoteProtocolError):
        list(map(decode, FrameDecoder().receive_data(data)))


def send(descriptor: list[object], body: bytes) -> RawFrame:
    return RawFrame([17, 0, None, *descriptor], memoryview(body))


def offsets(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "little", signed=True) for value in values)


@pytest.mark.parametrize(
    ("descriptor", "body"),
    [
        ([2, 4, False, None, None], offsets(0, 3, 2) + b"abcd"),
        ([2, 4, False, None, None], offsets(0, 5, 4) + b"abcd"),
        ([2, 4, False, None, None], offsets(-1, 1, 3) + b"abcd"),
        ([2, 4, False, None, None], offsets(0, 2, 5) + b"abcd"),
        ([2, 4, False, None, None], offsets(0, 2, 3) + b"abcd"),
        ([2**31, 4, False, None, None], offsets(0, 2, 4) + b"abcd"),
        ([2**62, 4, False, None, None], offsets(0, 2, 4) + b"abcd"),
        ([2, 2**62, False, None, None], offsets(0, 2, 4) + b"abcd"),
        ([0, 0, False, None, None], offsets(0)),
        ([2, 4, True, None, None], offsets(0, 2, 4) + b"abcd" + b"i" * 31),
        ([1, 1, False, 2, None], offsets(0, 1) + b"a" + offsets(0, 3) + b"kk"),
        ([1, 1, False, None, 2], offsets(0, 1) + b"a" + offsets(2, 1) + b"hh"),
        ([1, 1, False, 2**62, 2**62], offsets(0, 1) + b"a"),
    ],
)
def test_forged_counts_sizes_and_offsets_are_refused(descriptor: list[object], body: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="SEND: "):
        decode(send(descriptor, body))


def test_offsets_may_begin_above_zero() -> None:
    frame = decode(send([2, 4, False, None, None], offsets(7, 9, 11) + b"abcd"))
    assert isinstance(frame, Send)
    assert frame.batch.payloads.tolist() == [b"ab", b"cd"]


@given(st.lists(st.integers(-5, 2**31 - 1), min_size=2, max_size=5), st.binary(max_size=12))
def test_whatever_the_offsets_no_payload_leaves_its_data(values: list[int], data: bytes) -> None:
    try:
        frame = decode(send([len(values) - 1, len(data), False, None, None], offsets(*values) + data))
    except RemoteProtocolError:
        return
    assert isinstance(frame, Send)
    assert b"".join(frame.batch.payloads.tolist()) == data


@given(st.lists(st.tuples(st.integers(0, MAX_INTEGER), st.integers(1, 2**31))), st.integers(1, 2))
def test_ranges_are_refused_or_name_only_numbers_that_can_be(flat: list[tuple[int, int]], repeat: int) -> None:
    header = [34, [number for pair in flat * repeat for number in pair]]
    try:
        frame = decode(RawFrame(header, memoryview(b"")))
    except RemoteProtocolError:
        return
    assert isinstance(frame, Ack)
    # Neighbours are one range then (test_work.py).
    assert sum(count for _, count in frame.ranges) == sum(count for _, count in flat * repeat)
    assert {first for first, _ in frame.ranges} <= {first for first, _ in flat}
    assert all(first + count <= MAX_INTEGER for first, count in frame.ranges)


def test_no_more_ranges_are_taken_than_a_frame_holds() -> None:
    numbers = [1, 1] * MAX_RANGES_PER_FRAME
    assert decode(RawFrame([34, numbers], memoryview(b""))) == Ack([(1, 1)] * MAX_RANGES_PER_FRAME)
    with pytest.raises(RemoteProtocolError):
        decode(RawFrame([34, [*numbers, 1, 1]], memoryview(b"")))


def test_the_page_says_how_many_ranges_a_frame_holds() -> None:
    page = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text("utf-8")
    assert f"at most {MAX_RANGES_PER_FRAME} pairs" in page


@given(st.lists(pairs, max_size=1300))
def test_splitting_ranges_keeps_them_all_in_order(ranges: list[tuple[int, int]]) -> None:
    parts = split_ranges(ranges)
    assert [pair for part in parts for pair in part] == ranges
    assert all(1 <= len(part) <= MAX_RANGES_PER_FRAME for part in parts)


@pytest.mark.parametrize("base", [0, 2**16, 2**32, 2**62])
@pytest.mark.parametrize("count", [1, 200, 70_000])
def test_what_ranges_are_split_into_fits_a_frame_whatever_their_numbers(base: int, count: int) -> None:
    ranges = [(base + step * 2 * count, count) for step in range(1500)]
    decoded = [decode(raw(frame)) for part in split_ranges(ranges) for frame in (Ack(part), Nack(part, 2**40))]
    assert [pair for frame in decoded if isinstance(frame, Ack) for pair in frame.ranges] == ranges


@pytest.mark.parametrize("name", ["q", "orders.eu-1", "ä", "日本", "x" * MAX_NAME_BYTES, "a/b#c?d"])
def test_a_printable_name_without_white_space_is_taken(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "two words",
        "line\nbreak",
        "tab\t",
        "\x00",
        "\x7f",
        "\u200b",
        "\u00a0",
        "\u2028",
        "\ud800",
        "x" * 256,
        "ä" * 128,
    ],
)
def test_a_name_out_of_its_limits_is_refused(name: str) -> None:
    with pytest.raises(InvalidNameError, match="queue name"):
        check_name(name)


@given(st.text(max_size=300))
def test_any_text_is_a_name_or_our_error(name: str) -> None:
    refusal = ""
    try:
        check_name(name, "client")
    except InvalidNameError as error:
        refusal = str(error)
    assert len(refusal) < 300
    if refusal:
        return
    assert name.isprintable()
    assert 1 <= len(name.encode()) <= MAX_NAME_BYTES


def test_every_part_of_a_frame_is_a_view_of_bytes_and_none_is_empty() -> None:
    # asyncio's transports count what has left by len, and never finish writing nothing.
    messages = [Message(b"", b"k", {"a": "b"}, b"i" * 16), Message(b"p" * 50, b"", None, b"j" * 16)]
    batches = [
        MessageBatch.from_messages(messages),
        MessageBatch.from_payloads([b""]),
        MessageBatch.from_payloads([b"x", b""]),
    ]
    batches += [batch.slice(1, len(batch)) for batch in batches if len(batch) > 1]
    for batch in batches:
        again = decode(FrameDecoder(MAX_FRAME_BYTES).receive_data(b"".join(encode(Send(0, None, batch))))[0])
        assert isinstance(again, Send)
        for each in (batch, again.batch):
            parts = encode(Deliver(0, 1, 1, False, each))
            assert [memoryview(part).nbytes for part in parts] == [len(part) for part in parts]
            assert all(map(len, parts))


def test_neither_a_hello_nor_an_error_shows_what_a_client_proves_itself_with() -> None:
    assert "canary" not in repr(wire.Hello(1, "sender", "q", "c", {"token": "canary"}))
    with pytest.raises(RemoteProtocolError, match="AUTH: field data has a value of type str") as caught:
        decode(RawFrame([6, "canary"], memoryview(b"")))
    assert "canary" not in str(caught.value)
