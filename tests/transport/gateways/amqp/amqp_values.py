"""Methods and values of each type for property tests, and how pamqp has them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st
from pamqp import frame

from transport.gateways.amqp.method import Method
from transport.gateways.amqp.tables import Entry, Field, Table

NAMES = st.text(st.characters(codec="utf-8"), max_size=20)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)
ODD_BYTES = st.binary(max_size=12).map(lambda data: data.decode("utf-8", "surrogateescape"))
PLAIN_FIELDS = st.one_of(
    st.builds(Field, st.just("t"), st.booleans()),
    st.builds(Field, st.just("b"), st.integers(-(2**7), 2**7 - 1)),
    st.builds(Field, st.just("B"), st.integers(0, 2**8 - 1)),
    st.builds(Field, st.just("s"), st.integers(-(2**15), 2**15 - 1)),
    st.builds(Field, st.just("u"), st.integers(0, 2**16 - 1)),
    st.builds(Field, st.just("I"), st.integers(-(2**31), 2**31 - 1)),
    st.builds(Field, st.just("i"), st.integers(0, 2**32 - 1)),
    st.builds(Field, st.just("l"), st.integers(-(2**63), 2**63 - 1)),
    # What pamqp takes for seconds: behind the year 2106 it reads thousandths.
    st.builds(Field, st.just("T"), st.integers(0, 2**32 - 1)),
    st.builds(Field, st.just("f"), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    st.builds(Field, st.just("d"), st.floats(allow_nan=False, allow_infinity=False)),
    st.builds(
        lambda places, number: Field("D", Decimal((0, tuple(map(int, str(number))), -places))),
        st.integers(0, 255),
        # RabbitMQ has no sign there, and pamqp has one.
        st.integers(0, 2**31 - 1),
    ),
    st.builds(Field, st.just("S"), TEXTS | ODD_BYTES),
    st.builds(Field, st.just("x"), st.binary(max_size=20)),
    st.just(Field("V", None)),
)


def tables_of(fields: st.SearchStrategy[Field]) -> st.SearchStrategy[Table]:
    named = st.dictionaries(NAMES, fields, max_size=5)
    return named.map(lambda found: Table(Entry(name, *field) for name, field in found.items()))


FIELDS: st.SearchStrategy[Field] = st.recursive(
    PLAIN_FIELDS,
    lambda fields: (
        st.builds(Field, st.just("F"), tables_of(fields))
        | st.builds(Field, st.just("A"), st.lists(fields, max_size=4).map(tuple))
    ),
    max_leaves=10,
)
TABLES = tables_of(FIELDS)


SHORT_STRINGS = st.text(st.characters(codec="utf-8"), max_size=255).filter(lambda text: len(text.encode()) <= 255)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bit": st.booleans(),
    "octet": st.integers(0, 2**8 - 1),
    "short": st.integers(0, 2**16 - 1),
    "long": st.integers(0, 2**32 - 1),
    "longlong": st.integers(0, 2**63 - 1),  # pamqp reads them with a sign
    "shortstr": SHORT_STRINGS,
    "longstr": st.binary(max_size=300),
    "table": TABLES,
}


def methods_of(method: type[Method]) -> st.SearchStrategy[Method]:
    names = [each.name for each in fields(method)]  # type: ignore[arg-type]  # each is a dataclass
    return st.builds(method, **{name: VALUES[kind] for name, kind in zip(names, method.LAYOUT.split(), strict=True)})


def theirs(value: Any) -> Any:
    """A table, or a field of one, as pamqp reads it."""
    if isinstance(value, Table):
        return {name: theirs(Field(kind, each)) for name, kind, each in value}
    kind, of = value
    if kind == "F":
        return theirs(of)
    if kind == "A":
        return [theirs(each) for each in of]
    if kind == "T":
        return datetime.fromtimestamp(of, UTC)
    if kind == "x":
        return bytearray(of)
    return of if kind != "S" else text_or_bytes(of.encode("utf-8", "surrogateescape"))


def text_or_bytes(data: bytes) -> str | bytes:
    """How pamqp reads a long string."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


@contextmanager
def without_opinions(method: type[Any]) -> Iterator[None]:
    """pamqp refuses what the specification advises against; servers have to read it."""
    with patch.object(method, "validate", lambda _: None), warnings.catch_warnings(action="ignore"):
        yield


def marshalled(value: Any, channel: int = 1) -> bytes:
    """A method's frame by pamqp."""
    with without_opinions(type(value)):
        return frame.marshal(value, channel)
