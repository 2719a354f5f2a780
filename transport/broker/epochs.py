"""The epoch of a broker in memory, which cannot count its starts."""

from __future__ import annotations

EPOCH_START = 1_577_836_800
"""2020-01-01 in Unix time, where epochs are counted from."""
EPOCHS_A_SECOND = 8
"""A broker in memory cannot count its starts; none restarts faster. 32 bits hold them until 2037, and begin anew then."""
EPOCHS = 1 << 32
"""What the ids of messages have room for."""


def epoch_at(now: float) -> int:
    """The epoch of a broker in memory that starts at ``now``, seconds since 1970; whatever the clock says, it fits the messages' ids.

    It grows from one start to the next but where it begins anew: in 2037, and at the beginning of 2020 for a clock that was set before.
    """
    return int((now - EPOCH_START) * EPOCHS_A_SECOND) % EPOCHS
