"""Executes what the journal was asked for, in order: group commits, new segments, and what must follow a sync.

No thread and no waiting is in here; a committer (journal/committer.py) calls `commit` when `ready` says so. Positions were given on
the appending thread already, so there is nothing to decide: bytes are written, synced and reported. The first failure is for good.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from journal.durable import write_all
from journal.errors import JournalDamagedError, JournalFailedError
from journal.files import Files
from journal.format import GROUP_UNKNOWN, SEGMENT_HEADER_BYTES, StreamRows
from journal.group import pack_group
from journal.index import save_index
from journal.options import ALWAYS, INTERVAL, JournalOptions
from journal.segment import ALLOCATE_STEP, Append, Segment, make_segment_file

logger = logging.getLogger("penstock.journal")

GROUP_RECORDS = GROUP_UNKNOWN
"""Records of one group at most, so that each can say where in it it stands."""
GROUP_BYTES = 16 << 20
"""Bytes after which a group takes no further record: the first of it wait for the sync of the last."""
SLOWEST_FADES = 0.98
"""What of the slowest sync counts at the next one: one of two seconds counts as one of 20 ms some 230 syncs later."""

Task: TypeAlias = Callable[[], None]


class Writer:
    """The one that writes. Attributes are read by the appending thread, those marked (a) are written by it.

    Attributes:
        queue: (a) records and tasks, in order; bounded by the journal's max_pending_bytes.
        urgent_lsn: (a) every record below it should be written at once, not lazily.
        urgent_tasks: (a) how many tasks were put into the queue.
        durable_lsn: every record below it was reported durable.
        settled_bytes: bytes of records that were reported durable.
        failure: why nothing is taken any more.
        stopped: the last task has run.
        spares: dead segments that may be written over.
    """

    def __init__(
        self,
        files: Files,
        options: JournalOptions,
        segment: Segment,
        epoch: int,
        spares: deque[Path],
        on_durable: Callable[[int], None],
        on_failure: Callable[[JournalFailedError], None],
        clock: Callable[[], float],
    ) -> None:
        self.queue: deque[Append | Task] = deque()
        self.urgent_lsn = 0
        self.urgent_tasks = 0
        self.durable_lsn = segment.stop_lsn
        self.settled_bytes = 0
        self.failure: JournalFailedError | None = None
        self.stopped = False
        self.spares = spares
        self.syncs = self.groups = self.records = 0
        self.last_sync_seconds = self.slowest_sync_seconds = self.sync_seconds = 0.0
        self._files = files
        self._options = options
        self._segment = segment
        self._epoch = epoch
        self._on_durable = on_durable
        self._on_failure = on_failure
        self._clock = clock
        self._failing = threading.Lock()
        self._file: int | None = None
        self._allocated = 0
        self._end = segment.end
        self._group_position = 0
        self._taken_lsn = 0
        self._tasks_done = 0
        self._lazy_since: float | None = None
        self._unsynced_since: float | None = None
        self.background: Callable[[Task], None] = lambda task: task()

    @property
    def syncs_always(self) -> bool:
        """Whether each group is synced before it is reported durable."""
        return self._options.sync == ALWAYS

    @property
    def busy(self) -> bool:
        """Whether something that is not lazy waits, or is being written."""
        return self.urgent_lsn > self.durable_lsn or self.urgent_tasks > self._tasks_done

    def waits_for_little(self, most: int) -> bool:
        """Whether nothing but records waits, of ``most`` bytes together."""
        size = 0
        for operation in self.queue:
            if type(operation) is not tuple:
                return False
            size += operation[1]
        return size <= most

    def ready(self) -> bool:
        """Whether `commit` has something to do now."""
        if not self.queue:
            since, delay = self._unsynced_since, self._options.sync_interval
        elif self.urgent_lsn > self._taken_lsn or self.urgent_tasks > self._tasks_done:
            return True
        else:
            if self._lazy_since is None:
                self._lazy_since = self._clock()
            since, delay = self._lazy_since, self._options.lazy_delay
        return since is not None and self._clock() >= since + delay

    def seconds_to_wait(self) -> float | None:
        """How long until `ready` says yes by itself; None if only something new can make it."""
        # Read once: another thread may commit meanwhile what is lazy (`AloneCommits`), and then there is nothing to wait for.
        lazy, unsynced = self._lazy_since, self._unsynced_since
        dues = []
        if lazy is not None and self.queue:
            dues.append(lazy + self._options.lazy_delay)
        if unsynced is not None:
            dues.append(unsynced + self._options.sync_interval)
        return max(0.0, min(dues) - self._clock()) if dues else None

    @property
    def lazy_delay(self) -> float:
        """Seconds that a lazy record may wait."""
        return self._options.lazy_delay

    def now(self) -> float:
        """The time, by which it is known how long something has waited."""
        return self._clock()

    def lazy_from(self, when: float) -> None:
        """What is lazy and waits may have waited since then; nobody was told when it came."""
        if self.queue and self._lazy_since is None:
            self._lazy_since = when

    def commit(self) -> None:
        """One group of records, or one task, or the sync that is due. Every failure of it is the journal's."""
        if self.failure is not None or self.stopped:
            return
        try:
            self._commit()
        except Exception as error:  # noqa: BLE001 - a callback's error, or a defect here, must not end in a silent dead thread
            self.fail(error)

    def flush(self) -> None:
        """Sync what was written and is not synced, whatever the policy."""
        if self._group_position:
            self._sync()

    def fail(self, cause: BaseException) -> None:
        """Take nothing more, and say so once; from any thread."""
        with self._failing:
            if self.failure is not None:
                return
            self.failure = JournalFailedError(cause)
            self.failure.__cause__ = cause
        logger.error("%s", self.failure)
        try:
            self._on_failure(self.failure)
        except Exception:
            logger.exception("what was told of the journal's failure failed itself")

    def in_background(self, task: Task) -> None:
        """Run a task on the worker; its failure is the journal's. Nothing runs after a failure."""

        def guarded() -> None:
            if self.failure is not None:
                return
            try:
                task()
            except Exception as error:  # noqa: BLE001 - as in commit
                self.fail(error)

        self.background(guarded)

    # Tasks: the appending thread puts them into the queue, between the records that they stand between.

    def roll(self, segment: Segment, rows: dict[int, StreamRows]) -> None:
        """Go on in a new segment; ``rows`` are those of the one before, which its index will hold."""
        full = self._segment
        self._seal()
        self._segment = segment
        self._file, self._allocated = make_segment_file(self._files, segment, self.spares, self._options.segment_bytes)
        self._end = SEGMENT_HEADER_BYTES  # segment.end is already where the records will end that wait in the queue
        self.in_background(lambda: save_index(self._files, full, rows))

    def write_epoch(self, epoch: int) -> None:
        """What is appended from here on is of this epoch: a replica's records have their leader's."""
        self._epoch = epoch

    def after_sync(self, task: Task) -> None:
        """Run a task on the worker when everything appended before is durable, under every policy."""
        self.flush()
        self.in_background(task)

    def stop(self) -> None:
        """The last task: sync, and take nothing more."""
        self.flush()
        self.stopped = True

    def close(self) -> None:
        """Give the file back; once nothing commits any more."""
        if self._file is not None:
            self._files.close(self._file)
            self._file = None

    def _commit(self) -> None:
        queue = self.queue
        records: list[Append] = []
        size = 0
        while queue and len(records) < GROUP_RECORDS and size < GROUP_BYTES:
            operation = queue[0]
            if type(operation) is not tuple:
                break
            queue.popleft()
            records.append(operation)
            size += operation[1]
        if records:
            self._taken_lsn = records[-1][2] + 1
            self._lazy_since = None
            self._write(records, size)
        elif queue:
            task = queue.popleft()
            assert callable(task)
            task()
            self._tasks_done += 1
        elif self._unsynced_since is not None:
            self._sync()

    def _write(self, records: list[Append], size: int) -> None:
        segment = self._segment
        file = self._file
        if file is None:
            file = self._reopen()
        end = self._end + size
        if end > self._allocated:
            self._grow(file, end)
        buffers = pack_group(segment, records, self._group_position, self._epoch)
        write_all(self._files, file, buffers, self._end)
        self._end = end
        unwritten = segment.unwritten
        for record in records:
            del unwritten[record[0]]
        self._group_position += len(records)
        self.groups += 1
        self.records += len(records)
        self._options.on_write(size)
        if self._options.sync == ALWAYS:
            self._sync()
        elif self._options.sync == INTERVAL:
            now = self._clock()
            if self._unsynced_since is None:
                self._unsynced_since = now
            elif now >= self._unsynced_since + self._options.sync_interval:
                self._sync()
        if not self._files.linked(file):
            # A removed file takes writes and syncs as ever, and nothing of them is ever found.
            raise JournalDamagedError(segment.path, 0, "it was removed while a broker was at work in it")
        self.durable_lsn = records[-1][2] + 1
        self.settled_bytes += size
        self._on_durable(self.durable_lsn)

    def _sync(self) -> None:
        assert self._file is not None
        start = self._clock()
        self._files.sync(self._file)
        self.last_sync_seconds = self._clock() - start
        self.slowest_sync_seconds = max(self.last_sync_seconds, self.slowest_sync_seconds * SLOWEST_FADES)
        self.sync_seconds += self.last_sync_seconds
        self.syncs += 1
        self._options.on_sync(self.last_sync_seconds)
        self._group_position = 0
        self._unsynced_since = None

    def _grow(self, file: int, end: int) -> None:
        """Have room for what ends at ``end``: by whole steps, but not beyond a segment's size unless a record needs it."""
        steps = -(-end // ALLOCATE_STEP) * ALLOCATE_STEP
        target = max(end, min(steps, self._options.segment_bytes))
        self._files.allocate(file, self._allocated, target - self._allocated)
        self._allocated = target

    def _seal(self) -> None:
        """Cut the segment to the end of its last record, and sync it: only then may there be a next."""
        file = self._file
        if file is None:
            file = self._reopen()
        if self._allocated != self._end:
            self._files.truncate(file, self._end)
        self._sync()
        self._files.close(file)
        self._file = None

    def _reopen(self) -> int:
        """Go on in the segment that the last run of the program left."""
        self._file = file = self._files.open(self._segment.path, write=True)
        self._allocated = self._files.size(file)
        return file
