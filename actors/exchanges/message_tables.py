"""The headers of a message as exchanges compare them: its own, and those that a header of it carries for another protocol.

A gateway may keep the headers of its protocol as the bytes that came, all in one header of the message. It says here, when it is loaded,
how they are read: so a message is matched by each of them, with its type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from actors.exchanges.copies import SEEN
from actors.exchanges.tables import Table
from actors.headers import readable_headers

Reader: TypeAlias = Callable[[bytes], Mapping[str, Any]]

_SEEN: Final = SEEN.encode()
_readers: dict[str, Reader] = {}


def carry(header: str, reader: Reader) -> None:
    """Have what a header of this name carries read by ``reader``, which gives nothing for bytes that it cannot read."""
    _readers[header] = reader


def may_have_further(packed: bytes) -> bool:
    """Whether headers, of one message or of many behind one another, may name more routing keys."""
    return _SEEN in packed


def further_keys(packed: bytes) -> tuple[str, ...]:
    """The routing keys that a message names beside its own: those of the array `SEEN` among the headers that it carries.

    A header of its own is no array, and names none.
    """
    if _SEEN not in packed:
        return ()
    keys = (table_of(packed) or {}).get(SEEN)
    return tuple([one for one in keys if isinstance(one, str)]) if isinstance(keys, list | tuple) else ()


def table_of(packed: bytes) -> Table | None:
    """The headers of a message, by their bytes in a batch; None where it has none, or nobody can read them."""
    found = readable_headers(packed)
    if not found:
        return found
    for name, reader in _readers.items():
        carried = found.get(name)
        if isinstance(carried, bytes):
            return {**reader(carried), **{each: value for each, value in found.items() if each != name}}
    return found
