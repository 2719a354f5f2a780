"""How long a node waits for another, and how much it holds for it."""

from __future__ import annotations

from typing import Final, NamedTuple

BEAT_SECONDS: Final = 0.5
"""A leader that has nothing to ship says so this often; what may have been lost is said again as often."""
MISSES: Final = 3
MISS_SECONDS: Final = MISSES * BEAT_SECONDS
"""A leader that is silent for so long is missed; one that has not heard half + 1 for so long leads no more."""
SILENT_SECONDS: Final = 10.0
"""In the mode ``all``: a member that has not answered, or not stored what there was, for so long is taken off the list."""
PREPARE_SECONDS: Final = 5.0
"""A swap that needs more to be stored first waits for so long, then it is not tried; it is looked at again a beat later."""
REGISTER_SECONDS: Final = 5.0
"""The shell's deadline for one operation of the register is shorter. Without an answer for so long, it is taken for lost."""
SEAL_SECONDS: Final = 5.0
"""Half + 1 have to seal an epoch in so long, else whoever swapped it gives it up."""
ALL_BUT_ONE_SECONDS: Final = 3.0
"""In the mode ``one`` a take-over waits for all but one for so long, then it takes half + 1."""
ADOPT_SECONDS: Final = 5.0
"""While a log is adopted: without a record more for so long, it is given up."""
OPEN_SECONDS: Final = 30.0
"""A leader whose first record is not committed, and of whose followers none has stored anything or takes a transfer for so long, leads no
more."""
HOLD_OFF_SECONDS: Final = 4.0
"""Who gave a take-over up leaves the next one to others for so long, and so does a node at whose disk senders would wait."""
HINDERED_SECONDS: Final = 60.0
"""A node that could not lead, since others are in doubt, tries again with them after so long: each attempt takes an epoch. Once there was a
leader it waits no more."""
FIRST_CHANCE_SECONDS: Final = 2 * BEAT_SECONDS
"""Who misses a leader leaves the take-over to a greater log that misses it too for so long. Nodes miss it within a beat of one another."""
LOOK_SECONDS: Final = 2.0
"""A node that misses its leader, or does not know the document, reads the register this often."""
MAKE_WAY_SECONDS: Final = 60.0
"""A node that made way for another, since senders waited for its disk, and leads again all the same, does not do so again for so long."""
HAND_OVER_SECONDS: Final = 5.0
"""A leader that is asked to hand over waits for a follower that has everything for so long, where one is connected; then it stops."""
TRANSFER_SECONDS: Final = 60.0
"""A transfer of which nothing has been heard for so long is over; the follower says anew what it has."""

MAX_EPOCH_STARTS: Final = 1_000
"""Starts of epochs that a message names: the last ones. Logs that part before them take a transfer."""


class Limits(NamedTuple):
    """What a leader has under way to one follower, at most.

    Attributes:
        window_records: records that it has not stored yet;
        window_bytes: and their bytes. One record may be larger, when nothing else is under way.
        ship_records: records of one message;
        ship_bytes: and their bytes.
    """

    window_records: int = 4_096
    window_bytes: int = 16 * 1024 * 1024
    ship_records: int = 512
    ship_bytes: int = 1024 * 1024


LIMITS: Final = Limits()
"""Those of the product."""
