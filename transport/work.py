"""What a frame costs whoever handles it, told from the frame alone."""

from __future__ import annotations

from transport.field_checks import is_uint
from transport.frames import RawFrame
from transport.wire import (
    AbortTransaction,
    Ack,
    Command,
    CommitTransaction,
    Extend,
    Fetch,
    Hello,
    Nack,
    Reserve,
    Send,
)

MESSAGES_A_UNIT = 128
"""Messages of a SEND whose offsets are checked in one unit of work."""
BYTES_A_UNIT = 64 * 1024
"""Bytes of a body that are copied in one unit of work."""
LONG_WORK = 16
"""Units of work of a frame for which something is made, or for which all of something is looked at."""

_WITH_RANGES = frozenset(frame.TYPE for frame in (Ack, Nack, Extend))
_WORK = dict.fromkeys(
    (frame.TYPE for frame in (Hello, Reserve, Fetch, Command, CommitTransaction, AbortTransaction)), LONG_WORK
)


def work_of(raw: RawFrame) -> int:
    """How much work a frame makes that was decoded, in units: what one of no size costs, which is some microseconds."""
    header = raw.header
    kind: int = header[0]
    if kind == Send.TYPE:
        return 1 + int(header[3]) // MESSAGES_A_UNIT + len(raw.body) // BYTES_A_UNIT
    if kind in _WITH_RANGES:
        return len(header[1]) // 2
    return _WORK.get(kind, 1) + len(raw.body) // BYTES_A_UNIT


def announced_messages(raw: RawFrame) -> int | None:
    """How many messages a SEND says that it has, before anything of it is looked at; None for anything else."""
    header = raw.header
    if header[0] == Send.TYPE and len(header) > 3 and is_uint(header[3]):
        return int(header[3])
    return None
