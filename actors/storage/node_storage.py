"""The directory of a node of a cluster: a follower's, then perhaps a leader's, then a follower's again.

This is what the effects of ``Replica`` (actors/replication/replica.py) come to in the node's directory. All of it is for the loop's thread;
what blocks for long is done apart (``apart``). What the node does, and when:

=================== ===================================================================================================================
at the start        ``node = NodeStorage.open(directory, ...)``, which blocks; ``node.start(NodeHooks(...))`` on the loop; ``Replica`` gets
                    ``node.log``. The journal is started by the first that is appended, so that a log that has parted is cut without more.
                    ``node.journal.join(cluster)`` makes it one of a cluster; that blocks for two syncs, as ``join`` says.
``Append``          ``node.append(records)``; the hook ``synced`` is called when they are on the disk.
``Truncate``        ``await node.truncate(lsn)``, then ``replica.truncated``. Nothing else of the directory is asked for meanwhile.
``Promise``         ``await node.promise(epoch)``, then ``replica.promised``.
``EndDoubt``        ``await node.end_doubt(epoch)``, then ``replica.doubt_ended``.
``Commit``          ``node.commit(lsn)``, whoever leads.
``Keep``            ``node.keep(lsn)``.
``Lead``            ``node.lead(epoch)``: the epoch's first record is appended, and the hook ``appended`` is called soon, as ever.
``Open``            ``storage = await node.opened()``: everything that the log holds is folded. A broker gets it in the place of a
                    ``Storage``, and starts and closes it as such: ``storage.start(failed)``, ``QueueDirectory(..., storage)``.
``Confirm``         ``node.confirm(lsn)``, also before ``opened`` has returned.
``Give``            ``node.give(ready)``; a transfer that it returns is released for ``Unpin``.
``StepDown``        ``node.step_down(reason)`` at once: nobody is told of a confirmation any more. Within it the broker is told, as of a
                    disk that fails (``LeadershipLostError``): it ends its connections there, before its queues do so in words of
                    their own. It is closed. Then ``await node.reopen()``, and ``replica.reopened``.
``Install``         ``await node.reopen(install)``: ``install`` puts the transfer in the place of the directory, while that is closed.
handing over        the broker is drained and closed, which closes the storage; then ``replica.hand_over``, until ``StepDown``.
at the end          ``await node.close()``.
=================== ===================================================================================================================

What a leader has in memory only is gone with it, as at any restart of a broker: who holds what, acknowledgements that were not recorded
yet, waits, and transient queues. Its successor begins as a start after a crash does, but has nothing to read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from actors.errors import StorageError
from actors.storage import codec
from actors.storage.after_repair import is_marked
from actors.storage.failures import DamagedReplicaError, place_error, storage_error
from actors.storage.followed import FollowedContents
from actors.storage.leader_storage import LeaderStorage
from actors.storage.measures import JournalMeasures
from actors.storage.node_news import Failing, NodeHooks, NodeNews
from actors.storage.options import DEFAULT_CACHE_BYTES, RESERVE_BYTES, storage_options
from actors.storage.replica_log import JournalLog
from actors.storage.turn_commits import TurnCommits
from journal import Files, JournalError, JournalFullError, JournalOptions, Kept, OsFiles, ReplicatedJournal, kept

if TYPE_CHECKING:
    from journal import Committer, ShippedRecord, TransferSource, Truncated

THREADS: Final = 2
"""For what blocks: a promise may come while another one waits for the disk."""

logger = logging.getLogger("penstock.storage")

Apart: TypeAlias = "Callable[[Callable[[], Any]], Awaitable[Any]]"
"""Calls a function that blocks where the loop does not wait for it, and gives what it returns."""


class NodeStorage:
    """One directory that is a replica. See the module's docstring.

    Attributes:
        directory: where it is.
        files: the file system that has it.
        log: what the machines read; the same one all the time.
        same_log: the same object as long as the log is not cut or replaced, nor opened anew.
        cut_records: how many were cut off its log since the node started, for the cluster's log has others there;
        cut_messages: and how many messages they held.
    """

    def __init__(
        self,
        directory: Path,
        options: JournalOptions,
        files: Files,
        cache_bytes: int,
        committer: Callable[[], Committer] | None,
        apart: Apart | None,
    ) -> None:
        self.directory = directory
        # Not those of the loop: names that nobody answers for may hold all of these up, and a promise cannot wait for that.
        self._threads = None if apart is not None else ThreadPoolExecutor(THREADS, "penstock node")
        self._measures = JournalMeasures()
        self._options = self._measures.told(replace(options, replicated=True))
        self.files = files
        self._cache_bytes = cache_bytes
        self._committer = committer
        self._apart = apart or self._on_thread
        self._closed = self._spare = False
        self._promising = asyncio.Lock()
        self.cut_records = self.cut_messages = 0
        self._news = NodeNews(None, None, self._more_synced)
        self._take(self._open())
        self.log = JournalLog(self._journal)

    @classmethod
    def open(
        cls,
        directory: Path,
        options: JournalOptions | None = None,
        *,
        files: Files | None = None,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        committer: Callable[[], Committer] | None = None,
        apart: Apart | None = None,
    ) -> NodeStorage:
        """Open a directory, or make it, and have what its checkpoint has; blocks for as long as the end of its log takes to read.

        Args:
            directory: one of a broker that was alone becomes a replica, for good.
            options: of the journal.
            files: the file system; the process's own by default.
            cache_bytes: of the leader's cache.
            committer: makes what runs the journal's writer, each time that the journal is started.
            apart: has what blocks done on a thread, one of its own by default; a simulation does it at once.

        Raises:
            NoStorageError: it is a file.
            StorageError: it is damaged, another broker has it, or it cannot be read or written; or it was repaired.
        """
        return cls(directory, options or storage_options(), files or OsFiles(), cache_bytes, committer, apart)

    def _open(self) -> tuple[ReplicatedJournal, LeaderStorage, FollowedContents]:
        """Open the directory as a follower's; it blocks, and touches nothing of this object."""
        what, directory = "opened", self.directory
        try:
            journal = ReplicatedJournal.open(directory, self._options, self.files, logger.warning)
            what = "read"
            try:
                if is_marked(self.files, directory):
                    raise DamagedReplicaError(
                        f"the data directory {directory} was repaired, or lacks messages, and is no whole replica: have it filled anew by "
                        "the others of the cluster; or, where there is no cluster yet, start a broker alone on it first"
                    )
                folded: list[FollowedContents] = []
                storage = LeaderStorage(
                    journal, directory, self._cache_bytes, self.files, self._measures, lambda: folded[0].folded
                )
                folded.append(FollowedContents(journal, storage.contents, directory))
                folded[0].begin()
            except BaseException:
                journal.abandon()
                raise
        except (JournalError, OSError) as error:
            unusable = place_error(error, directory) if what == "opened" else None
            raise unusable or storage_error(error, f"the data directory {directory} cannot be {what}") from error
        return journal, storage, folded[0]

    def _take(self, opened: tuple[ReplicatedJournal, LeaderStorage, FollowedContents]) -> None:
        self._journal, self._storage, self._followed = opened
        self.same_log = object()
        self._news = NodeNews(self._news.loop, self._news.hooks, self._more_synced)
        self._turn = self._storage.turn = TurnCommits(self._journal, self._news)
        self._started = self._leading = self._folding = self._cutting = False
        self._keep_for_others()
        self._storage.tell_failure(self._news.failed)

    # --- what it is

    @property
    def directory_id(self) -> str:
        """Of this very directory; see `ReplicatedJournal.directory_id`."""
        return self._journal.directory_id

    @property
    def journal(self) -> ReplicatedJournal:
        """The journal that is open, to read what is shipped (`ReplicatedJournal.log_piece`); another one behind `reopen` and `truncate`."""
        return self._journal

    @property
    def store_id(self) -> int:
        """The cluster's store: messages' generated ids begin with it. 0 before its first leader has said it, and this node has heard."""
        return self._storage.store_id

    @property
    def folded(self) -> int:
        """Every record below it is in the contents."""
        return self._followed.folded

    def start(self, hooks: NodeHooks) -> None:
        """Be on the running loop from now on."""
        self._news.loop, self._news.hooks = asyncio.get_running_loop(), hooks
        self._fold_soon()

    # --- a follower

    def append(self, records: Iterable[ShippedRecord]) -> None:
        """Append what a leader has sent, or what is adopted; `NodeHooks.synced` is told when more is on the disk.

        Where too much waits for the disk, what is left over is not appended: the leader ships it again. ``log.end`` tells.

        Raises:
            StorageError: it is not what follows, or the disk fails; the node has been told, and ends.
        """
        with Failing(self._storage.fail), suppress(JournalFullError):
            self._start_journal()
            self._turn.begin()
            self._journal.append_shipped(records)

    async def promise(self, epoch: int) -> None:
        """Promise to take nothing older, once everything that was appended is on the disk; durable when this returns.

        Raises:
            StorageError: the disk fails; whether it is promised is not known.
        """
        end = self._journal.next_lsn
        journal, storage = self._journal, self._storage
        while journal.durable_lsn < end:
            if storage.failure is not None:
                raise storage.failure
            await self._news.wait()
        async with self._promising:
            # Two may be under way, and one that is greater promises the other.
            if journal.promised < epoch:
                with Failing(self._storage.fail):
                    await self._apart(lambda: journal.promise(epoch))

    async def end_doubt(self, epoch: int) -> None:
        """The log has all again that it may have been answered for up to an epoch. StorageError where the disk fails."""
        journal = self._journal
        with Failing(self._storage.fail):
            await self._apart(lambda: journal.end_doubt(epoch))

    def commit(self, lsn: int) -> None:
        """Every record below ``lsn`` is committed, and on this disk: it is folded, and a checkpoint may have it."""
        journal = self._journal
        with Failing(self._storage.fail):
            journal.committed(lsn)
        if self._leading:
            self._storage.committed()
        else:
            self._followed.want(min(lsn, journal.next_lsn))
            self._keep_for_others()
            self._fold_soon()

    async def truncate(self, lsn: int) -> Truncated:
        """Cut the log's end off, which was never committed; what is cut is kept aside (`ReplicatedJournal.truncate`).

        A journal that is started is closed first, and the directory opened anew as a follower's.

        Raises:
            StorageError: the disk fails. The directory is let go.
        """
        if self._started:
            await self.reopen()
        journal, committed = self._journal, self._journal.committed_lsn
        self.log.freeze()
        self._cutting = True
        self.same_log = object()
        with Failing(self._storage.fail):
            truncated: Truncated = await self._apart(lambda: journal.truncate(lsn))
            # What is known of that is not in the directory.
            journal.committed(committed)
        self._cutting = False
        self.cut_records += truncated.records
        self.cut_messages += sum(truncated.items.values())
        self._followed.read_anew()
        self.log.open(journal)
        self._fold_soon()
        return truncated

    def keep(self, lsn: int) -> None:
        """Records from ``lsn`` on are needed by somebody who lags: checkpoints leave them there, up to a limit."""
        self._journal.keep_log(lsn)

    def spare_room(self, full: bool) -> None:
        """The disk is full: a follower keeps nothing for others, and gives back what it can; or there is room again."""
        self._spare = full
        if not self._leading:
            self._keep_for_others()
            # A checkpoint takes room before it gives any back, and one that finds none is the end of the node.
            if full and self._started and self.files.free_bytes(self.directory) > RESERVE_BYTES:
                self._storage.checkpoints.make()

    def _keep_for_others(self) -> None:
        """Of a follower: nobody says who lags, and it may lead next. So all of the log is kept that may be, while there is room."""
        self._journal.keep_log(None if self._spare else 0)

    # --- a leader

    def lead(self, epoch: int) -> None:
        """Lead: the first record of the epoch is appended; what the log holds uncommitted is folded in the turns that come.

        StorageError where the disk fails, or a greater epoch was promised.
        """
        with Failing(self._storage.fail):
            self._start_journal()
            journal, storage = self._journal, self._storage
            # From here on the state may come to have what is not committed.
            storage.checkpoints.paused = True
            self._followed.want(journal.next_lsn)
            journal.lead(epoch)
            self._leading = True
            storage.cluster_epoch = epoch
            journal.append(codec.EPOCH_BEGAN, [codec.encode_number(epoch)])
        self._fold_soon()

    async def opened(self) -> LeaderStorage:
        """The storage, once it has everything that the log held when this node came to lead.

        Raises:
            LeadershipLostError: it leads no more.
            StorageError: the directory cannot be read.
        """
        storage, followed = self._storage, self._followed
        while followed.behind and storage.failure is None:
            await self._news.wait()
        if storage.failure is not None:
            raise storage.failure
        return storage

    def confirm(self, lsn: int) -> None:
        """Every record below ``lsn`` may be confirmed to its sender, and delivered."""
        self._storage.confirm(lsn)

    def give(self, ready: Callable[[TransferSource], None]) -> TransferSource:
        """Have a checkpoint made that a replica can be filled with; ``ready`` is told on the loop when it can be read. Release it."""
        return self._storage.checkpoints.begin_transfer(ready)

    def step_down(self, reason: str) -> None:
        """Lead no more: whoever waits for something to be confirmed is told so, and no event is recorded. `reopen` follows."""
        self._storage.step_down(reason)
        self._news.wake()

    # --- the directory as a whole

    def fail(self, error: Exception) -> None:
        """What is stored cannot be read, as somebody else has found: it is the end of the node's directory."""
        self._storage.fail_with(error)

    def kept(self) -> Kept:
        """What lies beside the journal for somebody to look at; it blocks until that is listed. OSError where it cannot be."""
        return kept(self.files, self.directory)

    async def reopen(self, between: Callable[[], None] | None = None) -> None:
        """Close the directory, and open it as a follower's; what was committed is folded anew from the checkpoint.

        ``between`` is called, apart, while it is closed. The broker over it has ended.

        Raises:
            StorageError: the disk fails.
        """
        self.log.freeze()
        self.same_log = object()
        self._stop()
        journal = self._journal

        def anew() -> tuple[ReplicatedJournal, LeaderStorage, FollowedContents]:
            journal.close()
            if between is not None:
                between()
            return self._open()

        with Failing(self._storage.fail):
            opened = await self._apart(anew)
        committed = 0 if between is not None else journal.committed_lsn
        self._take(opened)
        self.log.open(self._journal)
        # As much of it as is on the disk, and that is all: `Commit` says so only then.
        self._journal.committed(committed)
        self._followed.want(self._journal.committed_lsn)
        self._fold_soon()

    async def close(self) -> None:
        """The end, with a checkpoint if it follows: the next start has next to nothing to read. StorageError where the disk fails."""
        if self._closed:
            return
        self._closed = True
        storage, journal = self._storage, self._journal
        if self._started and not self._leading and storage.failure is None:
            storage.checkpoints.finish()
        self._stop()
        try:
            await self._apart(journal.close)
        except (JournalError, OSError) as error:
            raise storage_error(error, "the journal could not be closed in good order") from error
        finally:
            if self._threads is not None:
                self._threads.shutdown(wait=False)

    # --- inside

    async def _on_thread(self, function: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)

    def _stop(self) -> None:
        """Nothing more is recorded, folded or told of this journal."""
        journal, storage = self._journal, self._storage
        self._turn.stop()
        journal.stop_leading()
        storage.checkpoints.halted = storage._gathered.halted = True
        self._news.stop()

    def _start_journal(self) -> None:
        """Have the journal take records, if it does not yet."""
        if not self._started:
            self._started = True
            checkpoints = self._storage.checkpoints
            checkpoints.start(self._news.on)
            committer = None if self._committer is None else self._committer()
            self._news.start_journal(self._journal, committer, self._storage.fail_with)
            checkpoints.resume()

    def _more_synced(self) -> None:
        if self._leading:
            self._storage.committed()

    def _fold_soon(self) -> None:
        loop = self._news.loop
        if not self._folding and loop is not None and (self._followed.behind or self._storage.checkpoints.paused):
            self._folding = True
            loop.call_soon(self._fold, self._followed)

    def _fold(self, followed: FollowedContents) -> None:
        """A step of it; others have their turn between two of them."""
        if followed is not self._followed:
            return
        self._folding = False
        checkpoints = self._storage.checkpoints
        if checkpoints.halted or self._cutting:
            return
        try:
            if followed.step() and not self._leading:
                checkpoints.schedule()
        except Exception as error:
            if not isinstance(error, StorageError):
                logger.error("record %d cannot be folded for a defect", followed.folded, exc_info=error)
                error = StorageError(f"record {followed.folded} in {self.directory} cannot be folded: {error!r}")
            self._storage.fail(error)
            return
        if followed.behind:
            self._fold_soon()
        else:
            if self._started:
                checkpoints.resume()
            self._news.wake()
        if checkpoints.due():
            checkpoints.make()
