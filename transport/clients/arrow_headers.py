"""Headers as an Arrow column: packed as messages have them, and back.

On the wire a message's headers are a msgpack map. This is the one column that takes Python objects: one for each different map of a
slice, not one for each message, where the maps repeat.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from actors.batch import MAX_HEADERS_PER_MESSAGE, pack_headers, unpack_headers
from actors.errors import BatchError
from transport.clients._pyarrow import pa
from transport.errors import ArrowInputError
from transport.wire.amqp_headers import told_headers

HEADERS_TYPE = pa.map_(pa.string(), pa.binary())
"""What a receiver gives."""
SHAPES = (
    "a map from strings to strings or bytes, a list of structs with the fields key and value, a struct with a field for each header, "
    "or binary: packed as msgpack maps"
)

Entries: TypeAlias = tuple[tuple[Any, Any], ...]


def wrong_with(entries: Entries) -> str:
    """What no message's headers can have, in words behind "has"; empty where all is well."""
    names = [name for name, _ in entries]
    if len(entries) > MAX_HEADERS_PER_MESSAGE:
        return f"{len(entries)} headers; a message has at most {MAX_HEADERS_PER_MESSAGE}, put the rest into the payload"
    for name, value in entries:
        if name is None:
            return "a header without a key"
        if not isinstance(name, str):
            return f"a header whose name is {name!r:.60}; a header is a string with a string or bytes"
        if value is None:
            return f"header {name!r:.60} without a value"
        if not isinstance(value, str | bytes):
            return (
                f"header {name!r:.60} of the type {type(value).__name__}; a header is a string with a string or bytes"
            )
    return "a header twice" if len(set(names)) < len(names) else ""


def packed_headers(column: Any, first: int) -> Any:
    """A column of headers as a binary array without nulls: one msgpack map a message, empty for none.

    Args:
        column: an Arrow array of one of the ``SHAPES``.
        first: the number of its first row, for errors.

    Raises:
        ArrowInputError: another type, or headers that no message can have.
    """
    arrow_type = column.type
    if pa.types.is_struct(arrow_type):
        return _packed(column, first, _fields)
    if pa.types.is_map(arrow_type):
        return _packed(column, first, tuple)
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        item = arrow_type.value_type
        if pa.types.is_struct(item) and {field.name for field in item} == {"key", "value"}:
            return _packed(column, first, _pairs)
    raise ArrowInputError(f"column headers has the type {arrow_type}; it can be {SHAPES}")


def check_packed(column: Any, first: int) -> None:
    """Look at headers that come packed: brokers do not, and whoever receives them is to find a map.

    Raises:
        ArrowInputError: bytes that are no msgpack map of strings.
    """
    encoded = column.dictionary_encode()
    for index, packed in enumerate(encoded.dictionary.to_pylist()):
        try:
            unpack_headers(packed or b"")
        except BatchError as error:
            row = first + encoded.indices.to_pylist().index(index)
            raise ArrowInputError(f"row {row} has {error}") from None


def header_maps(packed: Any) -> Any:
    """Packed headers as maps: null for none, and for bytes that are no such map.

    Args:
        packed: a binary array, as messages have it.
    """
    encoded = packed.dictionary_encode()
    maps = pa.array([_entries(one) for one in encoded.dictionary.to_pylist()], HEADERS_TYPE)
    return maps.take(encoded.indices)


def _packed(column: Any, first: int, entries_of: Any) -> Any:
    known: dict[Entries, bytes] = {}
    values: list[bytes] = []
    try:
        maps = column.to_pylist()
    except ValueError as error:  # a struct in which a name is twice
        raise ArrowInputError(f"column headers of type {column.type} cannot be read: {error}") from error
    for row, value in enumerate(maps, first):
        entries: Entries = entries_of(value or ())
        try:
            packed = known.get(entries)
        except TypeError:  # a value that is a list or a struct is no key
            packed = None
        if packed is None:
            wrong = wrong_with(entries)
            if wrong:
                raise ArrowInputError(f"row {row} has {wrong}")
            packed = known[entries] = pack_headers(dict(entries))
        values.append(packed)
    return pa.array(values, pa.binary())


def _fields(value: Mapping[str, Any] | tuple[()]) -> Entries:
    """A struct's fields; one that is null is no header of this message."""
    return tuple((name, part) for name, part in dict(value).items() if part is not None)


def _pairs(value: Iterable[Mapping[str, Any]]) -> Entries:
    return tuple(_pair(entry) for entry in value)


def _pair(entry: Mapping[str, Any] | None) -> tuple[Any, Any]:
    return (None, None) if entry is None else (entry["key"], entry["value"])


def _entries(packed: bytes | None) -> list[tuple[str, bytes]] | None:
    try:
        headers = unpack_headers(packed or b"")
    except BatchError:
        return None
    return None if headers is None else list(_as_bytes(told_headers(headers)))


def _as_bytes(headers: Mapping[str, str | bytes]) -> Iterator[tuple[str, bytes]]:
    for name, value in headers.items():
        yield name, value.encode() if isinstance(value, str) else value
