"""What a message that waits at an exchange says of its wait, in its headers.

`DELAY` is a header that every receiver sees: for how long it is to wait, and with a minus once it has waited. What a gateway carries for
another protocol stays as it came; a header of the message's own goes before it. What else was said as it was published, and holds for the
queues that it goes to, is in `SAID` as long as it waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgpack

from actors.batch import BinaryColumn, MessageBatch
from actors.exchanges.delayed import DELAY, wait_of
from actors.exchanges.errors import InvalidDefinitionError
from actors.exchanges.message_tables import table_of
from actors.headers import readable_headers
from actors.limits import MAX_PRIORITY, MAX_TTL_SECONDS
from actors.queue.structures.deadlines import microseconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.batch import HeaderValue

SAID: Final = "penstock-delayed"
"""A time to live in microseconds and a priority, in decimal digits with a blank between them; -1 for no time to live."""
_DELAY: Final = DELAY.encode()
_SAID: Final = SAID.encode()
_NONE: Final = -1
_PARTS: Final = 2
_MOST_TTL_US: Final = microseconds(MAX_TTL_SECONDS)
_MOST_DIGITS: Final = len(str(_MOST_TTL_US))


class Said(NamedTuple):
    """What holds for the queues that a message goes to.

    Attributes:
        ttl_us: microseconds after which it is of no use there; None for what each queue declares.
        priority: of the message.
    """

    ttl_us: int | None = None
    priority: int = 0


NOTHING: Final = Said()


def waits_for(packed: bytes) -> int:
    """For how many milliseconds a message waits that has these headers; 0 or less for one that does not."""
    if _DELAY not in packed:
        return 0
    try:
        return wait_of((table_of(packed) or {}).get(DELAY))
    except InvalidDefinitionError:
        # It was judged when it was published.
        return 0


def to_wait(batch: MessageBatch, wait: int | None, said: Said) -> MessageBatch:
    """The same messages as they wait: with ``wait`` milliseconds in `DELAY` unless that is None, and with what is ``said``."""
    if wait is None and said == NOTHING:
        return without_said(batch)

    def change(headers: dict[str, HeaderValue]) -> None:
        if wait is not None:
            headers[DELAY] = str(wait)
        # It is ours to say: what its sender wrote there would be taken for this.
        headers.pop(SAID, None)
        if said != NOTHING:
            headers[SAID] = f"{_NONE if said.ttl_us is None else said.ttl_us} {said.priority}"

    return _changed(batch, change)


def having_waited(batch: MessageBatch) -> MessageBatch:
    """The same messages behind their wait: with a minus before it."""
    waits = iter([waits_for(packed) for packed in _headers(batch)])

    def change(headers: dict[str, HeaderValue]) -> None:
        wait = next(waits)
        if wait > 0:
            headers[DELAY] = str(-wait)

    return _changed(batch, change)


def first_said(batch: MessageBatch) -> tuple[int, Said]:
    """How many of the first messages have the same said of them, and what."""
    if batch.headers is None or _SAID not in bytes(batch.headers.data):
        return len(batch), NOTHING
    count, first = 0, NOTHING
    for packed in batch.headers.tolist():
        said = _said(packed)
        if count and said != first:
            break
        count, first = count + 1, said
    return count, first


def without_said(batch: MessageBatch) -> MessageBatch:
    """The same messages as they go on."""
    if batch.headers is None or _SAID not in bytes(batch.headers.data):
        return batch
    return _changed(batch, lambda headers: headers.pop(SAID, None))


def _said(packed: bytes) -> Said:
    if _SAID not in packed:
        return NOTHING
    found = (readable_headers(packed) or {}).get(SAID)
    parts = found.split(" ") if isinstance(found, str) else []
    if len(parts) != _PARTS or not all(_is_number(part) for part in parts):
        # Somebody else wrote it.
        return NOTHING
    ttl_us, priority = map(int, parts)
    if ttl_us > _MOST_TTL_US or priority > MAX_PRIORITY:
        # Likewise: no queue would take it, and what waits behind it would wait for ever.
        return NOTHING
    return Said(None if ttl_us < 0 else ttl_us, max(0, priority))


def _is_number(part: str) -> bool:
    """Whether a text is a number that may be meant: a longer one than any is not even read."""
    return len(part) <= _MOST_DIGITS and part.isascii() and part.removeprefix("-").isdigit()


def _headers(batch: MessageBatch) -> list[bytes]:
    return [b""] * len(batch) if batch.headers is None else batch.headers.tolist()


def _changed(batch: MessageBatch, change: Callable[[dict[str, HeaderValue]], object]) -> MessageBatch:
    """The same messages with other headers; those that nobody can read stay as they are."""
    packed: list[bytes] = []
    for before in _headers(batch):
        headers = readable_headers(before)
        unreadable = headers is None and before
        headers = headers or {}
        change(headers)
        packed.append(before if unreadable else msgpack.packb(headers) if headers else b"")
    column = BinaryColumn.from_values(packed) if any(packed) else None
    return MessageBatch(batch.payloads, batch.ids, batch.keys, column)
