"""What messages say of how they died is taken off again, where somebody moves them and they are to begin anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgpack

from actors.batch import BinaryColumn, MessageBatch
from actors.headers import readable_headers
from actors.queue.vocabulary.deaths import DEATH_HEADERS, KEY, QUEUE, REASON

if TYPE_CHECKING:
    pass

_REASON_KEY: bytes = msgpack.packb(REASON)


def without_history(batch: MessageBatch, died_in: str | None) -> MessageBatch:
    """The same messages with nothing said of their deaths, and with the keys that they had before these.

    Where none of them has died it costs no loop over them.

    Args:
        batch: the messages.
        died_in: only of those whose last death was in this queue; None for all.
    """
    if batch.headers is None or _REASON_KEY not in bytes(batch.headers.data):
        return batch
    count = len(batch)
    keys = [b""] * count if batch.keys is None else batch.keys.tolist()
    headers = batch.headers.tolist()
    for place, packed in enumerate(headers):
        stripped = _stripped(packed, died_in)
        if stripped is not None:
            headers[place], before = stripped
            keys[place] = keys[place] if before is None else before
    return MessageBatch(
        batch.payloads,
        batch.ids,
        BinaryColumn.from_values(keys) if any(keys) else None,
        BinaryColumn.from_values(headers) if any(headers) else None,
    )


def _stripped(packed: bytes, died_in: str | None) -> tuple[bytes, bytes | None] | None:
    """One message's headers without its deaths, and the key that it had before; None where they stay as they are."""
    if _REASON_KEY not in packed:
        return None
    headers = readable_headers(packed)
    if headers is None or REASON not in headers or (died_in is not None and headers.get(QUEUE) != died_in):
        return None
    before = headers.get(KEY)
    kept = {name: value for name, value in headers.items() if name not in DEATH_HEADERS}
    rest: bytes = msgpack.packb(kept) if kept else b""
    return rest, before if isinstance(before, bytes) else None
