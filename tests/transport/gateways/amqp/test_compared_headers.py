"""AMQP's headers as headers exchanges compare them: what any message has is compared, and whatever it is it is no error."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given

from actors.batch import pack_headers
from actors.exchanges.headers import HeadersMatcher
from actors.exchanges.limits import MAX_TABLE_DEPTH
from actors.exchanges.message_tables import table_of
from actors.exchanges.tables import frozen
from tests.transport.gateways.amqp.amqp_values import TABLES
from transport.gateways.amqp.carried_properties import headers_column
from transport.gateways.amqp.plain_tables import plain
from transport.gateways.amqp.properties import Properties
from transport.gateways.amqp.tables import Entry, Field, Table
from transport.wire.amqp_headers import RAW


def packed(table: Table) -> bytes:
    """The headers of a message that a client of AMQP has published with this table."""
    column = headers_column([Properties.of(headers=table).raw])
    assert column is not None
    return bytes(column[0])


def matches(asked: dict[str, Any], table: Table) -> bool:
    matcher = HeadersMatcher()
    matcher.add(("queue", "q"), "", asked)  # type: ignore[arg-type]  # any name will do
    found: dict[Any, Any] = {}
    matcher.match((), frozen(table_of(packed(table))), found)
    return bool(found)


@given(TABLES)
def test_every_table_of_headers_can_be_compared(table: Table) -> None:
    told = table_of(packed(table))
    assert told is not None
    assert {name for name, _ in frozen(told)} == {name for name, _, _ in table}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("t", True),
        ("b", 3),
        ("l", 1 << 40),
        ("d", 2.5),
        ("D", Decimal("1.5")),
        ("S", "\u00fcber"),
        ("T", 1_700_000_000),
        ("V", None),
        ("A", (Field("I", 1), Field("S", "two"))),
        ("F", Table([Entry("deep", "I", 1)])),
    ],
)
def test_a_header_of_each_type_matches_the_argument_that_was_bound_by_the_same(kind: str, value: Any) -> None:
    table = Table([Entry("h", kind, value)])
    asked = {"x-match": "all", **plain(table)}
    assert matches(asked, table)
    assert matches({"x-match": "any", **plain(table)}, table)
    assert not matches(asked, Table([Entry("other", kind, value)]))
    if value is not None:
        assert not matches(asked, Table([Entry("h", "S", "else")]))


def test_what_no_argument_can_be_is_there_and_like_none() -> None:
    deep: Any = Table([Entry("end", "I", 1)])
    for _ in range(MAX_TABLE_DEPTH + 2):
        deep = Table([Entry("in", "F", deep)])
    table = Table([Entry("deep", "F", deep), Entry("no-text", "S", "\udcff"), Entry("\udcff", "I", 1)])
    assert matches({"deep": None, "no-text": None}, table)
    assert not matches({"deep": 1}, table)
    assert not matches({"no-text": "x"}, table)


def test_headers_that_a_broker_or_a_native_client_adds_count_too_and_others_bytes_are_passed_over() -> None:
    raw = Properties.of(headers=Table([Entry("a", "I", 1)])).raw
    assert table_of(pack_headers({RAW: raw, "b": "2"})) == {"a": 1, "b": "2"}
    assert table_of(pack_headers({RAW: b"\xff\xff\x01", "b": "2"})) == {"b": "2"}
    assert table_of(pack_headers({"b": "2"})) == {"b": "2"}
