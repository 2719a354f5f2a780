"""`transport.gateways.amqp.carried_properties`: what AMQP publishes comes as it was; nothing that native clients send harms anybody."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.batch import MAX_HEADERS_PER_MESSAGE, pack_headers, unpack_headers
from tests.transport.gateways.amqp.amqp_values import SHORT_STRINGS, TABLES
from transport.gateways.amqp import carried_properties
from transport.gateways.amqp.carried_properties import MAX_REMEMBERED, SMALL_BYTES, headers_column, properties_of
from transport.gateways.amqp.properties import NO_PROPERTIES, Properties, check_properties
from transport.gateways.amqp.tables import MAX_TABLE_BYTES, MAX_TABLE_ENTRIES, Entry, Table
from transport.wire.amqp_headers import RAW

SAID = st.fixed_dictionaries(
    {},
    optional={
        "content_type": SHORT_STRINGS,
        "headers": TABLES,
        "delivery_mode": st.integers(0, 255),
        "correlation_id": SHORT_STRINGS,
        "timestamp": st.integers(0, 2**64 - 1),
        "cluster_id": SHORT_STRINGS,
    },
)
NATIVE = st.dictionaries(
    st.sampled_from([RAW, "amqp.content_type", "amqp.priority", "amqp.timestamp", "amqp.headers", "amqp.no", "h"])
    | st.text(st.characters(codec="utf-8"), max_size=300),
    st.text(st.characters(codec="utf-8"), max_size=300) | st.binary(max_size=20),
    max_size=6,
)


def of(headers: dict[str, Any]) -> dict[str, Any]:
    """What a client of AMQP sees of native headers."""
    raw = properties_of(pack_headers(headers))
    check_properties(raw)
    return Properties(raw).values()


@given(st.lists(SAID, min_size=1, max_size=4))
def test_what_amqp_publishes_comes_back_byte_for_byte(said: list[dict[str, Any]]) -> None:
    raw = [Properties.of(**each).raw for each in said]
    column = headers_column(raw)
    if column is None:
        assert set(raw) == {NO_PROPERTIES}
    else:
        assert [properties_of(each) for each in column.tolist()] == raw


def test_flags_that_mean_nothing_come_back_too() -> None:
    column = headers_column([b"\x00\x02"])
    assert column is not None
    assert properties_of(column[0]) == b"\x00\x02"


def test_messages_without_properties_have_no_headers() -> None:
    assert headers_column([NO_PROPERTIES, NO_PROPERTIES]) is None
    assert properties_of(b"") == NO_PROPERTIES


def test_a_native_receiver_finds_them_in_one_header() -> None:
    raw = Properties.of(content_type="a").raw
    column = headers_column([raw, NO_PROPERTIES])
    assert column is not None
    assert [unpack_headers(bytes(each)) for each in column.tolist()] == [{RAW: raw}, None]


def test_native_headers_are_properties_where_their_name_says_so_and_headers_otherwise() -> None:
    headers = {"amqp.content_type": "a/b", "amqp.priority": b"7", "amqp.timestamp": "12", "colour": "red", "b": b"\xff"}
    assert of(headers) == {
        "content_type": "a/b",
        "priority": 7,
        "timestamp": 12,
        "headers": Table([Entry("colour", "S", "red"), Entry("b", "x", b"\xff")]),
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("amqp.priority", "300"),
        ("amqp.priority", "many"),
        ("amqp.timestamp", "-1"),
        ("amqp.content_type", "x" * 256),
        ("amqp.message_id", b"\xff"),
        ("amqp.headers", "x"),
        ("amqp.colour", "red"),
    ],
)
def test_what_cannot_be_a_property_stays_a_header(name: str, value: str | bytes) -> None:
    assert of({name: value}) == {"headers": Table([Entry(name, "S" if isinstance(value, str) else "x", value)])}


def test_what_a_broker_adds_to_a_message_of_amqps_is_beside_its_headers() -> None:
    raw = Properties.of(message_id="m", headers=Table.of({"a": 1, "reason": "mine"})).raw
    found = of({RAW: raw, "reason": "expired"})
    assert found == {
        "message_id": "m",
        "headers": Table([Entry("a", "I", 1), Entry("reason", "S", "expired")]),
    }


@pytest.mark.parametrize("value", ["text", b"", b"\x80", b"\xff\xff", b"\x20\0\0\0\0\x05\x01", b"\0\0more"])
def test_bytes_that_are_no_properties_are_a_header_as_any_other(value: str | bytes) -> None:
    """They went out as they were, and who got them could not read what followed."""
    assert of({RAW: value}) == {"headers": Table([Entry(RAW, "S" if isinstance(value, str) else "x", value)])}


def test_a_name_that_is_too_long_for_amqp_is_left_out() -> None:
    """Its message ended the connection of each client that it came to, one after another."""
    assert of({"n" * 256: "v", "é" * 128: "v", "n" * 255: "v"}) == {"headers": Table([Entry("n" * 255, "S", "v")])}


def test_headers_that_fit_no_table_are_left_out_and_the_small_ones_are_there() -> None:
    """Such a message ended the connection of each client that it came to, one after another."""
    large = "x" * MAX_TABLE_BYTES
    many = {f"{number}": "\U0001f388" * SMALL_BYTES for number in range(MAX_HEADERS_PER_MESSAGE - 1)}
    assert of({"large": large, "small": "v"}) == {"headers": Table([Entry("small", "S", "v")])}
    assert of({"large": large, **many})["headers"] == Table([Entry(name, "S", value) for name, value in many.items()])
    full = Table([Entry(f"{number}", "V", None) for number in range(MAX_TABLE_ENTRIES)])
    assert of({RAW: Properties.of(headers=full).raw, "small": "v"}) == {"headers": full}


@given(NATIVE)
def test_any_native_headers_become_properties_that_can_be_read(headers: dict[str, str | bytes]) -> None:
    of(headers)


@given(st.binary(max_size=30))
def test_bytes_that_are_no_headers_are_none(packed: bytes) -> None:
    check_properties(properties_of(packed))


def test_what_is_remembered_is_bounded() -> None:
    for number in range(3 * MAX_REMEMBERED):
        raw = Properties.of(message_id=str(number)).raw
        column = headers_column([raw])
        assert column is not None
        assert properties_of(column[0]) == raw
    assert len(carried_properties._packed) <= MAX_REMEMBERED
    assert len(carried_properties._unpacked) <= MAX_REMEMBERED
    assert headers_column([NO_PROPERTIES]) is None
