"""The journal: one log of records, appended by one thread, durable before it says so, read back by (stream, item).

The thread that appends owns all state here: it gives each record its lsn and its place, so the index is complete at once. The
writer only executes (journal/writer.py). ``on_durable``, ``on_failure`` and ``done`` are called on threads of the journal,
and on the appending one within `AloneCommits.end`.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self

from journal.alone import AloneCommits
from journal.checkpointing import Checkpointing
from journal.committer import RESTS, Committer, ManualCommitter, ThreadCommitter
from journal.directory import claim
from journal.errors import JournalError, JournalFailedError, JournalFullError, JournalUsageError
from journal.files import Buffer, Files, OsFiles
from journal.format import (
    CLOSED,
    ITEMS,
    MAX_PAYLOAD,
    RECORD_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    SEVERAL,
    SEVERAL_VERSION,
)
from journal.housekeeping import Housekeeping
from journal.items import ITEMS_PREFIX_BYTES, Held, pack_several
from journal.options import JournalOptions, JournalStatistics
from journal.recovery import Record, Recovered, recover, replay
from journal.segment import Segment, new_header
from journal.writer import Task, Writer

logger = logging.getLogger("penstock.journal")

CLOSE_TIMEOUT = 30.0
"""Seconds in which everything pending must be on disk when the journal is closed; a disk that is slower is broken."""
MAX_KIND = 255
Parts = Sequence[Buffer]
Report = Callable[[str], None]


class Journal(Checkpointing):
    """An open directory. Made by `open`; then `replay` once, `start`, and append until `close`.

    Attributes:
        epoch: how many times the directory was opened, this time included; durable.
        next_lsn: the lsn that the next record gets.
        checkpoint_payload: the caller's, of the newest checkpoint at `open`; None where there was none.
        alone: commits of records that come alone; once it is started.
        pins: what stays as it is while it is copied.
    """

    alone: AloneCommits

    def __init__(
        self, directory: Path, options: JournalOptions, files: Files, lock: int, report: Report, recovered: Recovered
    ) -> None:
        self._directory = directory
        self._options = options
        self._files = files
        self._lock: int | None = lock
        self._report = report
        self._take(recovered)

    def _take(self, recovered: Recovered) -> None:
        """Be what the directory was found to hold."""
        self.epoch = recovered.checkpoint.epoch
        self.next_lsn = recovered.next_lsn
        self.checkpoint_payload = recovered.checkpoint.payload
        self._catalog = recovered.catalog
        self._active = recovered.catalog.segments[-1]
        self._replay_from: list[tuple[Segment, int, int]] | None = recovered.replay_from
        self._next_segment = recovered.next_segment
        self._spares = recovered.spares
        self._writer: Writer | None = None
        self._committer: Committer | None = None
        self._queue: deque[tuple[object, ...] | Task] = deque()
        self._appended_bytes = 0
        self._checkpoint_lsn, self._bytes_at_checkpoint = recovered.checkpoint.lsn, 0
        self._sealed_since_checkpoint = len(recovered.replay_from)
        self._cut = None
        self._housekeeping = Housekeeping(
            self._files, self._directory, self._options, recovered.catalog, recovered.spares, self._report
        )
        self.pins = self._housekeeping.pins

    @classmethod
    def open(
        cls,
        directory: Path,
        options: JournalOptions | None = None,
        files: Files | None = None,
        report: Report = logger.warning,
    ) -> Self:
        """Lock a directory, made if need be, and recover what it holds.

        ``report`` gets a line for everything that a person should know of: a torn tail that was cut off, an index made again.

        Raises:
            BackupError: it is a backup.
            JournalMissingError: it, or one above it, is a file.
            JournalLockedError: it is open elsewhere.
            JournalDamagedError: something that was durable is missing or changed; names file and offset.
            JournalFailedError: the file system refuses.
            ReplicaError: it is a replica of a cluster's log: `ReplicatedJournal.open` opens it; or a transfer into it was not finished.
        """
        options = options or JournalOptions()
        files = files or OsFiles()
        lock = claim(directory, files)
        try:
            return cls(directory, options, files, lock, report, cls._recover(directory, options, files, lock, report))
        except OSError as error:
            files.close(lock)
            raise JournalFailedError(error) from error
        except JournalError:
            files.close(lock)
            raise

    @classmethod
    def _recover(
        cls,
        directory: Path,
        options: JournalOptions,
        files: Files,
        lock: int,  # noqa: ARG003 - a replica's
        report: Report,
    ) -> Recovered:
        """What the directory holds; raises as `open`, and OSError."""
        if options.replicated:
            raise JournalUsageError("a replicated journal is opened by ReplicatedJournal.open")
        return recover(files, directory, options, report)

    @property
    def durable_lsn(self) -> int:
        """Every record below it was reported durable; before `start`, everything that was recovered."""
        return self._writer.durable_lsn if self._writer is not None else self.next_lsn

    @property
    def pending_bytes(self) -> int:
        """Bytes appended and not yet reported durable."""
        return self._appended_bytes - self._writer.settled_bytes if self._writer is not None else 0

    @property
    def failure(self) -> JournalFailedError | None:
        """Why nothing is taken any more."""
        return self._writer.failure if self._writer is not None else None

    @property
    def last_stream(self) -> int:
        """The greatest number of a stream that a record holds items of; -1 where none does."""
        return self._catalog.last_stream

    def replay(self) -> Iterator[Record]:
        """The caller's records behind the checkpoint, in order; once, between `open` and `start`."""
        if self._replay_from is None:
            raise JournalUsageError("records are replayed once, before the journal is started")
        stretches, self._replay_from = self._replay_from, None
        for record in replay(self._files, stretches):
            yield Record(record.lsn, record.kind, record.payload)

    def start(
        self,
        on_durable: Callable[[int], None],
        on_failure: Callable[[JournalFailedError], None],
        committer: Committer | None = None,
    ) -> None:
        """Begin to take records.

        Both are called on threads of the journal, or within `AloneCommits.end`: ``on_durable`` once for each group commit, with the lsn up
        to which all is durable, ``on_failure`` once.
        """
        if self._writer is not None or self._lock is None:
            raise JournalUsageError("a journal is started once, while it is open")
        self._replay_from = None
        self._committer = committer or ThreadCommitter()
        # A simulation has a clock of its own, and measures nothing.
        clock = (lambda: 0.0) if isinstance(self._committer, ManualCommitter) else time.monotonic
        self._writer = Writer(
            self._files, self._options, self._active, self.epoch, self._spares, on_durable, on_failure, clock
        )
        self.alone = AloneCommits(self._writer, self._committer)
        self._queue = self._writer.queue  # type: ignore[assignment]  # a plain alias, which saves a lookup a record
        self._committer.start(self._writer)

    def append(self, kind: int, parts: Sequence[Buffer], *, lazy: bool = False) -> int:
        """Append a record; returns its lsn.

        The parts are written later, from where they are: they must be contiguous, and not change.
        With ``lazy`` it waits up to ``lazy_delay`` seconds for another to be written with.

        Raises:
            JournalFailedError: a write or a sync has failed.
            JournalFullError: more than ``max_pending_bytes`` wait to be written.
            JournalUsageError: a kind out of range, a payload that is too large, a journal that is not started.
        """
        if kind == CLOSED:
            raise JournalUsageError(f"kind {CLOSED} is the journal's own")
        length = 0
        for part in parts:
            length += part.nbytes if type(part) is memoryview else len(part)
        return self._append(kind, 0, length, 0, 0, 0, parts, lazy)

    def append_items(
        self, kind: int, stream: int, first: int, count: int, parts: Parts, lazy: bool = False, newer: bool = False
    ) -> int:
        """Append a record that holds the items first <= n < first + count of a stream; as `append`.

        The items of a stream only ascend, over all records that still hold some (JournalUsageError where not); gaps are allowed. What is
        ``newer`` no program can read that does not know records of several streams: it refuses the segment.
        """
        length = ITEMS_PREFIX_BYTES
        for part in parts:
            length += part.nbytes if type(part) is memoryview else len(part)
        if newer and self._active.header.version < SEVERAL_VERSION:
            self._roll(self._running(), SEVERAL_VERSION)
        return self._append(kind, ITEMS, length, stream, first, count, parts, lazy)

    def append_several(
        self, kind: int, held: Sequence[Held], parts: Sequence[Sequence[Buffer]], other: bytes = b"", lazy: bool = False
    ) -> int:
        """Append a record that holds items of several streams, each by one of ``parts``, and ``other`` bytes; as `append_items`.

        It is there for all of the streams or for none. Without items it is a record as of `append`, of the same shape.
        """
        rows, lengths, buffers, length = pack_several(held, parts, other)
        for row in rows:
            self._catalog.check(*row[:3])
        lsn = self._append(kind, SEVERAL if rows else 0, length, 0, 0, 0, buffers, lazy)
        offset = self._active.end - RECORD_HEADER_BYTES - length
        for row, size in zip(rows, lengths, strict=True):
            self._catalog.enter(self._active, offset, ITEMS_PREFIX_BYTES + size, *row[:3])
        return lsn

    def statistics(self) -> JournalStatistics:
        """A snapshot."""
        writer, segments, spares = self._writer, self._catalog.segments, len(self._spares)
        syncs = writer.syncs if writer else 0
        return JournalStatistics(
            segments=len(segments),
            disk_bytes=sum(segment.end for segment in segments)
            + spares * self._options.segment_bytes
            + self._housekeeping.reserved * self._options.reserve_bytes
            + self.pins.held_bytes,
            spare_segments=spares,
            next_lsn=self.next_lsn,
            durable_lsn=self.durable_lsn,
            pending_bytes=self.pending_bytes,
            syncs=syncs,
            groups=writer.groups if writer else 0,
            records=writer.records if writer else 0,
            last_sync_seconds=writer.last_sync_seconds if writer else 0.0,
            mean_sync_seconds=writer.sync_seconds / syncs if writer and syncs else 0.0,
            records_since_checkpoint=self.next_lsn - self._checkpoint_lsn,
        )

    def close(self) -> None:
        """Make everything durable that was appended, mark the log as closed, and let the directory go. A second call does nothing.

        Of a journal that has failed nothing more is written.

        Raises:
            JournalError: that took more than ``CLOSE_TIMEOUT`` seconds. The directory stays locked: something still writes.
        """
        writer, committer = self._writer, self._committer
        if self._lock is None:
            return
        if writer is not None and committer is not None:
            with suppress(JournalFailedError):
                self._mark_end(writer)
                self._submit(writer, writer.stop)
            if not committer.finish(CLOSE_TIMEOUT):
                raise JournalError(
                    f"the journal could not be closed within {CLOSE_TIMEOUT:g} s: the disk does not answer"
                )
            writer.close()
        self._closed()
        self._let_go()

    def _mark_end(self, writer: Writer) -> None:
        """Say in the log that it ends here, by a clean shutdown."""
        self._submit(writer, writer.flush)  # so that the last record proves everything before it durable
        self._append(CLOSED, 0, 0, 0, 0, 0, (), False)

    def _closed(self) -> None:
        """Everything is on the disk, unless the journal has failed; the lock is still held."""

    def abandon(self) -> None:
        """Let files and lock go as they are, and write nothing: what a crash would leave. Only with a committer that is at rest."""
        if self._lock is not None:
            if self._writer is not None:
                self._writer.stopped = True
                self._writer.close()
            self._let_go()

    def _append(
        self, kind: int, flags: int, length: int, stream: int, first: int, count: int, parts: Parts, lazy: bool
    ) -> int:
        writer, committer = self._writer, self._committer
        if writer is None or committer is None or writer.failure is not None or self._lock is None:
            self._running()
        assert writer is not None
        assert committer is not None
        size = RECORD_HEADER_BYTES + length
        pending = self._appended_bytes + size - writer.settled_bytes
        if pending > self._options.max_pending_bytes and pending > size and kind != CLOSED:
            raise JournalFullError(pending, self._options.max_pending_bytes)
        if length > MAX_PAYLOAD or not CLOSED <= kind <= MAX_KIND or (kind == CLOSED and length):
            raise JournalUsageError(
                f"a record of kind {kind} and {length} bytes; kinds are 1 to {MAX_KIND}, a payload has at most {MAX_PAYLOAD}"
            )
        segment = self._active
        offset = segment.end
        # A program that knows no records of several streams refuses the segment, where it would find nothing in them.
        several = flags == SEVERAL and segment.header.version < SEVERAL_VERSION
        if several or (offset + size > self._options.segment_bytes and offset > SEGMENT_HEADER_BYTES):
            segment = self._roll(writer, SEVERAL_VERSION if several else 0)
            offset = segment.end
        if flags == ITEMS:
            self._catalog.enter(segment, offset, length, stream, first, count)
        lsn = self.next_lsn
        record = (offset, size, lsn, kind, flags, length, stream, first, count, tuple(parts))
        segment.unwritten[offset] = record
        segment.end = offset + size
        segment.stop_lsn = self.next_lsn = lsn + 1
        self._appended_bytes += size
        self._queue.append(record)
        if not lazy:
            writer.urgent_lsn = lsn + 1
            if committer.resting:
                committer.ring()
        elif committer.resting == RESTS:
            committer.ring()
        return lsn

    def _roll(self, writer: Writer, version: int) -> Segment:
        """Seal the segment and go on in a new one, of no lower version; the writer follows when it gets there."""
        full = self._active
        rows = full.rows
        assert rows is not None
        self._catalog.seal(full)
        header = new_header(self._next_segment, self.next_lsn, version=max(version, full.header.version))
        self._active = segment = Segment(self._directory, header)
        self._next_segment += 1
        self._sealed_since_checkpoint += 1
        self._catalog.add(segment)
        self._submit(writer, partial(writer.roll, segment, rows))
        return segment

    def _submit(self, writer: Writer, task: Task) -> None:
        writer.queue.append(task)
        writer.urgent_tasks += 1
        assert self._committer is not None
        if self._committer.resting:
            self._committer.ring()

    def _running(self) -> Writer:
        writer = self._writer
        if writer is not None and writer.failure is not None:
            raise writer.failure.with_traceback(None)
        if writer is None or self._lock is None:
            raise JournalUsageError("the journal is not started, or closed")
        return writer

    def _let_go(self) -> None:
        self._catalog.close()
        assert self._lock is not None
        self._files.close(self._lock)
        self._lock = None
