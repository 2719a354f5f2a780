"""The storage of the node that leads a cluster: the same storage, but "durable" is what the cluster has confirmed.

A broker over it is the broker that it is over any other. What differs is here, so that a broker alone runs none of it:

- ``durable`` goes by ``confirm``, not by the journal's own sync. So whatever waits until an event is durable waits until it is confirmed.
- Senders are held back by what is not committed, not by what is not synced: else followers that lag would be found out by a full disk.
- What comes alone is committed where it is appended, but only once it is shipped (``begin_alone``): its followers sync while it does.
- A leader that leads no more says so to nobody that waits: they are told that it is over (`LeadershipLostError`), and appends are refused.

It is made with the follower's contents (``NodeStorage``), and holds them from then on: nothing is replayed when its node comes to lead.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from actors.errors import DiskBehindError, StorageError
from actors.storage import codec
from actors.storage.after_repair import set_mark
from actors.storage.failures import DamagedReplicaError, LeadershipLostError, storage_error
from actors.storage.gathering import GatheredAcknowledgements
from actors.storage.options import MAX_PENDING_BYTES, PENDING_HIGH_BYTES, PENDING_LOW_BYTES
from actors.storage.replica_checkpoints import ReplicaCheckpoints
from actors.storage.storage import STORE_ID_BYTES, Storage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from actors.storage.contents import Contents
    from actors.storage.measures import JournalMeasures
    from actors.storage.turn_commits import TurnCommits
    from journal import Files, JournalError, ReplicatedJournal


class LeaderStorage(Storage):
    """See the module's docstring. ``NodeStorage`` makes it, and opens and closes the journal; a broker gets it from ``NodeStorage.opened``.

    Attributes:
        checkpoints: the replica's, a follower's as long as ``cluster_epoch`` is 0.
        cluster_epoch: of the lead; 0 before that.
        durable: every event with this number or a lower one is confirmed.
        turn: commits what comes alone; set by the node's storage.
    """

    _journal: ReplicatedJournal
    turn: TurnCommits

    def __init__(
        self,
        journal: ReplicatedJournal,
        directory: Path,
        cache_bytes: int,
        files: Files,
        measures: JournalMeasures,
        folded: Callable[[], int],
    ) -> None:
        super().__init__(journal, directory, cache_bytes, files, None)
        contents = self._contents
        self.cluster_epoch = 0
        self.measures = measures
        self.checkpoints = ReplicaCheckpoints(
            journal, contents.snapshot, contents.live, self.fail, lambda: None if self.cluster_epoch else folded()
        )
        self._checkpoints = self.checkpoints
        self._gathered = GatheredAcknowledgements(journal, self.checkpoints.schedule, self.fail)
        self.checkpoints.gathered = self._gathered

    @property
    def contents(self) -> Contents:
        """What a follower folds into, and a leader goes on with."""
        return self._contents

    @property
    def epoch(self) -> int:
        """The cluster's: each leader has a greater one."""
        return self.cluster_epoch

    def tell_failure(self, failed: Callable[[StorageError], None]) -> None:
        """Have ``failed`` told when this node can go on no more: its directory cannot be read or written, or it leads no more."""
        self._failed = failed

    def start(self, failed: Callable[[StorageError], None]) -> Self:
        """Accept events, on the running loop. It leads already, and everything that its log holds is in the contents.

        ``failed`` is told once, on the loop: of `LeadershipLostError`, or of why nothing can be stored any more.
        """
        told = self._failed

        def both(error: StorageError) -> None:
            failed(error)
            if told is not None and not isinstance(error, LeadershipLostError):
                told(error)

        if self.failure is not None:
            raise self.failure
        self._failed = both
        self._loop = loop = asyncio.get_running_loop()
        contents = self._contents
        self.sections, self.definitions = contents.sections, contents.definitions
        for table in contents.tables.values():
            table.replaying = False
        self._cache.large.start(loop)
        self._gathered.start(loop)
        if not self.store_id:
            contents.store_id = int.from_bytes(os.urandom(STORE_ID_BYTES), "big") or 1
            self._append(codec.STORE_CREATED, codec.encode_number(self.store_id))
        return self

    def close(self) -> None:
        """Have what was acknowledged recorded; then nothing is recorded any more. The journal stays open: it is shipped to the end."""
        if self.failure is None:
            self._gathered.write()
        self._gathered.halted = self.checkpoints.halted = True
        self._journal.stop_leading()

    def step_down(self, reason: str) -> None:
        """It leads no more: nothing becomes durable any more, and whoever waits for that is told so."""
        self._journal.stop_leading()
        # Whatever it has said since it was closed, or has failed on, stays what is said.
        self.fail(LeadershipLostError(f"this node leads its cluster no more: {reason}"))

    # --- what is confirmed

    def confirm(self, lsn: int) -> None:
        """Every record below ``lsn`` is confirmed; who waits for that goes on."""
        if self.failure is None and lsn - 1 > self.durable:
            self.durable = lsn - 1
            waiters, self._waiters = self._waiters, {}
            for waiter in waiters:
                waiter()
            self._wake_synced()

    def committed(self) -> None:
        """More is committed, or on this node's own disk: there may be room for senders, and a checkpoint be due."""
        if self.failure is None:
            self._cache.large.written(self._journal.durable_lsn - 1)
            if self._behind and self.uncommitted_bytes < PENDING_LOW_BYTES:
                self._set_behind(False)
            if self.checkpoints.due():
                self.checkpoints.make()

    @property
    def uncommitted_bytes(self) -> int:
        """Of what was appended bytes that are not committed, or not on this node's disk."""
        journal = self._journal
        return max(journal.uncommitted_bytes, journal.pending_bytes)

    def _check_pending(self) -> None:
        if self._behind and self.uncommitted_bytes > MAX_PENDING_BYTES:
            raise DiskBehindError(self.uncommitted_bytes, MAX_PENDING_BYTES)

    def _note_added(self) -> None:
        if not self._behind and self.uncommitted_bytes > PENDING_HIGH_BYTES:
            self._set_behind(True)

    def begin_alone(self, batches: int) -> bool:
        """As in ``Storage``, but it is not durable when `end_alone` returns."""
        return self.turn.begin_alone(batches)

    def end_alone(self) -> None:
        """As in ``Storage``: it is committed soon, and durable when the cluster has it."""
        self.turn.end_alone()

    # --- inside

    def _lost(self, error: JournalError) -> StorageError:
        # Where it was said already why nothing is recorded, that is what is said.
        return self.failure if self.failure is not None else super()._lost(error)

    def _missing(self, number: int, sequence: int) -> StorageError:
        error = DamagedReplicaError(
            f"message {sequence} of queue {self._contents.queues[number].name} is stored, and the journal has no record of it: it was "
            "lost to damage"
        )
        # The next start would not come upon it: it has to know.
        with suppress(OSError):
            set_mark(self._files, self.directory)
        self.fail(error)
        return error

    def fail_with(self, error: Exception) -> None:
        """The journal has failed, or cannot be read."""
        self.fail(error if isinstance(error, StorageError) else storage_error(error))

    def statistics(self) -> dict[str, Any]:
        """See ``Storage``; with what the cluster has of it."""
        return {
            **super().statistics(),
            "committed_lsn": self._journal.committed_lsn,
            "confirmed_lsn": self.durable + 1,
            "uncommitted_bytes": self.uncommitted_bytes,
        }
