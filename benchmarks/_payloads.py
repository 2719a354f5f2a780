"""What is sent: payload objects, the batches built of them, and the same as ready-made frames for the ceilings."""

from __future__ import annotations

import random
from collections.abc import Iterator

from transport import MessageBatch
from transport.wire.codec import encode
from transport.wire.messages import Send

POOL_MESSAGES = 200_000
"""Different payload objects that a sender goes round in: 20 MB of 100 bytes each, more than the caches of a core hold."""
POOL_BYTES = 64_000_000
"""Of larger payloads there are fewer, a whole number of thousands, so that batches of a thousand stay whole."""
SEED = 9182


def make_payloads(messages: int, size: int) -> list[bytes]:
    """``messages`` random payloads of ``size`` bytes, but no more than ``POOL_MESSAGES`` or about ``POOL_BYTES`` of them."""
    room = POOL_BYTES // size
    count = max(1, min(messages, POOL_MESSAGES, room // 1000 * 1000 or room))
    data = random.Random(SEED).randbytes(count * size)
    return [data[start : start + size] for start in range(0, count * size, size)]


def cycled(payloads: list[bytes], messages: int) -> Iterator[bytes]:
    """``messages`` payloads, going round."""
    whole, rest = divmod(messages, len(payloads))
    for _ in range(whole):
        yield from payloads
    yield from payloads[:rest]


def groups(payloads: list[bytes], messages: int, batch: int) -> Iterator[list[bytes]]:
    """``messages`` payloads, going round, in lists of ``batch``; the last has what is left, and so has one at the pool's end."""
    left = messages
    while left > 0:
        part = min(left, len(payloads))
        for start in range(0, part, batch):
            yield payloads[start : min(start + batch, part)]
        left -= part


def batches(payloads: list[bytes], messages: int, batch: int) -> Iterator[MessageBatch]:
    """The same as batches, each built when it is asked for."""
    build = MessageBatch.from_payloads
    for group in groups(payloads, messages, batch):
        yield build(group)


def frame_of(batch: MessageBatch, sequence: int) -> bytes:
    """The bytes of the SEND frame that carries ``batch``."""
    return b"".join(encode(Send(sequence, None, batch)))
