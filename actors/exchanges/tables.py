"""Tables of arguments and headers: what may be in them, how large they are, and when two values are the same.

A table maps names to values: nothing, a truth value, a number, a text, bytes, a time, a decimal number, an array, or another table (AMQP
0-9-1, 4.2.5.5). Values are compared as RabbitMQ compares what has been decoded. The width of an integer says nothing, so 5 is 5 in
whatever type it came. An integer is never a floating-point number, nor a truth value a number. A text is the bytes that it is in UTF-8,
because both of AMQP's types of strings are bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, TypeAlias

from actors.exchanges.errors import ExchangeLimitError, InvalidDefinitionError
from actors.exchanges.limits import ENTRY_OVERHEAD_BYTES, ITEM_OVERHEAD_BYTES, MAX_TABLE_DEPTH
from actors.limits import MAX_NAME_BYTES

Table: TypeAlias = Mapping[str, Any]
Comparable: TypeAlias = tuple[Hashable, ...]
"""A value in a form that is equal to another's, and has the same hash, exactly where the values are the same."""
Frozen: TypeAlias = tuple[tuple[str, Comparable], ...]
"""A whole table in such a form, by its names in order."""

NOTHING: Final[Comparable] = ("nothing",)
"""The form of a value that is none: ``void`` of AMQP."""
MIN_INTEGER: Final = -(2**63)
MAX_INTEGER: Final = 2**64 - 1
_NUMBER_BYTES: Final = 9
_LENGTH_BYTES: Final = 5


def frozen(table: Table | None, what: str = "headers") -> Frozen:
    """The table in a form that can be compared.

    Args:
        table: None for an empty one.
        what: the table is, for the error's text.

    Raises:
        ExchangeLimitError: tables in one another deeper than MAX_TABLE_DEPTH.
        InvalidDefinitionError: a value of a type that tables do not have.
    """
    return () if table is None else _comparable_items(_mapping(table, what), 1, what)


def _comparable_items(table: Mapping[Any, Any], depth: int, what: str) -> Frozen:
    items = [(_checked_name(name, what), _comparable(value, depth, what)) for name, value in table.items()]
    return tuple(sorted(items, key=_name_of))


def _name_of(item: tuple[str, Comparable]) -> str:
    return item[0]


def _comparable(value: Any, depth: int, what: str) -> Comparable:  # noqa: PLR0911 - one for each type
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return ("truth", value)
    if isinstance(value, int):
        return ("integer", value)
    if isinstance(value, str):
        return ("text", value.encode("utf-8", "surrogatepass"))
    if isinstance(value, bytes | bytearray | memoryview):
        return ("text", bytes(value))
    if isinstance(value, float):
        return ("float", struct.pack("<d", value))
    if isinstance(value, datetime):
        return ("time", value if value.tzinfo is not None else value.replace(tzinfo=UTC))
    if isinstance(value, Decimal):
        return ("decimal", value.as_tuple())
    if isinstance(value, list | tuple):
        _check_depth(depth, what)
        return ("array", tuple([_comparable(item, depth + 1, what) for item in value]))
    if isinstance(value, Mapping):
        _check_depth(depth, what)
        return ("table", _comparable_items(value, depth + 1, what))
    raise _no_type(value, what)


def checked(table: Table | None, what: str, bound: int) -> dict[str, Any]:
    """A copy of a table of arguments that may be kept: its arrays are lists, its tables dicts, its times have a zone.

    Args:
        table: None for an empty one.
        what: the table is, for the error's text: ``arguments of exchange 'a'``.
        bound: how many bytes it may have.

    Raises:
        ExchangeLimitError: it is larger, or deeper than MAX_TABLE_DEPTH.
        InvalidDefinitionError: it is no table, or something in it is of a type, or out of a range, that tables do not have.
    """
    return {} if table is None else _Copy(what, bound).table(_mapping(table, what), 0)


def _mapping(table: object, what: str) -> Mapping[Any, Any]:
    if not isinstance(table, Mapping):
        raise InvalidDefinitionError(f"{what} are {_type(table)}: they have to be a table of names and values")
    return table


class _Copy:
    """One copy under way. It ends as soon as too much was seen, however much there is."""

    __slots__ = ("bound", "bytes", "what")

    def __init__(self, what: str, bound: int) -> None:
        self.what = what
        self.bound = bound
        self.bytes = 0

    def count(self, size: int) -> None:
        self.bytes += size
        if self.bytes > self.bound:
            advice = "keep what is large in messages"
            raise ExchangeLimitError(f"bytes of {self.what}", self.bytes, "max_arguments_bytes", self.bound, advice)

    def table(self, table: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        copied = {}
        for name, value in table.items():
            self.count(1 + len(_checked_name(name, self.what).encode()))
            copied[name] = self.value(value, depth + 1)
        return copied

    def value(self, value: Any, depth: int) -> Any:
        if isinstance(value, Mapping):
            _check_depth(depth, self.what)
            self.count(_LENGTH_BYTES)
            return self.table(value, depth)
        if isinstance(value, list | tuple):
            _check_depth(depth, self.what)
            self.count(_LENGTH_BYTES)
            return [self.value(item, depth + 1) for item in value]
        if isinstance(value, bytes | bytearray | memoryview):
            value = bytes(value)
        elif isinstance(value, datetime) and value.tzinfo is None:
            value = value.replace(tzinfo=UTC)
        elif isinstance(value, int) and not MIN_INTEGER <= value <= MAX_INTEGER:
            raise InvalidDefinitionError(f"{self.what} have an integer that takes more than 64 bits: give it as text")
        self.count(_plain_bytes(value, self.what))
        return value


def table_bytes(table: Table) -> int:
    """About what a table that was checked takes in memory."""
    return sum(ENTRY_OVERHEAD_BYTES + len(name.encode()) + _value_bytes(value) for name, value in table.items())


def _value_bytes(value: Any) -> int:
    if isinstance(value, Mapping):
        return ITEM_OVERHEAD_BYTES + table_bytes(value)
    if isinstance(value, list):
        return ITEM_OVERHEAD_BYTES * len(value) + sum(map(_value_bytes, value))
    return _plain_bytes(value, "arguments")


def _plain_bytes(value: Any, what: str) -> int:
    if isinstance(value, str):
        return _LENGTH_BYTES + len(_encoded(value, what))
    if isinstance(value, bytes):
        return _LENGTH_BYTES + len(value)
    if value is None or isinstance(value, bool):
        return 1
    if isinstance(value, int | float | datetime):
        return _NUMBER_BYTES
    if isinstance(value, Decimal):
        return _NUMBER_BYTES + len(value.as_tuple().digits)
    raise _no_type(value, what)


def _checked_name(name: object, what: str) -> str:
    if not isinstance(name, str):
        raise InvalidDefinitionError(f"{what} have a name of {_type(name)}: names are text")
    size = len(name) if name.isascii() else len(_encoded(name, what))
    if size > MAX_NAME_BYTES:
        advice = "use a shorter one"
        raise ExchangeLimitError(f"bytes of a name in {what}", size, "MAX_NAME_BYTES", MAX_NAME_BYTES, advice)
    return name


def _encoded(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidDefinitionError(
            f"{what} have the text {text!r:.60}, which is no Unicode: give it as bytes"
        ) from None


def _check_depth(depth: int, what: str) -> None:
    if depth > MAX_TABLE_DEPTH:
        advice = "make them flatter"
        raise ExchangeLimitError(f"levels of {what}", depth, "MAX_TABLE_DEPTH", MAX_TABLE_DEPTH, advice)


def _no_type(value: object, what: str) -> InvalidDefinitionError:
    return InvalidDefinitionError(
        f"{what} have {_type(value)}: values are None, truth values, numbers, texts, bytes, times, arrays and tables"
    )


def _type(value: object) -> str:
    return f"a value of type {type(value).__name__}"
