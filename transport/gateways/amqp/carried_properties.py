"""AMQP's properties in a message's headers, and back.

What a client of AMQP publishes keeps its properties as the bytes that came: one header, `RAW`, has them, and a client
of AMQP gets them back byte for byte. What was sent natively has headers of its own: they become the table of headers,
and those that are named ``amqp.`` and a property become that property. A program sends few kinds of properties, so what
was made of one is remembered.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from actors.batch import (
    MAX_HEADERS_PER_MESSAGE,
    MORE_HEADERS,
    BinaryColumn,
    HeaderValue,
    pack_headers,
)
from actors.exchanges.delayed import DELAY
from actors.exchanges.message_tables import carry
from actors.headers import readable_headers
from actors.limits import DEDUPLICATION_HEADER
from actors.queue.vocabulary.deaths import deaths_of
from transport.errors import LocalProtocolError
from transport.gateways.amqp.deaths import is_dead, others_of, with_deaths
from transport.gateways.amqp.deduplication_ids import NAME as ID
from transport.gateways.amqp.deduplication_ids import id_of
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.method_codec import MAX_SHORT_STRING_BYTES
from transport.gateways.amqp.methods import PROPERTIES
from transport.gateways.amqp.plain_tables import compared
from transport.gateways.amqp.properties import NO_PROPERTIES, Properties, check_properties
from transport.gateways.amqp.tables import MAX_TABLE_BYTES, Entry, Table
from transport.wire.amqp_headers import PREFIX, RAW

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.queue.vocabulary.replies import ReceivedMessages

MAX_REMEMBERED: Final = 256
"""Properties, and headers, of which it is remembered what was made of them;"""
MAX_REMEMBERED_BYTES: Final = 1_024
"""those of more bytes are not."""

DELIVERY_COUNT: Final = "x-delivery-count"
"""The header by which a queue with a limit says how often a message has failed."""
SMALL_BYTES: Final = MAX_TABLE_BYTES // 4 // (MAX_HEADERS_PER_MESSAGE + MORE_HEADERS)
"""Of a header that is small: as many as a message may have fit a table, whatever characters they have."""

_MAX_INT: Final = 2**31 - 1
_MOST_DIGITS: Final = 18

_PRIORITY_FLAG: Final = 0x08
"""In the first byte of properties: they say a priority."""
_KINDS: Final = dict(PROPERTIES)
_packed: dict[bytes, bytes] = {NO_PROPERTIES: b""}
_unpacked: dict[bytes, bytes] = {b"": NO_PROPERTIES}


def headers_column(properties: list[bytes]) -> BinaryColumn | None:
    """The headers of messages with these properties; None where none has any."""
    first = properties[0]
    if properties.count(first) == len(properties):
        # As mostly is: one object, and no step of Python for each.
        packed = [_packed.get(first) or _pack(first)] * len(properties)
    else:
        packed = [_packed.get(raw) or _pack(raw) for raw in properties]
    return BinaryColumn.from_values(packed) if any(packed) else None


def properties_of(headers: bytes) -> bytes | None:
    """The properties of a message with these headers, as they are in its column; None for a dead letter."""
    raw = _unpacked.get(headers)
    return _unpack(headers) if raw is None else raw


def delivered_properties(messages: ReceivedMessages, shown: Callable[[str], str] = str) -> list[bytes]:
    """The properties of messages that are delivered, each as it is on the wire.

    Args:
        messages: these.
        shown: what a queue or an exchange of the broker's is called in their consumer's virtual host.
    """
    if messages.failures or messages.priority:
        # Of few messages: the others go on without a step for each.
        return _with_facts(delivered_properties(messages._replace(failures=0, priority=0), shown), messages)
    batch = messages.batch
    if batch.headers is None:
        return list(repeat(NO_PROPERTIES, batch.count))
    same = batch.headers.same()
    of_all = None if same is None else properties_of(same)
    if of_all is not None:
        return [of_all] * batch.count
    headers = batch.headers.tolist()
    found = [properties_of(each) for each in headers]
    # Properties are never empty.
    if all(found):
        return found  # type: ignore[return-value]  # none of them is None
    published = messages.published
    common = b"" if published is None else published.routing_key.encode()
    keys = [b""] * len(headers) if batch.keys is None else batch.keys.tolist()
    return [
        raw or _dead_properties(each, key or common, messages.enqueued_us, shown)
        for raw, each, key in zip(found, headers, keys, strict=True)
    ]


def _with_facts(properties: list[bytes], messages: ReceivedMessages) -> list[bytes]:
    """Properties with what the queue says of these messages: their level, and how often they have failed."""
    level, failures = messages.priority, messages.failures
    if level:
        # What a client of AMQP has published says it itself, as it was published.
        first = properties[0]
        if properties.count(first) == len(properties):
            properties = [_with_priority(first, level)] * len(properties)
        else:
            properties = [_with_priority(raw, level) for raw in properties]
    return [_with_failures(raw, failures) for raw in properties] if failures else properties


def _with_failures(raw: bytes, failures: int) -> bytes:
    """The properties of a message that has failed so often; where its own headers leave no room for that, nothing is said of it."""
    properties = Properties(raw)
    entries = [entry for entry in properties.headers or () if entry.name != DELIVERY_COUNT]
    try:
        return properties.replaced(headers=Table([*entries, Entry(DELIVERY_COUNT, "l", failures)])).raw
    except LocalProtocolError:
        return raw


def _with_priority(raw: bytes, level: int) -> bytes:
    """The properties of a message of this level; where they say a priority already, or have no room for it, as they are."""
    if raw[0] & _PRIORITY_FLAG:
        return raw
    try:
        return Properties(raw).replaced(priority=level).raw
    except LocalProtocolError:
        return raw


def _dead_properties(headers: bytes, key: bytes, stored_us: int, shown: Callable[[str], str]) -> bytes:
    """Those of a dead letter, to which ``x-death`` belongs.

    Args:
        headers: its own.
        key: its routing key.
        stored_us: when its queue has stored it, microseconds since the epoch.
        shown: as of `delivered_properties`.
    """
    found = readable_headers(headers) or {}
    history = deaths_of(found, key)
    properties = _carried(found)
    # Where somebody else wrote that it is one, nothing is known of it.
    others = found if history is None else others_of(found)
    if others:
        properties = _with(properties, others)
    return properties.raw if history is None else with_deaths(properties, history, stored_us, shown).raw


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
    headers: dict[str, HeaderValue] = {RAW: raw}
    if ID in raw and (said := id_of(raw)) is not None:
        # A queue reads it there, whoever has sent it.
        headers[DEDUPLICATION_HEADER] = said
    packed = pack_headers(headers)
    # What comes is mostly delivered soon, and was checked: it need not be again.
    _remember(_unpacked, packed, raw)
    return _remember(_packed, raw, packed)


def _unpack(headers: bytes) -> bytes | None:
    found = readable_headers(headers) or {}
    if is_dead(found):
        return None
    properties = _carried(found)
    if found:
        # What came from elsewhere, or a broker has added.
        properties = _with(properties, found)
    return _remember(_unpacked, headers, properties.raw)


def _carried(found: dict[str, HeaderValue]) -> Properties:
    """The properties that headers carry, which are taken out of these."""
    raw = found.get(RAW)
    if not isinstance(raw, bytes) or not _are_properties(raw):
        return Properties()
    del found[RAW]
    if ID in raw:
        found.pop(DEDUPLICATION_HEADER, None)
    return Properties(raw)


def _with(properties: Properties, headers: dict[str, Any]) -> Properties:
    """Properties with these headers too; what cannot be a property stays a header under its whole name.

    A header whose name is longer than a name may be in AMQP is left out: there is no way to say it. So are those that are large where all
    of them fit no table.
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
        if name == DELAY and (waited := _integer(value)) is not None:
            entries.append(Entry(name, "I" if abs(waited) <= _MAX_INT else "l", waited))
        elif len(name.encode()) <= MAX_SHORT_STRING_BYTES:
            entries.append(Entry(name, "S" if isinstance(value, str) else "x", value))
    if not entries:
        return properties
    try:
        return properties.replaced(headers=Table(entries))
    except LocalProtocolError:
        small = [each for each in entries if each.name not in headers or len(headers[each.name]) <= SMALL_BYTES]
    try:
        return properties.replaced(headers=Table(small))
    except LocalProtocolError:
        return properties


def _integer(value: object) -> int | None:
    """What a broker says of a message's wait, which AMQP has as an integer; None where it is something else."""
    digits = value.removeprefix("-") if isinstance(value, str) else ""
    known = digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS
    return int(f"{value}") if known else None


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
