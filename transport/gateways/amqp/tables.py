"""Field tables and arrays of AMQP: every type that RabbitMQ reads, written as RabbitMQ writes it.

The types are those of RabbitMQ's list of errata, and not all of them those of the specification: ``s`` is a short integer, ``l`` and
``L`` are both 64 bits with a sign. What was read keeps its type, and so goes out as it came; of ``L`` comes ``l``, and of a truth that
is neither 0 nor 1 comes 1, as RabbitMQ does. A table that was read keeps its bytes too.

Strings and names are text. Bytes that are no UTF-8 are kept in it (``surrogateescape``), and are the same bytes when it is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import count
from math import isfinite
from struct import Struct
from struct import error as struct_error
from typing import Any, Final, NamedTuple, Union

from transport.errors import LocalProtocolError
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.reply_codes import ReplyCode

MAX_TABLE_BYTES: Final = 1 << 20
"""Of one table: eight of RabbitMQ's usual frames, in one of which it must come."""
MAX_TABLE_ENTRIES: Final = 16_384
"""Of one table with all that is in it: each takes some 300 bytes of memory, and may take two on the wire."""
MAX_ARGUMENT_ENTRIES: Final = 1_024
"""Likewise, of a method's arguments, of which each is made an object: 16,384 hold the loop for 20 ms, and nobody has so many."""
MAX_NAME_BYTES: Final = 255
"""Of a field's name: it is a short string."""
MAX_TABLE_DEPTH: Final = 32
"""Tables and arrays in one another: RabbitMQ's own tables have four."""

FieldValue = Union[bool, int, float, Decimal, str, bytes, None, "Table", "tuple[Field, ...]"]
"""``t`` a truth; ``b B s u I i l`` a number, and ``T`` one of seconds; ``f d`` a float; ``D`` a decimal; ``S`` text; ``x`` bytes;
``V`` nothing; ``F`` a table; ``A`` fields."""


class Field(NamedTuple):
    """A value and its type, a letter."""

    kind: str
    value: FieldValue


class Entry(NamedTuple):
    """A field of a table, and its name."""

    name: str
    kind: str
    value: FieldValue


class Table:
    """Entries in order, frozen. Of two with one name the first counts, as in RabbitMQ.

    Args:
        entries: what it holds.
        raw: the bytes that it was read from, without the length before them.
    """

    __slots__ = ("_raw", "entries")

    def __init__(self, entries: Iterable[Entry] = (), raw: bytes | None = None) -> None:
        self.entries: Final = tuple(entries)
        self._raw = raw

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Table:
        """Of Python's values, each with the type that it has by nature: an int is ``I``, or ``l`` beyond 32 bits. A `Field` says its own.

        Raises:
            LocalProtocolError: a value that has none, or too many tables in one another.
        """
        return _table_of(values, 1)

    @property
    def raw(self) -> bytes:
        """Its bytes, without the length before them: as they came, or as they are written."""
        if self._raw is None:
            self._raw = encode_table(self)
        return self._raw

    def field(self, name: str) -> Field | None:
        """The field of this name; None where there is none."""
        return next((Field(kind, value) for each, kind, value in self.entries if each == name), None)

    def get(self, name: str, default: FieldValue = None) -> FieldValue:
        """The value of this name."""
        found = self.field(name)
        return default if found is None else found.value

    def replaced(self, name: str, kind: str, value: FieldValue) -> Table:
        """The same with this value, in the place of the first that has the name, or at the end."""
        entry = Entry(name, kind, value)
        entries = list(self.entries)
        for at, each in enumerate(entries):
            if each.name == name:
                entries[at] = entry
                return Table(entries)
        return Table([*entries, entry])

    def without(self, name: str) -> Table:
        """The same without any entry of this name; itself where there is none."""
        kept = [each for each in self.entries if each.name != name]
        return self if len(kept) == len(self.entries) else Table(kept)

    def __contains__(self, name: object) -> bool:
        return any(each.name == name for each in self.entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __eq__(self, other: object) -> bool:
        return self.entries == other.entries if isinstance(other, Table) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.entries)

    def __repr__(self) -> str:
        return f"Table({list(self.entries)!r})"


EMPTY_TABLE: Final = Table((), b"")

_LENGTH: Final = Struct(">I")
_DECIMAL: Final = Struct(">BI")
_NUMBERS: Final = {
    "b": Struct(">b"),
    "B": Struct(">B"),
    "s": Struct(">h"),
    "u": Struct(">H"),
    "I": Struct(">i"),
    "i": Struct(">I"),
    "l": Struct(">q"),
    "T": Struct(">Q"),
}
_FLOATS: Final = {"f": Struct(">f"), "d": Struct(">d")}
_FLOAT_KIND, _DOUBLE_KIND = ord("f"), ord("d")
_UNKNOWN, _LONG, _TABLE, _ARRAY = -1, -2, -3, -4


def _widths() -> list[int]:
    """By type: the bytes of a value, or what else it is."""
    widths = [_UNKNOWN] * 256
    structs = {**_NUMBERS, "L": _NUMBERS["l"], "D": _DECIMAL, **_FLOATS}
    for kind, struct in structs.items():
        widths[ord(kind)] = struct.size
    for kind, width in {"t": 1, "V": 0, "S": _LONG, "x": _LONG, "F": _TABLE, "A": _ARRAY}.items():
        widths[ord(kind)] = width
    return widths


_WIDTHS: Final = _widths()


def decode_table(raw: bytes, most: int = MAX_TABLE_ENTRIES) -> Table:
    """The table whose bytes these are, without the length before them.

    Args:
        raw: these.
        most: entries that it may have with all that is in it: ``MAX_TABLE_ENTRIES``, or ``MAX_ARGUMENT_ENTRIES`` of a method.

    Raises:
        AmqpError: SYNTAX_ERROR: bytes that are no table, or one over a limit.
    """
    if not raw:
        return EMPTY_TABLE
    check_table(raw, 0, len(raw), most)
    return Table(_entries(raw, 0, len(raw)), raw)


def check_table(raw: bytes, at: int, end: int, most: int = MAX_TABLE_ENTRIES) -> None:
    """Whether the bytes from ``at`` to ``end`` are a table, without making anything of them.

    Raises:
        AmqpError: as `decode_table`.
    """
    if end - at > MAX_TABLE_BYTES:
        raise _wrong(f"a table of {end - at} bytes exceeds MAX_TABLE_BYTES, {MAX_TABLE_BYTES}")
    if _walk(raw, at, end, True, MAX_TABLE_DEPTH, most) < 0:
        limit = "MAX_TABLE_ENTRIES" if most == MAX_TABLE_ENTRIES else "MAX_ARGUMENT_ENTRIES"
        raise _wrong(f"a table with what is in it has more than {limit}, {most}")


def _walk(raw: bytes, at: int, end: int, named: bool, depth: int, left: int) -> int:
    """Passes over the fields between ``at`` and ``end``; returns how many entries may come yet, below zero where there are more."""
    if depth <= 0:
        raise _wrong(f"tables and arrays in one another are more than MAX_TABLE_DEPTH, {MAX_TABLE_DEPTH}")
    while at < end and left > 0:
        left -= 1
        if named:
            at += raw[at] + 1
            if at >= end:
                raise _wrong("a table ends within a field's name, or before its type")
        kind = raw[at]
        at += 1
        width = _WIDTHS[kind]
        begin = at
        if width >= 0:
            at += width
        elif width == _UNKNOWN:
            raise _wrong(f"a field of the unknown type {kind:#04x}")
        else:
            begin += 4
            if begin > end:
                raise _wrong("a table ends within the length of a field")
            at = begin + int.from_bytes(raw[at:begin], "big")
        if at > end:
            raise _wrong(f"a field of type {chr(kind)!r} ends {at - end} bytes behind its table or array")
        if width <= _TABLE:
            left = _walk(raw, begin, at, width == _TABLE, depth - 1, left)
        elif kind in (_FLOAT_KIND, _DOUBLE_KIND) and _is_no_number(raw, kind, begin):
            raise _wrong("a float that is infinite or no number")
    return left if at >= end else -1


def mark_table(marks: bytearray, raw: bytes, at: int, end: int, named: bool = True) -> None:
    """Set the bytes of ``marks`` where those of a table that was checked say that it is one: see `shapes`."""
    while at < end:
        if named:
            marks[at] = 0xFF
            at += raw[at] + 1
        kind = raw[at]
        width = _WIDTHS[kind]
        marks[at] = 0xFF
        at += 1
        if width >= 0:
            if kind in (_FLOAT_KIND, _DOUBLE_KIND):
                marks[at] = marks[at + 1] = 0xFF
            at += width
            continue
        begin = at + 4
        marks[at:begin] = b"\xff\xff\xff\xff"
        at = begin + int.from_bytes(raw[at:begin], "big")
        if width <= _TABLE:
            mark_table(marks, raw, begin, at, width == _TABLE)


def _is_no_number(raw: bytes, kind: int, at: int) -> bool:
    """Whether all bits of a float's exponent are set."""
    return raw[at] & 0x7F == 0x7F and raw[at + 1] >= (0xF0 if kind == _DOUBLE_KIND else 0x80)


def _entries(raw: bytes, at: int, end: int) -> Iterator[Entry]:
    """The entries of a table that was checked."""
    while at < end:
        begin = at + 1
        at = begin + raw[at]
        name = raw[begin:at].decode("utf-8", "surrogateescape")
        field, at = _field(raw, at)
        yield Entry(name, *field)


def _fields(raw: bytes, at: int, end: int) -> Iterator[Field]:
    """The fields of an array that was checked."""
    while at < end:
        field, at = _field(raw, at)
        yield field


def _field(raw: bytes, at: int) -> tuple[Field, int]:
    """The field at ``at``, and where the next begins."""
    kind = chr(raw[at])
    at += 1
    width = _WIDTHS[ord(kind)]
    if width < 0:
        begin = at + 4
        end = begin + int.from_bytes(raw[at:begin], "big")
        return Field(kind, _long_value(raw, kind, begin, end)), end
    value: FieldValue = None
    if kind == "L":
        kind = "l"
    if kind == "t":
        value = raw[at] != 0
    elif kind == "D":
        scale, digits = _DECIMAL.unpack_from(raw, at)
        value = _decimal(scale, digits)
    elif kind != "V":
        (value,) = (_NUMBERS.get(kind) or _FLOATS[kind]).unpack_from(raw, at)
    return Field(kind, value), at + width


def _long_value(raw: bytes, kind: str, begin: int, end: int) -> FieldValue:
    """A value that has a length before it."""
    if kind == "F":
        return Table(_entries(raw, begin, end))
    if kind == "A":
        return tuple(_fields(raw, begin, end))
    data = raw[begin:end]
    return data.decode("utf-8", "surrogateescape") if kind == "S" else data


def _decimal(scale: int, digits: int) -> Decimal:
    """The same number and as many places, whatever the program's decimal context is."""
    return Decimal((0, tuple(map(int, str(digits))), -scale))


def encode_table(table: Table) -> bytes:
    """The bytes of a table, without a length before them.

    Raises:
        LocalProtocolError: a value that does not fit its type, or a table over a limit.
    """
    out = bytearray()
    _put_entries(out, table, MAX_TABLE_DEPTH, count(1))
    if len(out) > MAX_TABLE_BYTES:
        raise LocalProtocolError(f"a table of {len(out)} bytes exceeds MAX_TABLE_BYTES, {MAX_TABLE_BYTES}")
    return bytes(out)


def _put_entries(out: bytearray, table: Table, depth: int, number: Iterator[int]) -> None:
    for name, kind, value in table.entries:
        encoded = _bytes_of(name)
        if len(encoded) > MAX_NAME_BYTES:
            raise LocalProtocolError(f"a field's name of {len(encoded)} bytes exceeds {MAX_NAME_BYTES}")
        out.append(len(encoded))
        out += encoded
        _put_field(out, kind, value, depth, number)


def _put_field(out: bytearray, kind: str, value: Any, depth: int, number: Iterator[int]) -> None:
    """Writes a value as its type says."""
    if next(number) > MAX_TABLE_ENTRIES:
        raise LocalProtocolError(f"a table with what is in it has more than MAX_TABLE_ENTRIES, {MAX_TABLE_ENTRIES}")
    out += kind.encode()
    if (kind == "F" and isinstance(value, Table)) or (kind == "A" and isinstance(value, tuple)):
        _put_nested(out, value, depth - 1, number)
        return
    try:
        if kind in {"S", "x"}:
            data = _bytes_of(value) if kind == "S" else memoryview(value)
            out += _LENGTH.pack(len(data))
            out += data
        elif kind == "D":
            out += _DECIMAL.pack(*_scaled(value))
        elif kind == "t":
            out.append(1 if value else 0)
        elif kind in _FLOATS:
            if not isfinite(value):
                raise ValueError(value)
            out += _FLOATS[kind].pack(value)
        elif kind != "V":
            out += _NUMBERS[kind].pack(value)
    except (struct_error, KeyError, TypeError, AttributeError, OverflowError, ValueError) as error:
        raise LocalProtocolError(f"the value {value!r} does not fit a field of type {kind!r}") from error


def _put_nested(out: bytearray, value: Table | tuple[Field, ...], depth: int, number: Iterator[int]) -> None:
    """Writes a table or an array in another one."""
    if depth <= 0:
        raise LocalProtocolError(f"tables in one another are more than MAX_TABLE_DEPTH, {MAX_TABLE_DEPTH}")
    at = len(out)
    out += b"\0\0\0\0"
    if isinstance(value, Table):
        _put_entries(out, value, depth, number)
    else:
        for kind, each in value:
            _put_field(out, kind, each, depth, number)
    _LENGTH.pack_into(out, at, len(out) - at - 4)


def _bytes_of(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"the text {text!r} cannot be written as UTF-8") from error


def _scaled(value: Decimal) -> tuple[int, int]:
    """Places and digits of a decimal; raises ValueError or TypeError for one that has a sign or is no number."""
    sign, digits, exponent = value.as_tuple()
    if sign or not isinstance(exponent, int):
        raise ValueError(value)
    number = int("".join(map(str, digits)))
    return (0, number * 10**exponent) if 0 < exponent < MAX_NAME_BYTES else (-exponent, number)


def _table_of(values: Mapping[str, Any], depth: int) -> Table:
    return Table(Entry(name, *_field_of(value, depth)) for name, value in values.items())


def _field_of(value: Any, depth: int) -> Field:
    """The field that a Python value is by nature."""
    if depth > MAX_TABLE_DEPTH:
        raise LocalProtocolError(f"tables in one another are more than MAX_TABLE_DEPTH, {MAX_TABLE_DEPTH}")
    if isinstance(value, Field):
        return value
    if isinstance(value, bool | None):
        return Field("V" if value is None else "t", value)
    if isinstance(value, int):
        return Field("I" if -(1 << 31) <= value < 1 << 31 else "l", value)
    if isinstance(value, Mapping):
        return Field("F", _table_of(value, depth + 1))
    if isinstance(value, list | tuple):
        return Field("A", tuple(_field_of(each, depth + 1) for each in value))
    if kind := _BY_NATURE.get(type(value)):
        return Field(kind, value)
    raise LocalProtocolError(f"a value of type {type(value).__name__} is no field of a table")


_BY_NATURE: Final[dict[type, str]] = {float: "d", Decimal: "D", str: "S", bytes: "x", Table: "F"}


def _wrong(explanation: str) -> AmqpError:
    return AmqpError(ReplyCode.SYNTAX_ERROR, explanation)
