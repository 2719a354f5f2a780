"""Field tables against pamqp, both ways, and every malformed shape."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import decode, encode

from tests.examples_tried import tried
from tests.transport.gateways.amqp.amqp_values import TABLES, theirs
from transport.errors import LocalProtocolError
from transport.gateways.amqp.entity_methods import QueueDeclare
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.method_codec import decode_method, encode_method
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.gateways.amqp.tables import (
    EMPTY_TABLE,
    MAX_ARGUMENT_ENTRIES,
    MAX_TABLE_BYTES,
    MAX_TABLE_DEPTH,
    MAX_TABLE_ENTRIES,
    Entry,
    Field,
    Table,
    check_table,
    decode_table,
    encode_table,
)

SCALARS = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(st.characters(codec="utf-8"), max_size=20)
    | st.none()
    | st.floats(width=32, allow_nan=False, allow_infinity=False)
    | st.binary(max_size=10).map(bytearray)
)
PYTHON = st.dictionaries(
    st.text(st.characters(codec="utf-8"), max_size=20),
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=6,
)


def with_length(raw: bytes) -> bytes:
    return len(raw).to_bytes(4, "big") + raw


@settings(max_examples=tried(300))
@given(TABLES)
def test_what_is_written_is_read_again_by_us_and_by_pamqp(table: Table) -> None:
    raw = encode_table(table)
    found = decode_table(raw)
    assert found == table
    assert hash(found) == hash(table)
    assert found.raw == raw
    consumed, their = decode.field_table(with_length(raw))
    assert consumed == len(raw) + 4
    assert their == theirs(table)


@settings(max_examples=tried(300))
@given(PYTHON)
def test_what_pamqp_writes_is_read_and_written_again_in_the_same_bytes(values: dict[str, Any]) -> None:
    raw = encode.field_table(values)[4:]
    found = decode_table(raw)
    assert encode_table(found) == raw
    assert theirs(found) == decode.field_table(with_length(raw))[1]


@settings(max_examples=tried(300))
@given(PYTHON)
def test_pythons_values_have_a_type_by_nature(values: dict[str, Any]) -> None:
    table = Table.of(as_ours(values))
    assert decode_table(encode_table(table)) == table
    assert decode.field_table(with_length(table.raw))[1] == values


def as_ours(value: Any) -> Any:
    """pamqp's bytes are an array."""
    if isinstance(value, dict):
        return {name: as_ours(each) for name, each in value.items()}
    if isinstance(value, list):
        return [as_ours(each) for each in value]
    return bytes(value) if isinstance(value, bytearray) else value


@pytest.mark.parametrize(
    ("kind", "data", "value", "again"),
    [
        ("t", b"\x02", True, b"t\x01"),
        ("t", b"\x00", False, b"t\x00"),
        ("b", b"\xff", -1, None),
        ("B", b"\xff", 255, None),
        ("s", b"\xff\xfe", -2, None),
        ("u", b"\xff\xfe", 65534, None),
        ("I", b"\xff\xff\xff\xff", -1, None),
        ("i", b"\xff\xff\xff\xff", 2**32 - 1, None),
        ("l", b"\x80" + bytes(7), -(2**63), None),
        ("L", b"\x80" + bytes(7), -(2**63), b"l\x80" + bytes(7)),
        ("T", b"\xff" * 8, 2**64 - 1, None),
        ("f", struct.pack(">f", 1.5), 1.5, None),
        ("d", struct.pack(">d", -0.0), -0.0, None),
        ("D", b"\x03\x00\x00\x00\x05", Decimal("0.005"), None),
        ("D", b"\xff\xff\xff\xff\xff", Decimal(2**32 - 1).scaleb(-255), None),
        ("S", b"\x00\x00\x00\x02\xff\xfe", "\udcff\udcfe", None),
        ("x", b"\x00\x00\x00\x02\xff\xfe", b"\xff\xfe", None),
        ("V", b"", None, None),
        ("F", b"\x00\x00\x00\x03\x01aV", Table([Entry("a", "V", None)]), None),
        ("A", b"\x00\x00\x00\x03Vt\x01", (Field("V", None), Field("t", True)), None),
    ],
)
def test_each_type_is_read_and_written_as_rabbitmq_does(
    kind: str, data: bytes, value: Any, again: bytes | None
) -> None:
    field = kind.encode() + data
    table = decode_table(b"\x01n" + field)
    assert table.entries[0].value == value
    assert table.entries[0].kind == (again or field)[:1].decode()
    assert encode_table(table) == b"\x01n" + (again or field)
    assert table.raw == b"\x01n" + field
    nested = b"\x01aA" + with_length(field)
    assert encode_table(decode_table(nested)) == b"\x01aA" + with_length(again or field)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\x02a", "within a field's name"),
        (b"\x01a", "before its type"),
        (b"\x01aZ", "unknown type 0x5a"),
        (b"\x01aU\0\0", "unknown type 0x55"),
        (b"\x01aI\0\0\0", "ends 1 bytes behind"),
        (b"\x01aS\0\0\0", "within the length"),
        (b"\x01aS\0\0\0\x05abc", "ends 2 bytes behind"),
        (b"\x01aS\xff\xff\xff\xff", "behind its table"),
        (b"\x01aF\0\0\0\x02\x05a", "within a field's name"),
        (b"\x01aA\0\0\0\x02I\0", "behind its table or array"),
        (b"\x01aA\0\0\0\x01Z", "unknown type"),
        (b"\x01aF\0\0\0\x03\x01aV\x05", "within a field's name"),
        (b"\x01af" + struct.pack(">f", math.inf), "infinite or no number"),
        (b"\x01ad" + struct.pack(">d", math.nan), "infinite or no number"),
        (b"\x01ad\x7f\xf0" + bytes(6), "infinite or no number"),
        (b"\x01af\xff\x80\x00\x01", "infinite or no number"),
    ],
)
def test_each_malformed_shape_has_one_error(raw: bytes, text: str) -> None:
    with pytest.raises(AmqpError, match=text) as raised:
        decode_table(raw)
    assert raised.value.reply_code is ReplyCode.SYNTAX_ERROR


@pytest.mark.parametrize("data", [b"f\x7f\x7f\xff\xff", b"d\x7f\xef" + b"\xff" * 6, b"d\xff\xe0" + bytes(6)])
def test_the_largest_floats_are_none_of_these(data: bytes) -> None:
    assert encode_table(decode_table(b"\0" + data)) == b"\0" + data


@settings(max_examples=tried(600))
@given(st.binary(max_size=40) | TABLES.map(encode_table), st.integers(0, 400), st.integers(0, 255))
def test_bytes_are_a_table_or_an_error_of_ours_and_both_ways_of_reading_agree(raw: bytes, at: int, other: int) -> None:
    changed = bytearray(raw)
    if changed:
        changed[at % len(changed)] = other
    raw = bytes(changed)
    before = outcome(lambda: check_table(b"##" + raw + b"##", 2, len(raw) + 2))
    after = outcome(lambda: decode_table(raw))
    if isinstance(after, Table):
        assert before is None
        assert decode_table(encode_table(after)) == after
    else:
        assert before == after
        assert after[0] is ReplyCode.SYNTAX_ERROR


def outcome(run: Any) -> Any:
    try:
        return run()
    except AmqpError as error:
        return error.reply_code, error.explanation


def nested(depth: int, kind: str = "F") -> bytes:
    raw = b""
    for _ in range(depth - 1):
        raw = (b"\x01a" if kind == "F" else b"") + kind.encode() + with_length(raw)
    return raw if kind == "F" else b"\x01a" + raw


def test_tables_and_arrays_are_as_deep_as_the_limit_and_no_deeper() -> None:
    assert encode_table(decode_table(nested(MAX_TABLE_DEPTH))) == nested(MAX_TABLE_DEPTH)
    assert len(decode_table(nested(MAX_TABLE_DEPTH, "A"))) == 1
    for raw in (nested(MAX_TABLE_DEPTH + 1), nested(MAX_TABLE_DEPTH + 1, "A"), nested(20_000)):
        with pytest.raises(AmqpError, match="MAX_TABLE_DEPTH"):
            decode_table(raw)


def test_entries_are_as_many_as_the_limit_and_no_more() -> None:
    most = b"\0V" * MAX_TABLE_ENTRIES
    assert len(decode_table(most)) == MAX_TABLE_ENTRIES
    assert encode_table(decode_table(most)) == most
    for raw in (most + b"\0V", b"\0A" + with_length(b"V" * MAX_TABLE_ENTRIES), b"\0A" + with_length(b"") + most):
        with pytest.raises(AmqpError, match="MAX_TABLE_ENTRIES"):
            decode_table(raw)


def test_arguments_of_a_method_have_fewer_entries_than_a_messages_headers_may_have() -> None:
    def declared(entries: int) -> bytes:
        return encode_method(QueueDeclare(queue="q", arguments=decode_table(b"\0V" * entries)))

    found = decode_method(declared(MAX_ARGUMENT_ENTRIES))
    assert isinstance(found, QueueDeclare)
    assert len(found.arguments) == MAX_ARGUMENT_ENTRIES
    with pytest.raises(AmqpError, match="MAX_ARGUMENT_ENTRIES, 1024"):
        decode_method(declared(MAX_ARGUMENT_ENTRIES + 1))
    check_table(b"\0V" * MAX_TABLE_ENTRIES, 0, 2 * MAX_TABLE_ENTRIES)


def test_bytes_are_as_many_as_the_limit_and_no_more() -> None:
    most = b"\0S" + with_length(bytes(MAX_TABLE_BYTES - 6))
    assert encode_table(decode_table(most)) == most
    with pytest.raises(AmqpError, match="MAX_TABLE_BYTES"):
        decode_table(b"\0S" + with_length(bytes(MAX_TABLE_BYTES - 5)))


def cyclic() -> dict[str, Any]:
    found: dict[str, Any] = {}
    found["a"] = [found]
    return found


@pytest.mark.parametrize(
    "make",
    [
        lambda: Table.of({"a": object()}),
        lambda: Table.of({"a": {1, 2}}),
        lambda: Table.of(cyclic()),
        lambda: encode_table(Table.of({"a": 2**63})),
        lambda: encode_table(Table.of({"a" * 256: 1})),
        lambda: encode_table(Table.of({"\ud800": 1})),
        lambda: encode_table(Table.of({"a": "\ud800"})),
        lambda: encode_table(Table.of({"a": math.nan})),
        lambda: encode_table(Table.of({"a": math.inf})),
        lambda: encode_table(Table.of({"a": Field("f", 1e300)})),
        lambda: encode_table(Table.of({"a": Decimal(-1)})),
        lambda: encode_table(Table.of({"a": Decimal("NaN")})),
        lambda: encode_table(Table.of({"a": Decimal(2**32)})),
        lambda: encode_table(Table.of({"a": Decimal("1e-256")})),
        lambda: encode_table(Table.of({"a": Field("B", -1)})),
        lambda: encode_table(Table.of({"a": Field("I", "1")})),
        lambda: encode_table(Table.of({"a": Field("x", 5)})),
        lambda: encode_table(Table.of({"a": Field("Z", 5)})),
        lambda: encode_table(Table.of({"a": Field("F", {"b": 1})})),  # type: ignore[arg-type]
        lambda: encode_table(Table([Entry("", "V", None)] * (MAX_TABLE_ENTRIES + 1))),
        lambda: encode_table(Table.of({"a": "b" * MAX_TABLE_BYTES})),
    ],
)
def test_what_fits_no_table_is_our_own_error(make: Any) -> None:
    with pytest.raises(LocalProtocolError):
        make()


def test_a_table_is_asked_and_changed_by_names() -> None:
    table = decode_table(encode_table(Table([Entry("a", "I", 1), Entry("b", "S", "x"), Entry("a", "I", 2)])))
    assert (table.get("a"), table.get("c"), table.get("c", 5), table.field("b")) == (1, None, 5, Field("S", "x"))
    assert "a" in table
    assert "c" not in table
    assert [entry.name for entry in table] == ["a", "b", "a"]
    assert table.replaced("a", "l", 7).entries == (Entry("a", "l", 7), Entry("b", "S", "x"), Entry("a", "I", 2))
    assert table.replaced("c", "V", None).entries[-1] == Entry("c", "V", None)
    assert table.without("a").entries == (Entry("b", "S", "x"),)
    assert table.without("z") is table
    assert table.replaced("a", "I", 1) == table
    assert Table.of({"a": 10**5}).entries == (Entry("a", "I", 10**5),)
    assert Table.of({"a": 3 * 10**9}).entries == (Entry("a", "l", 3 * 10**9),)
    assert EMPTY_TABLE.raw == b""
    assert decode_table(b"") is EMPTY_TABLE
