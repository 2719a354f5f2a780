"""Who calls the writer, and when: a thread that sleeps until there is something to write, or a test that says now.

The appending thread wakes the writer's only while that rests: a lock taken for every record would cost more than the record. A record
that comes alone it commits itself (journal/alone.py); a lock that is held for each commit keeps the two apart.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from journal.errors import JournalError
from journal.writer import Task, Writer

AWAKE: Final = 0
RESTS_SHORTLY: Final = 1
"""Until a time that is near: nobody need wake it for a lazy record."""
RESTS: Final = 2
"""Until it is woken."""

ALONE_IN_A_ROW = 8
"""Records that have come alone, one after another, before the next is committed where it is appended."""
BACKGROUND_TASKS = 64
"""Tasks that wait for the worker at most: one for each segment that is filled, so the disk is gigabytes behind at this."""
BACKGROUND_TIMEOUT = 60.0
"""Seconds that the writer waits for the worker to take a task, before it gives the disk up."""


class Committer(Protocol):
    """What runs a journal's writer.

    Attributes:
        resting: ``AWAKE``, ``RESTS_SHORTLY`` or ``RESTS``; who appends rings where it is not awake.
        alone_in_a_row: records that have come alone before the next is committed where it is appended.
    """

    resting: int
    alone_in_a_row: int

    def start(self, writer: Writer) -> None:
        """Take charge of a writer; called once."""

    def ring(self) -> None:
        """There is something new; only the appending thread calls it."""

    def hold(self, writer: Writer, quick: float) -> bool:
        """Whether what is appended from now on is held for `commit_held`, which must follow soon; called when nothing is urgent.

        Not where the last sync took ``quick`` seconds or more: who appends stands still for the next.
        """

    def commit_held(self, writer: Writer, most: int) -> None:
        """Commit what was held on the calling thread, or have the writer's do it where that is at work, or there are ``most`` bytes."""

    def finish(self, timeout: float) -> bool:
        """Wait until the writer has stopped or failed and no task is left; False if that took more than ``timeout`` seconds."""


class ThreadCommitter:
    """One thread writes, another does what takes long (indexes, checkpoints, combining segments)."""

    alone_in_a_row = ALONE_IN_A_ROW

    def __init__(self) -> None:
        self.resting = AWAKE
        self._bell = threading.Lock()
        self._bell.acquire()  # rung by releasing it
        # Held by whoever commits: the writer's thread, or the appending one for a record that is alone.
        self._committing = threading.Lock()
        self._holds = False
        # Whether it has committed since it was at rest for long.
        self._has_worked = False
        self._tasks: queue.Queue[Task | None] = queue.Queue(BACKGROUND_TASKS)

    def start(self, writer: Writer) -> None:
        """See `Committer`."""
        writer.background = self._background
        # Daemons: a program that ends without closing its journal must end. What it appended last was not reported durable.
        self._writing = threading.Thread(target=self._write, args=(writer,), name="penstock-journal", daemon=True)
        self._working = threading.Thread(target=self._work, args=(writer,), name="penstock-journal-worker", daemon=True)
        self._writing.start()
        self._working.start()

    def ring(self) -> None:
        """See `Committer`."""
        if self._holds:
            return
        self.resting = AWAKE
        if self._bell.locked():  # only this thread releases it, so it cannot be released twice
            self._bell.release()

    def hold(self, writer: Writer, quick: float) -> bool:
        """See `Committer`. Of little, to hand it over, and to hear of it, takes longer than to write it."""
        self._holds = writer.syncs_always and writer.last_sync_seconds < quick
        return self._holds

    def commit_held(self, writer: Writer, most: int) -> None:
        """See `Committer`."""
        self._holds = False
        if self._committing.acquire(blocking=False):
            try:
                # A task, such as a new segment, takes long, and so does much to write; what is lazy goes along. Only who holds the lock
                # takes anything out.
                if writer.waits_for_little(most):
                    writer.commit()
            except BaseException as error:
                # An interrupt in the middle of a write: what is taken out and not written must not be passed over.
                writer.fail(error)
                raise
            finally:
                self._committing.release()
        if writer.queue and self.resting:
            self.ring()

    def finish(self, timeout: float) -> bool:
        """See `Committer`."""
        deadline = time.monotonic() + timeout
        self.ring()
        self._writing.join(max(0.0, deadline - time.monotonic()))
        if self._writing.is_alive():
            return False
        try:
            self._tasks.put(None, timeout=max(0.0, deadline - time.monotonic()))
        except queue.Full:
            return False
        self._working.join(max(0.0, deadline - time.monotonic()))
        return not self._working.is_alive()

    def _write(self, writer: Writer) -> None:
        try:
            while writer.failure is None and not writer.stopped:
                self._step(writer)
        except BaseException as error:  # noqa: BLE001 - the thread ends, and the journal must not outlive it in silence
            writer.fail(error)

    def _step(self, writer: Writer) -> None:
        if not writer.ready():
            self._rest(writer)
            return
        with self._committing:
            writer.commit()
        self._has_worked = True

    def _rest(self, writer: Writer) -> None:
        # First say that it rests, then look again: what comes in between is either seen here or rings.
        self.resting = RESTS
        if not writer.ready():
            seconds = writer.seconds_to_wait()
            if seconds is None and self._has_worked:
                self._has_worked = False
                self._rest_for_lazy(writer)
            elif seconds is None:
                self._bell.acquire()  # nothing to do until somebody appends: no deadline is due
            else:
                self.resting = RESTS_SHORTLY
                self._bell.acquire(timeout=seconds)
        self.resting = AWAKE

    def _rest_for_lazy(self, writer: Writer) -> None:
        """Rest for as long as a lazy record may wait: one that comes meanwhile need not wake it, and is written when that is over.

        Where there is work more will come, and what is lazy mostly goes along with it.
        """
        began = writer.now()
        self.resting = RESTS_SHORTLY
        if not self._bell.acquire(timeout=writer.lazy_delay):
            writer.lazy_from(began)

    def _background(self, task: Task) -> None:
        try:
            self._tasks.put(task, timeout=BACKGROUND_TIMEOUT)
        except queue.Full:
            raise JournalError(
                f"the journal's worker took no task for {BACKGROUND_TIMEOUT:g} s; is the disk dead?"
            ) from None

    def _work(self, writer: Writer) -> None:
        try:
            while (task := self._tasks.get()) is not None:
                task()
        except BaseException as error:  # noqa: BLE001 - as in _write
            writer.fail(error)


class ManualCommitter:
    """Nothing happens until `run`: for tests, and for simulations that decide when a sync returns and when the power fails.

    Args:
        holds: whether the next record that comes alone is committed where it is appended; never by default.
    """

    alone_in_a_row = 0

    def __init__(self, holds: Callable[[], bool] = lambda: False) -> None:
        self.resting = AWAKE
        self._may_hold = holds
        self._writer: Writer | None = None
        self._tasks: deque[Task] = deque()

    def start(self, writer: Writer) -> None:
        """See `Committer`."""
        self._writer = writer
        writer.background = self._tasks.append

    def ring(self) -> None:
        """See `Committer`."""

    def hold(self, writer: Writer, quick: float) -> bool:  # noqa: ARG002 - the protocol's
        """See `Committer`."""
        return self._may_hold()

    def commit_held(self, writer: Writer, most: int) -> None:  # noqa: ARG002 - the protocol's
        """See `Committer`."""
        if all(type(each) is tuple for each in writer.queue):
            writer.commit()

    @property
    def pending(self) -> bool:
        """Whether `run` has something to do."""
        writer = self._writer
        return (
            writer is not None and writer.failure is None and bool(self._tasks or (writer.queue and not writer.stopped))
        )

    def run(self) -> None:
        """Everything that waits, lazy records too, on the calling thread; with ``sync="interval"`` an interval ends here."""
        writer = self._writer
        if writer is None:
            return
        while self.pending:
            while writer.queue and writer.failure is None and not writer.stopped:
                writer.commit()
            while self._tasks and writer.failure is None:
                self._tasks.popleft()()
        writer.commit()

    def finish(self, timeout: float) -> bool:  # noqa: ARG002 - the protocol's
        """See `Committer`; nothing is waited for."""
        self.run()
        return True
