"""When a store has its journal make a checkpoint, and what goes into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.errors import StorageError
from actors.storage.options import RECLAIM_INTERVAL
from journal import JournalError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from journal import Journal


class Checkpoints:
    """The checkpoints of one journal, on the loop.

    Args:
        journal: what makes them.
        snapshot: gives the state of everything as of now, encoded.
        live: as `Journal.checkpoint` asks.
        failed: told when one cannot be made: the journal takes nothing more.

    Attributes:
        halted: the store has failed: no more of them.
    """

    def __init__(
        self,
        journal: Journal,
        snapshot: Callable[[], bytes],
        live: Callable[[int, int, int], int],
        failed: Callable[[StorageError], None],
    ) -> None:
        self.halted = False
        self._journal = journal
        self._snapshot = snapshot
        self._live = live
        self._failed = failed
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reclaim: asyncio.TimerHandle | None = None
        self._taken = 0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on there is a clock."""
        self._loop = loop

    def stop(self) -> None:
        """Make none by the clock any more."""
        if self._reclaim is not None:
            self._reclaim.cancel()

    def schedule(self) -> None:
        """Something was acknowledged: give its room on the disk back within ``RECLAIM_INTERVAL``."""
        if self._reclaim is None and self._loop is not None:
            self._reclaim = self._loop.call_later(RECLAIM_INTERVAL, self.reclaim)

    def reclaim(self) -> None:
        """Give room on the disk back, now and as long as there is more of it."""
        self._reclaim = None
        facts = self._journal.statistics()
        if facts.segments > 1:
            self.make()
        if facts.disk_bytes != self._taken:
            # As long as it changes: what one checkpoint has combined the next one gives back.
            self._taken = facts.disk_bytes
            self.schedule()

    def make(self, done: Callable[[], None] | None = None) -> None:
        """Make one, unless one is under way."""
        if self._journal.checkpointing or self.halted:
            return
        try:
            self._journal.checkpoint(self._snapshot(), self._live, done)
        except JournalError as error:
            self._failed(StorageError(str(error)))
