"""What a frame costs whoever handles it, told from the frame alone."""

from __future__ import annotations

from actors.batch import OFFSET_BYTES
from transport.wire.field_checks import is_uint
from transport.wire.frames import RawFrame
from transport.wire.messages import (
    AbortTransaction,
    Ack,
    Auth,
    Command,
    CommitTransaction,
    Enlist,
    Extend,
    Fetch,
    Hello,
    Nack,
    Reserve,
    Send,
    Tally,
    Why,
)
from transport.wire.receiving import SHARED_BUFFER_BYTES

MESSAGES_A_UNIT = 128
"""Messages of a SEND whose offsets are checked in one unit of work."""
BYTES_A_UNIT = 64 * 1024
"""Bytes of a body that are copied, checked or passed on in one unit of work."""
RECEIVED_BYTES_A_UNIT = 32 * 1024
"""Bytes that are received in one unit of work: the system copies them, and often finds new memory for them."""
NAMES_WORK = 4
"""Units of work of a frame that has names: each is checked whole, and kept."""
LONG_WORK = 16
"""Units of work of a frame for which something is made, or for which all of something is looked at."""

_WITH_RANGES = frozenset(frame.TYPE for frame in (Ack, Nack, Extend))
_WORK = {Enlist.TYPE: NAMES_WORK} | dict.fromkeys(
    (frame.TYPE for frame in (Hello, Auth, Reserve, Fetch, Command, CommitTransaction, AbortTransaction, Why, Tally)),
    LONG_WORK,
)


def work_of(raw: RawFrame) -> int:
    """How much work a frame makes, in units: what one of no size costs, which is some microseconds. Nothing of it was checked yet."""
    header, body = raw
    kind, size = header[0], len(body)
    if kind == Send.TYPE:
        messages = header[3] if len(header) > 3 else 0
        if type(messages) is not int or not 0 <= messages <= size // OFFSET_BYTES:
            # Refused when it is decoded, before any of it is looked at: each message has an offset at least.
            messages = 0
        return 1 + size // BYTES_A_UNIT + messages // MESSAGES_A_UNIT
    if type(kind) is not int:
        return 1
    if kind in _WITH_RANGES and len(header) > 1 and type(header[1]) is list:
        return max(1, len(header[1]) // 2)
    return _WORK.get(kind, 1) + size // BYTES_A_UNIT


def paid_for(raw: RawFrame) -> int:
    """Units of `work_of` that a turn need not have again, for they were paid for as the frame came (`RECEIVED_BYTES_A_UNIT`).

    What is above ``SHARED_BUFFER_BYTES`` came in pieces, into memory of its own, and is not copied again.
    """
    return max(0, len(raw.body) - SHARED_BUFFER_BYTES) // BYTES_A_UNIT


def announced_messages(raw: RawFrame) -> int | None:
    """How many messages a SEND says that it has, before anything of it is looked at; None for anything else."""
    header = raw.header
    if header[0] == Send.TYPE and len(header) > 3 and is_uint(header[3]):
        return int(header[3])
    return None
