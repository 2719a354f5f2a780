"""A journal that is one replica of a cluster's log: its records have their leader's epoch, and are the same on every replica.

Who leads appends as ever. Who follows appends what it was sent, with lsn and epoch. A checkpoint is stored, and gives disk back, once all
that it contains is committed: so what was not committed can be cut off again. The log is kept for replicas that lag, and is read by lsn.
It ends without CLOSED at a clean shutdown, or logs would part there.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

from journal.checkpoint import newest_checkpoint
from journal.checkpoint_format import LogFacts
from journal.diverged import bound_diverged
from journal.errors import FormatError, JournalError, JournalFailedError, JournalUsageError
from journal.files import Files
from journal.format import CLOSED, ITEMS, LOG, MAX_EPOCH, RECORD_HEADER_BYTES, SEVERAL, SEVERAL_VERSION
from journal.installing import finish_install
from journal.items import ITEMS_PREFIX, ITEMS_PREFIX_BYTES, unpack_several
from journal.journal import MAX_KIND, Journal, Parts, Report
from journal.log_reader import LogTail, Places, log_run
from journal.options import ALWAYS, JournalOptions
from journal.reclaim import Live
from journal.recovery import Recovered, recover
from journal.replica_file import ReplicaFile
from journal.segment import Segment
from journal.setting_aside import finish_set_aside
from journal.shipped import ShippedRecord, split_items
from journal.transfer_giving import TransferGiving
from journal.truncation import Truncated, cut_off, keep_copies
from journal.writer import Task, Writer

logger = logging.getLogger("penstock.journal")


class ReplicatedJournal(TransferGiving, Journal):
    """An open directory that is a replica. Made by `open`; then `truncate` if need be, `start`, and `lead` or `append_shipped`.

    ``epoch`` counts the starts, as that of any journal; the records have their leader's. What a follower applies it takes from `read_log`,
    as far as it is committed: `replay` gives also what is not.

    Attributes:
        committed_lsn: every record below it is committed, as far as is known here.
        on_appended: told of each record that who leads appends, and whether it is lazy; within the call that appends it.
    """

    on_appended: Callable[[bool], None] | None = None
    _replica: ReplicaFile

    @classmethod
    def open(
        cls,
        directory: Path,
        options: JournalOptions | None = None,
        files: Files | None = None,
        report: Report = logger.warning,
    ) -> Self:
        """As `Journal.open`. A directory that is no replica's yet becomes one: all that it holds so far is of no epoch, and committed.

        Raises:
            JournalDamagedError: also where its file ``replica`` is not whole: what it has promised nobody knows.
            TransferUnfinishedError: a transfer into it was not finished.
        """
        return super().open(directory, replace(options or JournalOptions(), replicated=True), files, report)

    @classmethod
    def _recover(cls, directory: Path, options: JournalOptions, files: Files, lock: int, report: Report) -> Recovered:
        finish_set_aside(files, directory, report)
        finish_install(files, directory, lock, report)
        bound_diverged(files, directory, report)
        replica = ReplicaFile.open(files, directory, lock, report)
        recovered = recover(files, directory, options, report, replica.now.durable, replica.doubts)
        recovered.replica = replica
        return recovered

    def _take(self, recovered: Recovered) -> None:
        super()._take(recovered)
        assert recovered.replica is not None
        assert recovered.epochs is not None
        assert recovered.checkpoint.log is not None
        self._replica = recovered.replica
        self._epochs = recovered.epochs
        self._log_begins = recovered.checkpoint.log.start
        self.committed_lsn = max(recovered.checkpoint.lsn, recovered.checkpoint.log.committed)
        self._floor = self.committed_lsn
        self._run_first = None
        self._leading = 0
        self._appending = 0
        self._sent: ShippedRecord | None = None
        self._written_epoch = 0
        self._uncommitted: deque[tuple[int, int]] = deque()
        self._committed_bytes = 0
        self._tail = LogTail(self._options.log_tail_bytes, self.next_lsn)
        self._places = Places()
        self._kept_from: int | None = None
        self._prepared_lsn = 0
        self._contained_lsn = 0
        self._of_all = True
        self._cut_next = 0
        self._held: tuple[int, Sequence[Task]] | None = None
        self._begun, self._wanted, self._chosen, self._storing = [], [], [], []
        self._housekeeping.stored = recovered.checkpoint._replace(payload=None)

    # What the directory is.

    @property
    def directory_id(self) -> str:
        """Of this very directory, as hex; one that was wiped, restored, copied or repaired has another."""
        return self._replica.now.directory

    @property
    def fresh(self) -> bool:
        """Whether the directory has got its id at this start: whatever it holds, it is no member that anybody knows."""
        return self._replica.fresh

    @property
    def cluster_id(self) -> str:
        """The cluster's; "" as long as it is in none."""
        return self._replica.now.cluster

    @property
    def promised(self) -> int:
        """The greatest epoch that was promised: the caller takes nothing of an older leader. 0 for none."""
        return self._replica.now.promised

    @property
    def doubt(self) -> int:
        """What was promised when a write was cut off the log's end that may have been answered for; 0 where there is no doubt."""
        return self._replica.now.doubt

    def end_doubt(self, epoch: int) -> None:
        """It has all again that it may have answered for up to an epoch; durable when this returns. Raises as `promise`."""
        with self._failing():
            self._replica.end_doubt(epoch)

    def join(self, cluster: str) -> None:
        """Be of a cluster, for good; durable when this returns, which takes two syncs. On any thread.

        Raises:
            JournalUsageError: it is of another one.
            JournalFailedError: the file system refuses.
        """
        with self._failing():
            self._replica.join(cluster)

    def promise(self, epoch: int) -> None:
        """Promise to take nothing that is older than an epoch; durable when this returns, which takes two syncs. On any thread.

        Raises:
            JournalUsageError: a greater one was promised, or it is out of range.
            JournalFailedError: the file system refuses; whether it is promised is not known then.
        """
        self._check_epoch(epoch)
        with self._failing():
            # With another policy a record is reported durable before it is.
            synced = self._writer is None or self._options.sync == ALWAYS
            self._replica.promise(epoch, self.durable_lsn if synced else 0)

    def keep_log(self, lsn: int | None) -> None:
        """Keep the log from ``lsn`` on for who lags, up to ``cluster_log_bytes``; None for nothing but what is needed here.

        Checkpoints give back what is before. What is not committed, or not contained in a checkpoint, is kept in any case.
        """
        self._kept_from = lsn

    # How the log grows, and is cut.

    @property
    def uncommitted_bytes(self) -> int:
        """Of the records that were appended since `lead`, bytes that are not committed, durable here or not."""
        return self._appended_bytes - self._committed_bytes if self._leading else 0

    @property
    def appended_bytes(self) -> int:
        """Of all records that were appended since it was opened."""
        return self._appended_bytes

    @property
    def truncation_floor(self) -> int:
        """`truncate` cuts no record below it: they are committed, or contained in the checkpoint."""
        return self._floor

    def truncate(self, lsn: int) -> Truncated:
        """Cut everything from ``lsn`` on off, durable when this returns; between `open` and `start`. What is cut is kept beside it.

        Whatever it is interrupted by, the next start finds the log up to ``lsn``, or up to a record behind it.

        Raises:
            JournalUsageError: the journal is started; or ``lsn`` is below `truncation_floor`.
            JournalDamagedError: a record cannot be read.
            JournalFailedError: the file system refuses. The directory is let go: open it again.
        """
        if self._writer is not None or self._lock is None:
            raise JournalUsageError("a log is cut between open and start")
        if lsn < self._floor:
            raise JournalUsageError(f"the log is not cut at record {lsn}: everything below {self._floor} is committed")
        if lsn >= self.next_lsn:
            return Truncated(0, {}, ())
        run = [segment for segment in log_run(self._catalog.segments) if segment.stop_lsn > lsn]
        try:
            self._catalog.close()
            checkpoint = newest_checkpoint(self._files, self._directory, self._files.names(self._directory))
            assert checkpoint is not None, "a start has written one"
            cut = keep_copies(self._files, self._directory, run, lsn)
            self._replica.cut(lsn)
            cut_off(self._files, self._directory, checkpoint._replace(next_segment=self._next_segment), cut)
            replica, report = self._replica, self._report
            recovered = recover(
                self._files, self._directory, self._options, report, replica.now.durable, replica.doubts
            )
            recovered.replica = self._replica
            bound_diverged(self._files, self._directory, self._report)
            self._take(recovered)
        except (JournalError, OSError) as error:
            self._let_go()
            if isinstance(error, OSError):
                raise JournalFailedError(error) from error
            raise
        gone = cut.truncated
        self._report(
            f"{self._directory}: the records from {lsn} on were never committed, and are cut off: {gone.records} of them, with "
            f"{sum(gone.items.values())} messages; they are kept in {', '.join(path.name for path in gone.kept)}"
        )
        return gone

    def lead(self, epoch: int) -> None:
        """What is appended from now on is of this epoch.

        Raises:
            JournalUsageError: a greater one was promised, or is in the log; or it is out of range.
            JournalFailedError: a write or a sync has failed.
        """
        self._running()
        self._check_epoch(epoch)
        least = max(self.promised, self._epochs.last)
        if epoch < least:
            raise JournalUsageError(f"nobody leads in epoch {epoch} here: epoch {least} was promised, or has records")
        if not self._leading:
            self._committed_bytes = self._appended_bytes
        self._leading = self._appending = epoch
        # A checkpoint that is under way may come to contain what is not committed: it was a follower's.
        self._of_all = True

    def stop_leading(self) -> None:
        """Append nothing more: whoever still tries is refused, and nothing is sent to it either. It goes on when it is opened anew."""
        self._appending = 0

    def append_shipped(self, records: Iterable[ShippedRecord]) -> None:
        """Append records of a leader as they are there, one behind the other. Those before one that raises are appended.

        Raises:
            JournalUsageError: this journal leads; or a record does not follow the last, by lsn, epoch or items; or is none.
            JournalFullError: more than ``max_pending_bytes`` wait to be written.
            JournalFailedError: a write or a sync has failed.
        """
        self._running()
        if self._leading:
            raise JournalUsageError(f"this journal leads in epoch {self._leading}, and is sent nothing")
        try:
            for record in records:
                self._append_one(record)
        finally:
            self._appending, self._sent = 0, None

    def committed(self, lsn: int) -> None:
        """Every record below ``lsn`` is committed; so a checkpoint that waited for that is stored now."""
        self.committed_lsn = max(self.committed_lsn, min(lsn, self.next_lsn))
        uncommitted = self._uncommitted
        while uncommitted and uncommitted[0][0] < self.committed_lsn:
            self._committed_bytes = uncommitted.popleft()[1]
        held, writer = self._held, self._writer
        if held is not None and self.committed_lsn >= held[0] and writer is not None and writer.failure is None:
            self._held = None
            super()._hand_over(writer, held[1])

    # Checkpoints.

    def prepare_checkpoint(self, live: Live, lsn: int | None = None) -> Iterator[None]:
        """As `Journal.prepare_checkpoint`; who follows says how far ``live`` knows the records: all below ``lsn``, which are committed."""
        if lsn is not None and lsn > self.committed_lsn:
            raise JournalUsageError(f"a state up to record {lsn} is of more than is committed: {self.committed_lsn}")
        self._begin_checkpoint()
        return self._prepare(live, self.next_lsn if lsn is None else lsn)

    def cut_checkpoint(self, lsn: int | None = None) -> None:
        """As `Journal.cut_checkpoint`; who follows says before which record its state is, the first that it will apply after a start."""
        if lsn is not None and not self._prepared_lsn <= lsn <= self.committed_lsn:
            raise JournalUsageError(
                f"a checkpoint before record {lsn}, where {self._prepared_lsn} was prepared, and {self.committed_lsn} is committed"
            )
        self._of_all, self._cut_next = lsn is None, self.next_lsn
        at = self.next_lsn if lsn is None else lsn
        self._cut_at(at, None)
        self._run_first = None
        for transfer in self._chosen:
            transfer.cut(at)

    def store_checkpoint(self, payload: bytes, done: Callable[[], None] | None = None) -> None:
        """As `Journal.store_checkpoint`; it is stored when everything that it may contain is committed, and gives disk back only then."""
        if self._cut is not None:
            checkpoint, dead, combination, combined_segment = self._cut
            # A follower's state is that of the committed, the leader's of all that is appended; also where it was cut as of the committed.
            of_all = self._of_all or (self._leading and self.next_lsn != self._cut_next)
            self._contained_lsn = self.next_lsn if of_all else self.committed_lsn
            self._epochs.forget(self.log_start, checkpoint.lsn)
            self._log_begins = max(self._log_begins, self._epochs.known_from + 1)
            log = LogFacts(self._log_begins, self._contained_lsn, self._epochs.before(checkpoint.lsn))
            self._cut = (checkpoint._replace(log=log), dead, combination, combined_segment)
        chosen, self._chosen = self._chosen, []
        self._storing = chosen

        def stored() -> None:
            for transfer in chosen:
                transfer.stored()
            if done is not None:
                done()

        super().store_checkpoint(payload, stored if chosen else done)

    def _prepare(self, live: Live, state: int) -> Iterator[None]:
        floor = min(self.committed_lsn, state, self._spared_lsn())
        kept = self._kept()

        def keeps(segment: Segment) -> bool:
            return segment.header.kind == LOG and (segment.stop_lsn > floor or segment in kept)

        for _ in self._housekeeping.prepare(live, keeps):
            self._run_first = None
            yield
        self._run_first = None
        self._prepared_lsn = state
        yield from self._choose(live)

    def _kept(self) -> set[Segment]:
        """The segments that are kept for who lags."""
        kept: set[Segment] = set()
        if self._kept_from is None:
            return kept
        size = 0
        for segment in reversed(log_run(self._catalog.segments)):
            size += segment.end
            if size > self._options.cluster_log_bytes or segment.stop_lsn <= self._kept_from:
                break
            kept.add(segment)
        return kept

    def _hand_over(self, writer: Writer, tasks: Sequence[Task]) -> None:
        if self.committed_lsn >= self._contained_lsn:
            super()._hand_over(writer, tasks)
        else:
            self._held = (self._contained_lsn, tasks)

    @staticmethod
    def _check_epoch(epoch: int) -> None:
        if not 0 < epoch <= MAX_EPOCH:
            raise JournalUsageError(f"an epoch of a cluster is 1 to {MAX_EPOCH}, not {epoch}")

    def _append_one(self, record: ShippedRecord) -> None:
        """One record of a leader."""
        lsn, epoch, kind, flags, payload = record
        self._check_epoch(epoch)
        if lsn != self.next_lsn or epoch < self._epochs.last:
            raise JournalUsageError(
                f"record {lsn} of epoch {epoch} does not follow record {self.next_lsn - 1} of epoch {self._epochs.last}"
            )
        if flags not in (0, ITEMS, SEVERAL) or not CLOSED < kind <= MAX_KIND:
            raise JournalUsageError(f"a record of kind {kind} and flags {flags}, which no leader appends")
        if self._active.header.version < SEVERAL_VERSION:
            self._roll(self._running(), SEVERAL_VERSION)
        self._appending, self._sent = epoch, record
        try:
            if flags == ITEMS:
                stream, first, count, parts = split_items(record)
                self._append(kind, ITEMS, record.size, stream, first, count, parts, False)
            elif flags == SEVERAL:
                self._append_several(kind, record)
            else:
                self._append(kind, 0, record.size, 0, 0, 0, payload, False)
        except FormatError as error:
            raise JournalUsageError(f"record {lsn} cannot be one: {error}") from error

    def _append_several(self, kind: int, record: ShippedRecord) -> None:
        whole = record.whole()
        rows, _ = unpack_several(whole)
        for row in rows:
            self._catalog.check(*row[:3])
        self._append(kind, SEVERAL, len(whole), 0, 0, 0, (whole,), False)
        offset = self._active.end - RECORD_HEADER_BYTES - len(whole)
        for stream, first, items, part in rows:
            self._catalog.enter(self._active, offset, ITEMS_PREFIX_BYTES + len(part), stream, first, items)

    def _append(
        self, kind: int, flags: int, length: int, stream: int, first: int, count: int, parts: Parts, lazy: bool
    ) -> int:
        epoch, writer = self._appending, self._running()
        if not epoch:
            raise JournalUsageError(
                "who leads appends (`lead`); who follows appends what it is sent (`append_shipped`)"
            )
        if epoch != self._written_epoch:
            self._submit(writer, partial(writer.write_epoch, epoch))
            self._written_epoch = epoch
        lsn = super()._append(kind, flags, length, stream, first, count, parts, lazy)
        if epoch != self._epochs.last:
            self._epochs.begin(epoch, lsn)
        record = self._sent
        if record is None:
            self._uncommitted.append((lsn, self._appended_bytes))
            payload = (ITEMS_PREFIX.pack(stream, first, count), *parts) if flags == ITEMS else tuple(parts)
            record = ShippedRecord(lsn, epoch, kind, flags, payload)
            if self.on_appended is not None:
                self.on_appended(lazy)
        self._tail.add(record, length, writer.durable_lsn)
        segment = self._active
        self._places.mark(segment.header.segment_id, lsn, segment.end - RECORD_HEADER_BYTES - length)
        return lsn

    def _mark_end(self, writer: Writer) -> None:
        """A log that ends says so beside itself: a record more would be one that the others do not have."""
        self._submit(writer, writer.flush)

    def _closed(self) -> None:
        if self.failure is not None:
            return
        try:
            self._replica.stored(self.next_lsn)
        except OSError as error:
            # All is on the disk; only what is damaged there until the next start may then be taken for a write that was not finished.
            self._report(f"{self._directory}: it cannot be noted that all is stored: {error}")

    def _let_go(self) -> None:
        self._replica.close()
        super()._let_go()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """A file system that refuses is the end of the journal."""
        try:
            yield
        except OSError as error:
            if self._writer is not None:
                self._writer.fail(error)
            raise JournalFailedError(error) from error
