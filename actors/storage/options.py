"""The times and sizes that a broker's storage works with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from actors.queue.vocabulary.settings import DEFAULT_CACHE_BYTES as DEFAULT_CACHE_BYTES  # noqa: PLC0414 - given here too
from journal import JournalOptions

GATHER_DELAY = 0.015
"""Seconds for which acknowledgements are gathered, so that many become one record;"""
ACKNOWLEDGE_DELAY = 0.02
"""and seconds that this then waits for something to be written with: 50 ms after the broker took them they are durable."""
RECLAIM_INTERVAL = 2.0
"""Seconds after which what was acknowledged gives its room on the disk back, at the latest, when nothing else has a checkpoint made."""
RECLAIM_PAUSE = 10
"""How many times as long as the last checkpoint took to make it is until the next one for room's sake: with ten thousand busy queues
it takes a second, and a tenth of the loop's time is enough for it."""
PENDING_HIGH_BYTES = 64 * 1024 * 1024
PENDING_LOW_BYTES = 16 * 1024 * 1024
"""What may wait to be written before senders are granted nothing, and when they are again: a disk that cannot follow must not fill the
memory instead."""
MAX_PENDING_BYTES = 1024 * 1024 * 1024
"""What may wait to be written before messages are refused: what senders had been granted already comes on top of ``PENDING_HIGH_BYTES``,
and where that is more than this, connections are let go. Their senders come back, and wait for demand until the disk has followed."""
PENDING_RESERVE_BYTES = 256 * 1024 * 1024
"""Room on top of it for all that is no message: what a client asks for one at a time, and acknowledgements, which wait for room themselves.
A disk that is so far behind that this is used up does not answer, and the broker ends."""
MAX_TOGETHER_QUEUES = 10_000
"""Queues whose events are recorded in one instant: as many as a broker has unless it is told otherwise;"""
MAX_TOGETHER_BYTES = 64 * 1024 * 1024
"""and bytes of their record: to read one message of it all of it is read, for one checksum is over it."""
UNAWAITED = -1
"""In the place of an event's number: it has happened, and nothing waits until it is durable."""
RESERVE_BYTES = 32 * 1024 * 1024
"""Room for a start on a full disk: two steps by which a segment grows, and as much again for checkpoints and indexes;"""
RESERVE_SEGMENTS = 4
"""and where segments are smaller than such a step, so many of them."""


def storage_options(**changed: Any) -> JournalOptions:
    """The journal's options as a broker wants them, but for what is ``changed``."""
    pending = MAX_PENDING_BYTES + PENDING_RESERVE_BYTES
    options = JournalOptions(**{"lazy_delay": ACKNOWLEDGE_DELAY, "max_pending_bytes": pending, **changed})
    if "reserve_bytes" in changed:
        return options
    return replace(options, reserve_bytes=min(RESERVE_BYTES, RESERVE_SEGMENTS * options.segment_bytes))
