"""Whether a follower has room for more of the log: on its disk, and in what waits for that disk.

As a broker that is alone has senders wait at its disk floor, before its disk is full, a follower takes no more records of its leader. It
stays, answers for nothing that it has not stored, and goes on when there is room. It waits until half of the floor is gone: the leader's
senders wait at all of it, and what receivers acknowledge, which is what frees the disks, still gets through.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from actors.storage.options import PENDING_LOW_BYTES
from transport.broker.watermarks import WATERMARK_INTERVAL, DiskFloor, free_bytes

FOLLOWERS_SHARE: Final = 2
"""A follower's floor is the one of the settings divided by this."""

logger = logging.getLogger("penstock.cluster")


class Room:
    """Of one node, on the running loop. It is looked at once in ``WATERMARK_INTERVAL``; `behind` says so at once.

    Args:
        directory: of the journal.
        floor: the setting ``disk_floor``.
        pending: bytes that wait to be written.
        changed: told whether there is none, or there is again.
        free: bytes that are free at a directory; OSError where that cannot be told.

    Attributes:
        full: why there is none; None where there is.
        short: whether so little is free that senders would wait, where this node led.
    """

    def __init__(
        self,
        directory: Path,
        floor: int,
        pending: Callable[[], int],
        changed: Callable[[bool], None],
        free: Callable[[Path], int] = free_bytes,
    ) -> None:
        self.full: str | None = None
        self._directory = directory
        self._disk = DiskFloor(floor // FOLLOWERS_SHARE)
        self._senders = DiskFloor(floor)
        self._pending = pending
        self._changed = changed
        self._free = free
        self._behind = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look now, and from now on."""
        self._timer = asyncio.get_running_loop().call_later(WATERMARK_INTERVAL, self.start)
        self.look()

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def short(self) -> bool:
        """As above."""
        return self._senders.reached

    def behind(self) -> None:
        """The journal takes no more: too much waits for the disk."""
        self._behind = True
        self.look()

    def look(self) -> None:
        """Look once, and tell what has changed."""
        free: int | OSError
        try:
            free = self._free(self._directory)
        except OSError as error:
            free = error
        self._disk.look(free)
        self._senders.look(free)
        self._behind = self._behind and self._pending() > PENDING_LOW_BYTES
        full = None
        if self._disk.reached:
            full = f"at {self._directory} {self._disk}, of a follower"
        elif self._behind:
            full = f"the disk of {self._directory} does not follow: {self._pending() >> 20} MiB wait to be written"
        before, self.full = self.full, full
        if (before is None) == (full is None):
            return
        if full is None:
            logger.warning("there is room again: this node takes records when it follows")
        else:
            logger.warning("%s: this node takes no records when it follows, until there is room", full)
        self._changed(full is not None)
