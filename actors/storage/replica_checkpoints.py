"""The checkpoints of a replica: a follower's are of what it has folded, a leader's wait until all that they contain is committed.

They are made as those of a broker that is alone, and as often. Two things are a leader's own. What was acknowledged is in the queues' state
before it has a record, for it is gathered. A broker alone may store that: nobody else has to come to the same. Here it would be in this
node's state and in no log, so what was gathered is recorded before the state is stored. And a transfer has a checkpoint of its own made.

A leader that has nothing uncommitted but the beginnings of epochs makes one as a follower does, of what is committed. It needs nobody for
that: a cluster begins with one node that holds something, and nothing is committed before another one is filled from it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from actors.storage import codec
from actors.storage.checkpoints import Checkpoints
from actors.storage.options import GATHER_DELAY

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from actors.errors import StorageError
    from actors.storage.gathering import GatheredAcknowledgements
    from journal import ReplicatedJournal, TransferSource


COMMIT_SECONDS: Final = 1.0
"""From one look to the next: a checkpoint that waits for commits, and nothing was committed meanwhile, may wait for the very node that is
to be filled with it."""
MOST_BEGINNINGS: Final = 64
"""Records that are looked at for whether all of them begin an epoch: so many times a node may come to lead, and have nobody follow."""


class ReplicaCheckpoints(Checkpoints):
    """As ``Checkpoints``.

    Args:
        journal: what makes them.
        snapshot, live, failed: as there.
        folded: below which record the state has everything, and above which nothing; None where it has all that there is, as who leads.

    Attributes:
        gathered: what was acknowledged and has no record yet.
        paused: none can be cut now, and one that is under way waits. So it is until the journal is started; and while a leader folds what
            its own log holds uncommitted: then the state has neither what a follower's has, nor all that there is.
    """

    gathered: GatheredAcknowledgements

    def __init__(
        self,
        journal: ReplicatedJournal,
        snapshot: Callable[[], Iterator[bytes]],
        live: Callable[[int, int, int], int],
        failed: Callable[[StorageError], None],
        folded: Callable[[], int | None],
    ) -> None:
        super().__init__(journal, snapshot, live, failed)
        self._replica = journal
        self._folded = folded
        self.paused = True
        self._waits_for_room = False
        self._idle: int | None = None
        self._idle_next = 0

    def resume(self) -> None:
        """Go on, if it was paused."""
        if self.paused:
            self.paused = False
            if self._loop is not None and self._slices is not None:
                self._loop.call_soon(self._advance)
            elif self._replica.transfer_wanted:
                self.make()

    def make(self, done: Callable[[], None] | None = None) -> None:
        """As of ``Checkpoints``; none is begun while they are paused."""
        if not self.paused:
            super().make(done)

    def due(self) -> bool:
        """Whether another is to be made.

        A follower that is far behind makes none for every few records that it folds: it has to spare the next start more than it leaves.
        """
        journal, folded = self._replica, self._folded()
        if self.paused or not journal.checkpoint_due():
            return False
        return folded is None or folded - journal.checkpoint_lsn > journal.next_lsn - folded

    def begin_transfer(self, ready: Callable[[TransferSource], None]) -> TransferSource:
        """Have another made, that a replica is filled with; as `ReplicatedJournal.begin_transfer`, and ``ready`` is called on the loop."""

        def stored(source: TransferSource) -> None:
            if self._loop is not None:
                with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    self._loop.call_soon_threadsafe(ready, source)

        source = self._replica.begin_transfer(stored)
        self.make()
        self._look_soon(source, (0, 0))
        return source

    def _look_soon(self, source: TransferSource, before: tuple[int, int]) -> None:
        if self._loop is not None:
            self._loop.call_later(COMMIT_SECONDS, self._look, source, before)

    def _look(self, source: TransferSource, before: tuple[int, int]) -> None:
        """Whether a transfer is there by now; one that waits for what may wait for it is another checkpoint then."""
        if self.halted or source.released or source.is_there:
            return
        now = self._replica.held_lsn, self._replica.committed_lsn
        if now[0] and now == before:
            self._replica.give_stored()
        self._look_soon(source, now)

    def _make_wanted(self) -> None:
        if self._replica.transfer_wanted:
            self.make()
        super()._make_wanted()

    def _stored(self, done: Callable[[], None] | None, ready: Callable[[], None] | None) -> None:
        super()._stored(done, ready)
        if self._replica.transfer_wanted and self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._make_wanted)

    def _prepare(self) -> Iterator[None]:
        # One that has begun takes all transfers along that are asked for until it is prepared; who asks later has the next one made.
        self._idle = self._idle_at()
        self._idle_next = self._replica.next_lsn
        yield from self._replica.prepare_checkpoint(self._live, self._folded() if self._idle is None else self._idle)

    def _cut(self) -> None:
        idle = self._idle if self._idle_next == self._replica.next_lsn else None
        self._replica.cut_checkpoint(self._folded() if idle is None else idle)

    def _idle_at(self) -> int | None:
        """Before which record a leader's state has everything, where all behind it begins an epoch, which changes no state; or None."""
        journal = self._replica
        committed = journal.committed_lsn
        if (
            self._folded() is not None
            or journal.next_lsn - committed > MOST_BEGINNINGS
            or committed < journal.log_start
        ):
            return None
        return committed if all(record.kind == codec.EPOCH_BEGAN for record in journal.read_log(committed)) else None

    def _before_storing(self) -> Iterator[None]:
        self.gathered.write()
        while self.gathered:
            # The journal is full, and is tried again as often as by what has gathered.
            self._waits_for_room = True
            yield
            self.gathered.write()
        self._waits_for_room = False

    def _go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        if self.paused:
            return  # `resume` goes on
        if self._waits_for_room:
            loop.call_later(GATHER_DELAY, self._advance)
        else:
            super()._go_on(loop)
