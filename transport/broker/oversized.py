"""Messages that no frame can carry: they came over AMQP, whose frames are others. They stay, and who cannot have one is told which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from transport.errors import MessageTooLargeError, RemoteProtocolError
from transport.wire.frames import MAX_BODY_BYTES
from transport.wire.messages import brief

if TYPE_CHECKING:
    from actors.batch import MessageBatch
    from transport.wire.messages import Options

OVERSIZED: Final = "oversized"
"""HELLO's option of a subscription: what becomes of a fetch that comes to one."""
FAIL, SKIP = "fail", "skip"
CODE: Final = MessageTooLargeError.code


def is_oversized(batch: MessageBatch) -> bool:
    """Whether a batch is such a message, which is in a batch of its own."""
    return batch.nbytes > MAX_BODY_BYTES


def oversized_text(queue: str, number: int, batch: MessageBatch) -> str:
    """What is said of a message."""
    return (
        f"message {number} of queue {queue!r:.255} has {batch.nbytes} bytes, more than the {MAX_BODY_BYTES} that fit a frame: it stays in "
        "the queue, and is received over AMQP"
    )


def skips_oversized(options: Options) -> bool:
    """Whether a subscription wants them left out; raises RemoteProtocolError for a value that cannot be."""
    said = options.get(OVERSIZED, FAIL)
    if said not in (FAIL, SKIP):
        raise RemoteProtocolError(f"HELLO: {OVERSIZED} is {brief(said)}, not {FAIL} or {SKIP}")
    return bool(said == SKIP)
