"""The checkpoints of a store: when they are made, and that no turn of the loop is long for it. What one holds is in `snapshot`.

A checkpoint is made in slices, with everybody else's work between them. First is found what nobody wants any more. Then comes the
cut: whatever is recorded from there on will be replayed. Then each queue's state is encoded as it is when its turn comes, which is
behind the cut; so a start applies events to a queue that it has already. That changes nothing (``QueueLog``), and it is all
replayed, since a checkpoint is written when everything that it contains is durable.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from actors.errors import StorageError
from actors.storage.failures import storage_error
from actors.storage.options import RECLAIM_INTERVAL, RECLAIM_PAUSE
from journal import JournalError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from journal import Journal, Pin

logger = logging.getLogger("penstock.storage")

SLICE_STEPS = 4
"""Steps of the journal's preparation in one slice, each of a millisecond or less."""
SLICE_WORK = 400
"""Pieces of the state that are encoded in one slice, each KiB of a piece counted as another: some milliseconds."""


class Checkpoints:
    """The checkpoints of one journal, on the loop.

    Args:
        journal: what makes them.
        snapshot: gives the state of everything, encoded piece by piece, each as of when it is asked for (``snapshot.encoded``).
        live: as `Journal.checkpoint` asks.
        failed: told when one cannot be made, for whatever reason: the broker has to end.

    Attributes:
        halted: the store has failed: no more of them.
        made: how many were handed to the journal since the start.
    """

    def __init__(
        self,
        journal: Journal,
        snapshot: Callable[[], Iterator[bytes]],
        live: Callable[[int, int, int], int],
        failed: Callable[[StorageError], None],
    ) -> None:
        self.halted = False
        self.made = 0
        self._journal = journal
        self._snapshot = snapshot
        self._live = live
        self._failed = failed
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reclaim: asyncio.TimerHandle | None = None
        self._taken = 0
        self._slices: Iterator[None] | None = None
        self._seconds = 0.0
        self._wanted: Callable[[Pin], None] | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on there is a clock, and turns to make slices in."""
        self._loop = loop

    def finish(self) -> None:
        """Make no more by the clock; and the last one, or the one that is under way, whole and now."""
        if self._reclaim is not None:
            self._reclaim.cancel()
        if self._loop is not None:
            # So that the next start has next to nothing to read.
            self.make()
            self._advance(whole=True)
            self._loop = None

    def schedule(self) -> None:
        """Something was acknowledged: give its room on the disk back within ``RECLAIM_INTERVAL``, or later if that is much work."""
        if self._reclaim is None and self._loop is not None:
            delay = max(RECLAIM_INTERVAL, RECLAIM_PAUSE * self._seconds)
            self._reclaim = self._loop.call_later(delay, self.reclaim)

    def reclaim(self) -> None:
        """Give room on the disk back, now and as long as there is more of it."""
        self._reclaim = None
        facts = self._journal.statistics()
        behind = self._journal.checkpointing
        if facts.segments > 1 or self._journal.pins.held_bytes:
            self.make()
        if facts.disk_bytes != self._taken or behind:
            # As long as it changes: what one checkpoint has combined the next one gives back.
            self._taken = facts.disk_bytes
            self.schedule()

    def make(self, done: Callable[[], None] | None = None) -> None:
        """Begin one, unless one is under way; ``done`` is called, on a thread of the journal, when it is durable."""
        if self._journal.checkpointing or self.halted:
            return
        self._slices = self._make(done)
        self._advance()

    def pin(self, ready: Callable[[Pin], None]) -> None:
        """Pin the next checkpoint that is stored, which contains everything recorded until now.

        ``ready`` is called, on a thread of the journal, when it is durable.
        """
        self._wanted = ready
        # One whose state is still being encoded will do; one that is being written has this one follow.
        self.make()

    @property
    def pinned(self) -> bool:
        """Whether something is pinned, or is to be."""
        return self._wanted is not None or self._journal.pins.pinned

    def release(self) -> None:
        """Nothing is pinned, or to be pinned, any more; what was held for it gives its room back."""
        self._wanted = None
        self._journal.pins.release()
        if not self.halted:
            self.make()
            self.schedule()

    def _stored(self, done: Callable[[], None] | None, ready: Callable[[], None] | None) -> None:
        """On a thread of the journal: a checkpoint is durable."""
        if done is not None:
            done()
        if ready is not None:
            ready()
        if self._wanted is not None and self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._make_wanted)

    def _make_wanted(self) -> None:
        if self._wanted is not None:
            self.make()

    def _advance(self, *, whole: bool = False) -> None:
        """Make a slice, and have the loop go on with the next in its next turn; or make all that are left."""
        while self._slices is not None and not self.halted:
            try:
                next(self._slices)
            except StopIteration:
                self._slices = None
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, no other checkpoint can be made
                self._slices = None
                self._give_up(error)
                return
            if not whole and self._loop is not None:
                self._go_on(self._loop)
                return

    def _go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have the next slice made."""
        loop.call_soon(self._advance)

    def _give_up(self, error: Exception) -> None:
        """A checkpoint is left half done, so there will be no other: the broker ends, and the next start reads the log from the last one.

        Going on would let the log grow until the disk is full, with nobody told. What was confirmed is in the log all the same.
        """
        if isinstance(error, JournalError):
            self._failed(storage_error(error))
            return
        if not isinstance(error, OSError):
            logger.error("a checkpoint failed on a defect", exc_info=error)
        self._failed(
            StorageError(
                f"no checkpoint can be made: {type(error).__name__}: {error}. What was confirmed is in the log; "
                "without checkpoints that would grow until the disk is full. See to the disk and start the broker again"
            )
        )

    def _make(self, done: Callable[[], None] | None) -> Iterator[None]:
        """The slices of one checkpoint."""
        loop = self._loop
        begun = 0.0 if loop is None else loop.time()
        for step, _ in enumerate(self._prepare(), 1):
            if step % SLICE_STEPS == 0:
                yield
        # With ten thousand queues the cut takes ten milliseconds: it has a slice of its own.
        yield
        self._cut()
        snapshot = self._snapshot()
        # Its first piece says which queues there are: those of the cut, for what is declared and deleted from there on is replayed.
        pieces = [next(snapshot)]
        yield
        work = 0
        for piece in snapshot:
            pieces.append(piece)
            work += 1 + (len(piece) >> 10)
            if work >= SLICE_WORK:
                work = 0
                yield
        yield from self._before_storing()
        wanted, self._wanted = self._wanted, None
        ready = None if wanted is None else partial(wanted, self._journal.pins.take())
        self._journal.store_checkpoint(b"".join(pieces), partial(self._stored, done, ready))
        self.made += 1
        self._seconds = 0.0 if loop is None else loop.time() - begun

    def _prepare(self) -> Iterator[None]:
        return self._journal.prepare_checkpoint(self._live)

    def _cut(self) -> None:
        self._journal.cut_checkpoint()

    def _before_storing(self) -> Iterator[None]:
        """What has to be done before the state is stored, once all of it is encoded, in slices."""
        return iter(())
