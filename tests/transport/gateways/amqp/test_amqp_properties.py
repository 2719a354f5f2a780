"""A message's properties against pamqp, both ways; what is not asked for goes out as it came."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import commands, header

from tests.examples_tried import tried
from tests.transport.gateways.amqp.amqp_values import ODD_BYTES, SHORT_STRINGS, TABLES, theirs
from transport.errors import LocalProtocolError
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.methods import PROPERTIES
from transport.gateways.amqp.properties import (
    FLAGS,
    NO_PROPERTIES,
    Properties,
    check_properties,
    flags_of,
)
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.gateways.amqp.tables import Table

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "shortstr": SHORT_STRINGS,
    "octet": st.integers(0, 255),
    "timestamp": st.integers(0, 2**32 - 1),
    "table": TABLES,
}
ANY: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {}, optional={name: VALUES[kind] for name, kind in PROPERTIES}
)
KINDS = dict(PROPERTIES)


def their_properties(raw: bytes) -> commands.Basic.Properties:
    found = header.ContentHeader()
    found.unmarshal(bytes(4) + bytes(8) + raw)
    return found.properties  # type: ignore[return-value]  # there are some


def their_value(name: str, value: Any) -> Any:
    if KINDS[name] == "table":
        return theirs(value)
    return datetime.fromtimestamp(value, UTC) if KINDS[name] == "timestamp" else value


@settings(max_examples=tried(400))
@given(ANY)
def test_what_is_written_is_read_again_by_us_and_by_pamqp(values: dict[str, Any]) -> None:
    written = Properties.of(**values)
    found = Properties(written.raw)
    assert found.values() == values
    assert found == written
    assert hash(found) == hash(written)
    assert {name for name, flag in FLAGS.items() if flags_of(written.raw) & flag} == set(values)
    their = their_properties(written.raw)
    for name, value in values.items():
        assert getattr(their, "message_type" if name == "type" else name) == their_value(name, value), name


@settings(max_examples=tried(400))
@given(ANY)
def test_what_pamqp_writes_is_read(values: dict[str, Any]) -> None:
    # It has nothing to say where a text is empty, and its tables have types of their own.
    values = {name: value for name, value in values.items() if value != "" and name not in {"headers", "cluster_id"}}
    named = {("message_type" if name == "type" else name): their_value(name, value) for name, value in values.items()}
    named["delivery_mode"] = 1 + named.get("delivery_mode", 0) % 2
    raw = header.ContentHeader(body_size=5, properties=commands.Basic.Properties(headers={"a": [1]}, **named)).marshal()
    found = Properties(raw[12:])
    expected = values | {"delivery_mode": named["delivery_mode"]}
    assert {name: value for name, value in found.values().items() if name != "headers"} == expected
    assert theirs(found.headers) == {"a": [1]}


@settings(max_examples=tried(400))
@given(ANY, st.fixed_dictionaries({}, optional={name: st.none() | VALUES[kind] for name, kind in PROPERTIES}))
def test_replaced_changes_what_is_named_and_keeps_every_other_byte(
    values: dict[str, Any], other: dict[str, Any]
) -> None:
    before = Properties.of(**values)
    after = before.replaced(**other)
    assert after.values() == {name: value for name, value in (values | other).items() if value is not None}
    for position, (name, _) in enumerate(PROPERTIES):
        if name not in other:
            begin, end = before.place(position)
            begin_after, end_after = after.place(position)
            assert before.raw[begin:end] == after.raw[begin_after:end_after]
    assert before.replaced() == before


@given(ODD_BYTES)
def test_texts_that_are_no_utf_8_are_the_same_bytes_again(text: str) -> None:
    properties = Properties.of(message_id=text)
    assert properties.message_id == text
    assert text.encode("utf-8", "surrogateescape") in properties.raw


def test_none_is_there_where_there_are_none() -> None:
    assert Properties().raw == NO_PROPERTIES
    assert Properties().values() == {}
    assert Properties().headers is None


@settings(max_examples=tried(600))
@given(ANY, st.integers(0, 10_000), st.integers(0, 255), st.binary(max_size=2))
def test_bytes_are_properties_or_one_error(values: dict[str, Any], at: int, other: int, more: bytes) -> None:
    raw = bytearray(Properties.of(**values).raw + more)
    raw[at % len(raw)] = other
    assert agreed(bytes(raw))


@settings(max_examples=tried(600))
@given(st.binary(max_size=30))
def test_random_bytes_are_properties_or_one_error(raw: bytes) -> None:
    assert agreed(raw)


def agreed(raw: bytes) -> bool:
    """Whether bytes are refused when they are checked just where they are when all of them is read."""
    try:
        check_properties(raw)
    except AmqpError:
        with pytest.raises(AmqpError, match="SYNTAX_ERROR"):
            Properties(raw).values()
    else:
        Properties(raw).values()
    return True


@given(ANY)
def test_every_cut_is_refused(values: dict[str, Any]) -> None:
    raw = Properties.of(**values).raw
    for size in range(len(raw)):
        with pytest.raises(AmqpError):
            check_properties(raw[:size])


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", "before all that their flags announce"),
        (b"\x80", "before all"),
        (b"\x80\x00", "before all"),
        (b"\x80\x00\x05abc", "before all"),
        (b"\x10\x00", "before all"),
        (b"\x20\x00\x00\x00", "before all"),
        (b"\x20\x00\xff\xff\xff\xff", "before all"),
        (b"\x20\x00\x00\x00\x00\x03\x01aZ", "unknown type"),
        (b"\x00\x40\x00\x00\x00\x00", "before all"),
        (b"\x00\x00\x00", "1 bytes early"),
        (b"\x10\x00\x02\x00", "1 bytes early"),
        (b"\x10\x01\x02\x80", "1 bytes early"),
    ],
)
def test_each_malformed_shape_has_one_error(raw: bytes, text: str) -> None:
    with pytest.raises(AmqpError, match=text) as raised:
        check_properties(raw)
    assert raised.value.reply_code is ReplyCode.SYNTAX_ERROR


def test_the_two_lowest_flags_mean_nothing() -> None:
    check_properties(b"\x10\x03\x02")
    assert Properties(b"\x10\x03\x02").delivery_mode == 2


@pytest.mark.parametrize(
    "values",
    [
        {"message_id": "a" * 256},
        {"message_id": 5},
        {"delivery_mode": 256},
        {"delivery_mode": "2"},
        {"priority": -1},
        {"timestamp": 2**64},
        {"headers": {"a": 1}},
        {"colour": "red"},
        {"headers": Table.of({"a": 2**70})},
    ],
)
def test_what_fits_no_property_is_our_own_error(values: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        Properties.of(**values)
