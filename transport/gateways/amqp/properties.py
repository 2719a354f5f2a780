"""A message's properties: the bytes that came are kept and go out as they are; what is asked for is read out of them.

A content header has them behind the body's size (AMQP 0-9-1, 4.2.6.1): sixteen flags, the first of which is the highest bit, then what
is there, in the order of the flags. The lowest two mean nothing, and are passed over as RabbitMQ does.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import Any, Final

from transport.errors import LocalProtocolError
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.method_codec import short_string
from transport.gateways.amqp.methods import PROPERTIES
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.gateways.amqp.shapes import LEAST_BYTES, Places, Shapes
from transport.gateways.amqp.tables import Table, check_table, decode_table, mark_table

FLAGS_BYTES: Final = 2
NO_PROPERTIES: Final = b"\0\0"
MAX_PLANS: Final = 256
"""Sets of properties whose walk is remembered: programs have a handful."""
FLAGS: Final[dict[str, int]] = {name: 0x8000 >> position for position, (name, _) in enumerate(PROPERTIES)}
"""The flag of each property: ``FLAGS["headers"] & flags_of(raw)`` says whether it is there."""
HEADERS_FLAG, DELIVERY_MODE_FLAG, EXPIRATION_FLAG = FLAGS["headers"], FLAGS["delivery_mode"], FLAGS["expiration"]

_LENGTH: Final = Struct(">I")
_TIMESTAMP: Final = Struct(">Q")
_FLAGS: Final = Struct(">H")
_SHORT_STRING, _TABLE = 0, -1
_WIDTHS: Final = {"octet": 1, "timestamp": 8, "shortstr": _SHORT_STRING, "table": _TABLE}
_POSITIONS: Final = {name: position for position, (name, _) in enumerate(PROPERTIES)}
_KINDS: Final = tuple(kind for _, kind in PROPERTIES)

_plans: dict[int, tuple[tuple[int, int], ...]] = {}
_shapes: Final = Shapes()


def flags_of(raw: bytes) -> int:
    """Which properties are there, of bytes that were checked."""
    return raw[0] << 8 | raw[1]


def check_properties(raw: bytes) -> None:
    """Whether these bytes are properties, all of them and nothing else; nothing is made of them.

    Raises:
        AmqpError: SYNTAX_ERROR: they are not.
    """
    if len(raw) < LEAST_BYTES:
        _walk(raw)
    elif _shapes.find(raw) is None:
        _walk(raw)
        if _shapes.wants(raw):
            _remember(raw)


def _walk(raw: bytes) -> None:
    """As `check_properties`, through all that is there."""
    try:
        at = FLAGS_BYTES
        flags = raw[0] << 8 | raw[1]
        for _, width in _plans.get(flags) or _plan(flags):
            if not width:  # a short string
                at += raw[at] + 1
            elif width > 0:
                at += width
            else:
                begin = at + _LENGTH.size
                at = begin + _LENGTH.unpack_from(raw, at)[0]
                if at > len(raw):
                    break
                check_table(raw, begin, at)
    except (IndexError, struct_error):
        raise _wrong("properties end before all that their flags announce") from None
    if at != len(raw):
        what = "before all that their flags announce" if at > len(raw) else f"{len(raw) - at} bytes early"
        raise _wrong(f"properties end {what}")


class _Text:
    """A property that is a short string; bytes that are no UTF-8 are kept in it (``surrogateescape``)."""

    def __set_name__(self, owner: type[Properties], name: str) -> None:
        self._position = _POSITIONS[name]

    def __get__(self, properties: Properties, owner: type[Properties]) -> str | None:
        begin, end = properties.place(self._position)
        return properties.raw[begin + 1 : end].decode("utf-8", "surrogateescape") if end else None


class _Number:
    """A property that is an octet, or a time in seconds."""

    def __set_name__(self, owner: type[Properties], name: str) -> None:
        self._position = _POSITIONS[name]

    def __get__(self, properties: Properties, owner: type[Properties]) -> int | None:
        begin, end = properties.place(self._position)
        return int.from_bytes(properties.raw[begin:end], "big") if end else None


class Properties:
    """Properties as they came, each of them None where it is not there.

    Args:
        raw: their bytes, flags first.

    Raises:
        AmqpError: SYNTAX_ERROR, when one is asked for: the bytes are no properties.
    """

    __slots__ = ("_headers", "_places", "raw")

    def __init__(self, raw: bytes = NO_PROPERTIES) -> None:
        self.raw: Final = raw
        self._places: Places | None = None
        self._headers: Table | None = None

    content_type = _Text()
    content_encoding = _Text()
    delivery_mode = _Number()
    priority = _Number()
    correlation_id = _Text()
    reply_to = _Text()
    expiration = _Text()
    message_id = _Text()
    timestamp = _Number()
    type = _Text()
    user_id = _Text()
    app_id = _Text()
    cluster_id = _Text()

    @classmethod
    def of(cls, **values: Any) -> Properties:
        """Of Python's values by their names; None for what is not to be there. Errors as of `replaced`."""
        return cls().replaced(**values)

    @property
    def headers(self) -> Table | None:
        """The table of headers."""
        if self._headers is None:
            begin, end = self.place(_POSITIONS["headers"])
            if end:
                self._headers = decode_table(self.raw[begin + _LENGTH.size : end])
        return self._headers

    def place(self, position: int) -> tuple[int, int]:
        """Where the property at this position of `PROPERTIES` begins and ends; (0, 0) where it is not there."""
        if self._places is None:
            self._places = _places(self.raw)
        return self._places[position]

    def replaced(self, **values: Any) -> Properties:
        """The same with other values, None to leave one out; every other is the bytes that it was.

        Raises:
            LocalProtocolError: a value that does not fit, or no property of that name.
        """
        if unknown := values.keys() - _POSITIONS.keys():
            raise LocalProtocolError(f"no properties of AMQP: {', '.join(sorted(unknown))}")
        flags, parts = 0, [b""]
        for position, (name, kind) in enumerate(PROPERTIES):
            if name in values:
                part = b"" if values[name] is None else _encoded(name, kind, values[name])
            else:
                begin, end = self.place(position)
                part = self.raw[begin:end]
            if part:
                flags |= FLAGS[name]
                parts.append(part)
        parts[0] = _FLAGS.pack(flags)
        return Properties(b"".join(parts))

    def values(self) -> dict[str, Any]:
        """Those that are there, by their names."""
        return {name: value for name, _ in PROPERTIES if (value := getattr(self, name)) is not None}

    def __eq__(self, other: object) -> bool:
        return self.raw == other.raw if isinstance(other, Properties) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return f"Properties({self.raw!r})"


def _plan(flags: int) -> tuple[tuple[int, int], ...]:
    """Position and width of each property that these flags announce; a width of 0 is a short string, -1 a table."""
    found = _plans.get(flags)
    if found is None:
        found = tuple((at, _WIDTHS[kind]) for at, kind in enumerate(_KINDS) if flags & 0x8000 >> at)
        if len(_plans) >= MAX_PLANS:
            _plans.clear()
        _plans[flags] = found
    return found


def _places(raw: bytes) -> Places:
    """Begin and end of each property; raises AmqpError where the bytes are none."""
    if len(raw) >= LEAST_BYTES and (shape := _shapes.find(raw)) is not None:
        return shape.places
    check_properties(raw)
    return _found_places(raw)


def _found_places(raw: bytes) -> Places:
    places = [(0, 0)] * len(PROPERTIES)
    at = FLAGS_BYTES
    for position, width in _plan(flags_of(raw)):
        begin = at
        if width == _SHORT_STRING:
            at += raw[at] + 1
        elif width == _TABLE:
            at += _LENGTH.size + _LENGTH.unpack_from(raw, at)[0]
        else:
            at += width
        places[position] = begin, at
    return tuple(places)


def _remember(raw: bytes) -> None:
    """Know the shape of properties that were checked."""
    places = _found_places(raw)
    marks = bytearray(len(raw))
    marks[:FLAGS_BYTES] = b"\xff" * FLAGS_BYTES
    for position, width in _plan(flags_of(raw)):
        begin, end = places[position]
        if width == _SHORT_STRING:
            marks[begin] = 0xFF
        elif width == _TABLE:
            within = begin + _LENGTH.size
            marks[begin:within] = b"\xff" * _LENGTH.size
            mark_table(marks, raw, within, end)
    _shapes.remember(raw, marks, places)


def _encoded(name: str, kind: str, value: Any) -> bytes:
    """The bytes of a property."""
    try:
        if kind == "shortstr":
            return short_string(value)
        if kind == "table":
            return _LENGTH.pack(len(value.raw)) + bytes(value.raw)
        return _TIMESTAMP.pack(value) if kind == "timestamp" else bytes((value,))
    except (struct_error, TypeError, ValueError, AttributeError) as error:
        raise LocalProtocolError(f"the property {name} cannot be {value!r}: it is a {kind}") from error


def _wrong(explanation: str) -> AmqpError:
    return AmqpError(ReplyCode.SYNTAX_ERROR, explanation)
