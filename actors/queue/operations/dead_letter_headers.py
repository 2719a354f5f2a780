"""What a dead letter says of itself: headers that every receiver, and Spark, sees beside the sender's own.

When it became one is when the dead-letter queue stored it, which every delivery says.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import msgpack

from actors.batch import BinaryColumn, MessageBatch, unpack_headers
from actors.errors import BatchError

if TYPE_CHECKING:
    from actors.batch import HeaderValue

REASON = "penstock-dead-reason"
"""``max-receives`` or ``expired``."""
QUEUE = "penstock-dead-queue"
"""The queue that it was in."""
SENT = "penstock-dead-sent-us"
"""When that queue had stored it, microseconds since the epoch, in decimal digits."""
DELIVERIES = "penstock-dead-deliveries"
"""How often it had been delivered there, in decimal digits."""
NAMES = (REASON, QUEUE, SENT, DELIVERIES)

_REASON_KEY: bytes = msgpack.packb(REASON)
FIXMAP, FIXMAP_MOST = 0x80, 15
MAP16, MAP16_BYTES = 0xDE, 3


def packed_facts(reason: str, queue: str, sent_us: int, deliveries: int) -> bytes:
    """The headers of a dead letter without the map that is around them."""
    values = (reason, queue, str(sent_us), str(deliveries))
    return b"".join(
        packed
        for name, value in zip(NAMES, values, strict=True)
        for packed in (msgpack.packb(name), msgpack.packb(value))
    )


def with_facts(batch: MessageBatch, facts: bytes) -> MessageBatch:
    """The same messages with one more set of headers on each. Where none has any, it costs no loop over them."""
    count = len(batch)
    if batch.headers is None:
        one = _map(len(NAMES)) + facts
        offsets = array("i", range(0, (count + 1) * len(one), len(one)))
        column = BinaryColumn(memoryview(offsets), memoryview(one * count))
    else:
        column = BinaryColumn.from_values([_added(packed, facts) for packed in batch.headers.tolist()])
    return MessageBatch(batch.payloads, batch.ids, batch.keys, column)


def _added(packed: bytes, facts: bytes) -> bytes:
    """One message's headers with ``facts``, which replace those of an earlier death; what is no map of headers stays as it is."""
    if _REASON_KEY in packed:
        packed = _without_facts(packed)
    if not packed:
        return _map(len(NAMES)) + facts
    if FIXMAP <= packed[0] <= FIXMAP + FIXMAP_MOST:
        return _map(packed[0] - FIXMAP + len(NAMES)) + packed[1:] + facts
    if packed[0] == MAP16 and len(packed) >= MAP16_BYTES:
        return _map(int.from_bytes(packed[1:MAP16_BYTES], "big") + len(NAMES)) + packed[MAP16_BYTES:] + facts
    return packed


def _without_facts(packed: bytes) -> bytes:
    try:
        headers: dict[str, HeaderValue] = unpack_headers(packed) or {}
    except BatchError:
        return packed
    kept = {name: value for name, value in headers.items() if name not in NAMES}
    rest: bytes = msgpack.packb(kept) if kept else b""
    return rest


def _map(count: int) -> bytes:
    return bytes([FIXMAP + count]) if count <= FIXMAP_MOST else bytes([MAP16]) + count.to_bytes(2, "big")
