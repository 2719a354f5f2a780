"""Limits that both ends of a connection judge by: what a client may ask for is what a queue takes."""

from __future__ import annotations

from math import inf
from typing import Final

MAX_NAME_BYTES = 255
"""The longest name of a queue, a client or a subscription, in UTF-8."""
MAX_VISIBILITY_SECONDS = 12 * 3600.0
"""The furthest that a visibility deadline may lie ahead, and the delay of what is returned or of all that is sent to a queue: these are in
its memory."""
MAX_DELAY_SECONDS = 366 * 24 * 3600.0
"""The furthest that what is sent may be due ahead, a leap year: it waits in the queue's calendar, on the disk."""
NO_DEADLINE: Final = inf
"""In place of a visibility timeout: what is delivered comes back when its receiver returns it or leaves, and at no time."""
MAX_TTL_SECONDS = 10 * 366 * 24 * 3600.0
"""The longest time to live, ten years: programs that keep a calendar in a queue declare times of years."""
MAX_QUEUE_EXPIRY_SECONDS = MAX_TTL_SECONDS
"""The longest for which a queue that is to expire stays unused: as long as a message in it."""
MAX_SUBSCRIPTION_EXPIRY_SECONDS = 366 * 24 * 3600.0
"""The longest for which a subscription stays that nobody uses, a leap year."""

MAX_DEDUPLICATION_WINDOW_SECONDS = 7 * 24 * 3600.0
"""The longest for which a queue remembers the ids of messages, a week."""
MAX_DEDUPLICATION_ID_BYTES = 1_024
"""The longest such id, in UTF-8; what is remembered of each takes the same, however long it is."""
DEDUPLICATION_HEADER: Final = "x-deduplication-header"
"""The header of a message that has such an id."""

MAX_PRIORITY = 255
"""The highest priority of a message, as protocols have it in a byte."""


GROUP_HEADER: Final = "group-id"
"""The header by which a message says its group: of a queue with groups one receiver at a time has what is of one."""
MAX_GROUP_BYTES: Final = 255
"""The longest group that a client of ours names, in UTF-8."""


def time_text(seconds: float) -> str:
    """A time in the largest unit that it is a whole number of, as it can be typed: ``12h``, ``366d``, ``90s``, ``0.5s``."""
    for unit, factor in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds and seconds % factor == 0:
            return f"{seconds / factor:g}{unit}"
    return f"{seconds:.12g}s"
