"""AMQP's properties in a message's headers, and back.

What a client of AMQP publishes keeps its properties as the bytes that came: one header, `RAW`, has them, and a client
of AMQP gets them back byte for byte. What was sent natively has headers of its own: they become the table of headers,
and those that are named ``amqp.`` and a property become that property. A program sends few kinds of properties, so what
was made of one is remembered.
"""

from __future__ import annotations

from typing import Any, Final

from actors.batch import BinaryColumn, pack_headers, readable_headers
from actors.exchanges.message_tables import carry
from transport.errors import LocalProtocolError
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.method_codec import MAX_SHORT_STRING_BYTES
from transport.gateways.amqp.methods import PROPERTIES
from transport.gateways.amqp.plain_tables import compared
from transport.gateways.amqp.properties import NO_PROPERTIES, Properties, check_properties
from transport.gateways.amqp.tables import Entry, Table

RAW: Final = "amqp"
"""The header that has AMQP's properties, as they are on the wire: flags, then each."""
PREFIX: Final = "amqp."
"""Before the name of a property, in a header of a native client: ``amqp.content_type``."""
MAX_REMEMBERED: Final = 256
"""Properties, and headers, of which it is remembered what was made of them;"""
MAX_REMEMBERED_BYTES: Final = 1_024
"""those of more bytes are not."""

_KINDS: Final = dict(PROPERTIES)
_packed: dict[bytes, bytes] = {NO_PROPERTIES: b""}
_unpacked: dict[bytes, bytes] = {b"": NO_PROPERTIES}


def headers_column(properties: list[bytes]) -> BinaryColumn | None:
    """The headers of messages with these properties; None where none has any."""
    packed = [_packed.get(raw) or _pack(raw) for raw in properties]
    return BinaryColumn.from_values(packed) if any(packed) else None


def properties_of(headers: bytes) -> bytes:
    """The properties of a message with these headers, as they are in its column."""
    raw = _unpacked.get(headers)
    return _unpack(headers) if raw is None else raw


def _compared_headers(raw: bytes) -> dict[str, Any]:
    """AMQP's headers in these properties, as headers exchanges compare them."""
    try:
        table = Properties(raw).headers
    except AmqpError:
        # The header's name is no secret: somebody else wrote it.
        return {}
    return {} if table is None else compared(table)


carry(RAW, _compared_headers)


def _pack(raw: bytes) -> bytes:
    if raw == NO_PROPERTIES:
        return b""
    return _remember(_packed, raw, pack_headers({RAW: raw}))


def _unpack(headers: bytes) -> bytes:
    found = readable_headers(headers) or {}
    properties = Properties()
    raw = found.get(RAW)
    if isinstance(raw, bytes) and _are_properties(raw):
        properties = Properties(raw)
        del found[RAW]
    if found:
        # What came from elsewhere, or a broker has added.
        properties = _with(properties, found)
    return _remember(_unpacked, headers, properties.raw)


def _with(properties: Properties, headers: dict[str, Any]) -> Properties:
    """Properties with these headers too; what cannot be a property stays a header under its whole name.

    A header whose name is longer than a name may be in AMQP is left out: there is no way to say it.
    """
    table = properties.headers
    entries = [] if table is None else [entry for entry in table if entry.name not in headers]
    for name, value in headers.items():
        known = name.removeprefix(PREFIX)
        if name.startswith(PREFIX) and known in _KINDS and known != "headers":
            try:
                properties = properties.replaced(**{known: _value(_KINDS[known], value)})
            except (LocalProtocolError, ValueError):
                pass
            else:
                continue
        if len(name.encode()) <= MAX_SHORT_STRING_BYTES:
            entries.append(Entry(name, "S" if isinstance(value, str) else "x", value))
    return properties.replaced(headers=Table(entries)) if entries else properties


def _are_properties(value: bytes) -> bool:
    """Whether a header has AMQP's properties; anybody may write anything there."""
    try:
        check_properties(value)
    except AmqpError:
        return False
    return True


def _value(kind: str, value: str | bytes) -> str | int:
    text = value if isinstance(value, str) else value.decode()
    return text if kind == "shortstr" else int(text)


def _remember(known: dict[bytes, bytes], key: bytes, value: bytes) -> bytes:
    if len(key) <= MAX_REMEMBERED_BYTES:
        if len(known) >= MAX_REMEMBERED:
            known.clear()
        known[key] = value
    return value
