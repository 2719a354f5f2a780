"""What a client of AMQP has published, as headers that native programs and Spark's queries read: each property by its name.

A broker keeps AMQP's properties as the bytes that came, in one header, and nobody reads them on a message's way. They are read here, where
somebody asks for headers: ``amqp.content_type`` and its like, and each entry of AMQP's table under its own name. A gateway makes properties
of such headers again (``transport/gateways/amqp/carried_properties.py``).

A header is a text or bytes. So a number is its decimal digits, a truth ``true`` or ``false``, nothing an empty text; a table or an array is
JSON, in which bytes are an object of ``base64``. What is no UTF-8 is bytes. The layout is AMQP 0-9-1's, 4.2.5.5 and 4.2.6.1.
"""

from __future__ import annotations

import json
from base64 import b64encode
from decimal import Decimal
from struct import Struct
from struct import error as struct_error
from typing import TYPE_CHECKING, Any, Final

from transport.wire.names import AMQP_HEADER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.batch import HeaderValue

RAW: Final = AMQP_HEADER
"""The header that has AMQP's properties, as they are on the wire: flags, then each."""
PREFIX: Final = "amqp."
"""Before the name of a property, where it is a header: ``amqp.content_type``."""
MAX_REMEMBERED: Final = 256
"""Properties of which it is remembered what was made of them;"""
MAX_REMEMBERED_BYTES: Final = 1_024
"""those of more bytes are not."""
MAX_DEPTH: Final = 32
"""Tables and arrays in one another: a broker takes no more."""
MAX_FIELDS: Final = 128
"""Of one table, with all that is in it: a broker reads a thousand such messages for one answer of HTTP. Programs have some ten; a message
with more has its properties as bytes, in `RAW`."""
MAX_RAW_BYTES: Final = 64 << 10
"""Of properties that are read, likewise; half of AMQP's usual frame, in one of which they came."""

_TEXT, _TABLE = 0, -1
_PROPERTIES: Final = (
    ("content_type", _TEXT),
    ("content_encoding", _TEXT),
    ("headers", _TABLE),
    ("delivery_mode", 1),
    ("priority", 1),
    ("correlation_id", _TEXT),
    ("reply_to", _TEXT),
    ("expiration", _TEXT),
    ("message_id", _TEXT),
    ("timestamp", 8),
    ("type", _TEXT),
    ("user_id", _TEXT),
    ("app_id", _TEXT),
    ("cluster_id", _TEXT),
)
"""Each property, in the order of its flags, with the octets that it takes."""
_FIRST_FLAG: Final = 0x8000
_FLAGS_BYTES: Final = 2
_LENGTH: Final = Struct(">I")
_DECIMAL: Final = Struct(">BI")
_NUMBERS: Final = {
    kind: Struct(">" + code)
    for kind, code in zip(b"bBsuIilLTfd", ("b", "B", "h", "H", "i", "I", "q", "q", "Q", "f", "d"), strict=True)
}
_TRUTH, _NOTHING, _DECIMAL_KIND, _LONG_TEXT, _BYTES, _TABLE_KIND, _ARRAY = b"tVDSxFA"

_known: dict[bytes, dict[str, HeaderValue]] = {}


def told_headers(headers: dict[str, HeaderValue]) -> dict[str, HeaderValue]:
    """The headers of a message as they are told to who asks for them: the same, but for what AMQP has published.

    A header of the message's own is told, and not what AMQP says under its name. Bytes that are no properties, or are over a limit, stay as
    they are: anybody may write such a header.
    """
    raw = headers.get(RAW)
    if not isinstance(raw, bytes) or len(raw) > MAX_RAW_BYTES:
        return headers
    told = _known.get(raw)
    if told is None:
        try:
            told = _told(raw)
        except (ValueError, IndexError, struct_error, ArithmeticError):
            return headers
        if len(raw) <= MAX_REMEMBERED_BYTES:
            if len(_known) >= MAX_REMEMBERED:
                _known.clear()
            _known[raw] = told
    return {**told, **{name: value for name, value in headers.items() if name != RAW}}


def _told(raw: bytes) -> dict[str, HeaderValue]:
    """What properties tell; raises where they are none."""
    flags, at = int.from_bytes(raw[:_FLAGS_BYTES], "big"), _FLAGS_BYTES
    properties: dict[str, HeaderValue] = {}
    table: dict[str, HeaderValue] = {}
    left = _Left()
    for place, (name, width) in enumerate(_PROPERTIES):
        if not flags & _FIRST_FLAG >> place:
            continue
        if width > 0:
            begin, at = at, at + width
            properties[PREFIX + name] = str(int.from_bytes(raw[begin:at], "big"))
        elif width == _TEXT:
            begin = at + 1
            at = begin + raw[at]
            properties[PREFIX + name] = _text(raw[begin:at])
        else:
            begin = at + _LENGTH.size
            at = begin + _LENGTH.unpack_from(raw, at)[0]
            for entry, value in _entries(raw[begin:at], 1, left):
                table.setdefault(entry, _header(value))
        _check(at, len(raw))
    if at != len(raw) or len(raw) < _FLAGS_BYTES:
        raise ValueError("there is more than the flags announce")
    return table | properties


def _header(value: Any) -> HeaderValue:
    """A value of a table as a header."""
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, bool | dict | list):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_json)
    return "" if value is None else str(value)


def _json(value: object) -> object:
    """In JSON: bytes as the command line tells them, a decimal number as its digits."""
    return {"base64": b64encode(value).decode()} if isinstance(value, bytes) else str(value)


class _Left:
    """How many fields may still come."""

    __slots__ = ("fields",)

    def __init__(self) -> None:
        self.fields = MAX_FIELDS

    def take(self) -> None:
        """One has come."""
        self.fields -= 1
        if self.fields < 0:
            raise ValueError("more fields than are read")


def _entries(raw: bytes, depth: int, left: _Left) -> Iterator[tuple[str, Any]]:
    """Name and value of each entry of a table; of two with one name the first counts, which is for who reads them."""
    at = 0
    while at < len(raw):
        begin = at + 1
        at = begin + raw[at]
        _check(at, len(raw))
        name = raw[begin:at].decode("utf-8", "replace")
        value, at = _field(raw, at, depth, left)
        yield name, value


def _field(raw: bytes, at: int, depth: int, left: _Left) -> tuple[Any, int]:  # noqa: PLR0911 - one for each type
    """The value whose type is at ``at``, and where the next begins."""
    left.take()
    kind, at = raw[at], at + 1
    if kind in _NUMBERS:
        (number,) = _NUMBERS[kind].unpack_from(raw, at)
        return number, at + _NUMBERS[kind].size
    if kind == _TRUTH:
        return raw[at] != 0, at + 1
    if kind == _NOTHING:
        return None, at
    if kind == _DECIMAL_KIND:
        scale, digits = _DECIMAL.unpack_from(raw, at)
        return format(Decimal((0, tuple(map(int, str(digits))), -scale)), "f"), at + _DECIMAL.size
    if kind not in (_LONG_TEXT, _BYTES, _TABLE_KIND, _ARRAY) or depth > MAX_DEPTH:
        raise ValueError("a field of an unknown type, or too many tables in one another")
    begin = at + _LENGTH.size
    end = begin + _LENGTH.unpack_from(raw, at)[0]
    _check(end, len(raw))
    inner = raw[begin:end]
    if kind == _TABLE_KIND:
        return _first_of_each(_entries(inner, depth + 1, left)), end
    if kind == _ARRAY:
        return _fields(inner, depth + 1, left), end
    return inner if kind == _BYTES else _text(inner), end


def _fields(raw: bytes, depth: int, left: _Left) -> list[Any]:
    found, at = [], 0
    while at < len(raw):
        value, at = _field(raw, at, depth, left)
        found.append(value)
    return found


def _first_of_each(entries: Iterator[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in entries:
        found.setdefault(name, value)
    return found


def _text(raw: bytes) -> HeaderValue:
    """A text; the bytes where they are none."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _check(at: int, end: int) -> None:
    if at > end:
        raise ValueError("a field ends behind its table, or a property behind all of them")
