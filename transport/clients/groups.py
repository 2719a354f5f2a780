"""The group of what a sender sends: a header of each message, for queues that give what is of one group to one receiver at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from actors.batch import BinaryColumn, Message, MessageBatch, pack_headers, unpack_headers
from actors.limits import GROUP_HEADER
from transport.wire.timing import Timed

if TYPE_CHECKING:
    from transport.clients.sender_batches import Sendable, Untimed


def in_group(element: Sendable, group: str) -> Sendable:
    """The same, in a group unless it says its own; what is no element of a sender stays as it is."""
    if isinstance(element, Timed):
        inner: Untimed = _in_group(element.element, group)
        return replace(element, element=inner)
    found: Sendable = _in_group(element, group)
    return found


def _in_group(element: Any, group: str) -> Any:
    if isinstance(element, bytes | bytearray | memoryview):
        return Message(bytes(element), group=group)
    if isinstance(element, Message):
        says = element.group is not None or GROUP_HEADER in (element.headers or {})
        return element if says else replace(element, group=group)
    if isinstance(element, MessageBatch):
        return MessageBatch(element.payloads, element.ids, element.keys, _headers(element, group))
    return element


def _headers(batch: MessageBatch, group: str) -> BinaryColumn:
    own = pack_headers({GROUP_HEADER: group})
    if batch.headers is None:
        return BinaryColumn.from_values([own] * len(batch))
    known = {b"": own}
    for packed in batch.headers.tolist():
        if packed not in known:
            known[packed] = pack_headers({GROUP_HEADER: group} | (unpack_headers(packed) or {}))
    return BinaryColumn.from_values([known[packed] for packed in batch.headers.tolist()])
