"""Which group each message of a batch is of: a header of its own says it, or one that it carries for another protocol."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final, TypeAlias

from actors.exchanges.message_tables import table_of
from actors.limits import GROUP_HEADER, MAX_GROUP_BYTES

if TYPE_CHECKING:
    from actors.batch import MessageBatch

Names: TypeAlias = "bytes | list[bytes | None] | None"
"""The groups of a batch's messages: the one that all are of, None where they are of none, or that of each."""

_SAID: Final = GROUP_HEADER.encode()
_DIGEST_BYTES: Final = 32


def names_of(batch: MessageBatch) -> Names:
    """The groups of a batch's messages: one look where all have the same headers, or none says a group, and else one pass."""
    column = batch.headers
    if column is None:
        return None
    data = bytes(column.data)
    if _SAID not in data:
        return None
    same = column.same()
    if same is not None:
        return group_of(same)
    known: dict[bytes, bytes | None] = {}
    names: list[bytes | None] = []
    for packed in column.tolist():
        if packed in known:
            names.append(known[packed])
        else:
            known[packed] = name = group_of(packed)
            names.append(name)
    first = names[0]
    # Their headers may differ, and say one group.
    return first if names.count(first) == len(names) else names


def group_of(packed: bytes) -> bytes | None:
    """The group of a message with these headers; None for none. A text is the same group as its bytes in UTF-8.

    One that is longer than our clients name any is known by a digest: as long as somebody has something of it, it is in memory.
    """
    if _SAID not in packed:
        return None
    said = (table_of(packed) or {}).get(GROUP_HEADER)
    if isinstance(said, str):
        said = said.encode("utf-8", "surrogatepass")
    if not isinstance(said, bytes) or not said:
        return None
    return bytes(said) if len(said) <= MAX_GROUP_BYTES else blake2b(said, digest_size=_DIGEST_BYTES).digest()
