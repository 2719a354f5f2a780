"""A record that comes alone is committed by the thread that appends it; everything else is the writer's."""

from __future__ import annotations

import errno
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import pytest

from journal import Journal, JournalFailedError, JournalOptions, JournalUsageError, OsFiles
from journal.alone import ALONE_BYTES, QUICK_SYNC, TURN_BYTES, TURN_SYNC
from journal.committer import ALONE_IN_A_ROW
from journal.files import Buffer
from tests.journal.test_group_commit import Durable


class Noting(OsFiles):
    """Notes which thread syncs, and can be held up there or fail."""

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.broken = False
        self.may_sync = threading.Event()
        self.may_sync.set()
        self.in_sync = threading.Event()

    def sync(self, file: int) -> None:
        self.threads.append(threading.get_ident())
        self.in_sync.set()
        assert self.may_sync.wait(30.0)
        super().sync(file)

    def write(self, file: int, parts: Sequence[Buffer], offset: int) -> int:
        if self.broken:
            raise OSError(errno.EIO, "Input/output error")
        return super().write(file, parts, offset)


class Opened:
    """A journal with a writer's thread, whose records come one by one."""

    def __init__(self, directory: Path, options: JournalOptions | None = None) -> None:
        self.files = Noting()
        self.durable = Durable()
        self.journal = Journal.open(directory, options, files=self.files)
        self.journal.start(self.durable, self.durable.failed)
        self.files.threads.clear()

    def append(self, size: int = 10, batches: int = 1) -> bool:
        """Append one record; whether it was committed here. One that is not is waited for."""
        alone = self.journal.alone
        here = alone.begin(batches)
        lsn = self.journal.append(1, [b"x" * size])
        if here:
            alone.end()
        else:
            self.durable.wait(lsn + 1)
        # A wait that is over says nothing of what the writer still does.
        self.quick()
        return here

    def quick(self) -> None:
        """A sync is quick or slow by the test's word, and not by the machine's."""
        self.writer.last_sync_seconds = self.writer.slowest_sync_seconds = 0.0

    @property
    def writer(self):  # type: ignore[no-untyped-def]
        writer = self.journal._writer
        assert writer is not None
        return writer


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    return Opened(tmp_path)


def test_after_some_that_came_alone_the_next_is_durable_when_its_thread_goes_on(opened: Opened) -> None:
    opened.quick()
    assert [opened.append() for _ in range(ALONE_IN_A_ROW + 3)] == [False] * ALONE_IN_A_ROW + [True] * 3
    assert opened.files.threads[-3:] == [threading.get_ident()] * 3
    assert threading.get_ident() not in opened.files.threads[:-3]
    assert opened.journal.durable_lsn == opened.journal.next_lsn
    opened.journal.close()


def test_batches_that_come_together_are_the_writers_and_the_count_begins_anew(opened: Opened) -> None:
    opened.quick()
    for _ in range(ALONE_IN_A_ROW):
        opened.append()
    assert not opened.append(batches=2)
    assert [opened.append() for _ in range(ALONE_IN_A_ROW + 1)] == [False] * ALONE_IN_A_ROW + [True]
    opened.journal.close()


def test_what_comes_while_the_writer_is_at_work_is_not_alone(opened: Opened) -> None:
    opened.quick()
    for _ in range(ALONE_IN_A_ROW + 1):
        opened.append()
    opened.files.in_sync.clear()
    opened.files.may_sync.clear()
    opened.journal.append(1, [b"under way"])
    assert opened.files.in_sync.wait(30.0)
    assert not opened.journal.alone.begin(1)
    last = opened.journal.append(1, [b"not alone"])
    opened.files.may_sync.set()
    opened.durable.wait(last + 1)
    opened.quick()
    assert [opened.append() for _ in range(ALONE_IN_A_ROW + 1)] == [False] * ALONE_IN_A_ROW + [True]
    opened.journal.close()


def test_behind_a_slow_sync_the_next_is_the_writers_until_one_is_quick_again(opened: Opened) -> None:
    opened.quick()
    for _ in range(ALONE_IN_A_ROW):
        opened.append()
    opened.writer.last_sync_seconds = QUICK_SYNC
    assert not opened.append()
    assert opened.append(), "the writer's own sync was quick"
    opened.journal.close()


def test_what_is_lazy_goes_along(tmp_path: Path) -> None:
    opened = Opened(tmp_path, JournalOptions(lazy_delay=3600.0))
    opened.quick()
    for _ in range(ALONE_IN_A_ROW):
        opened.append()
    lazy = opened.journal.append(1, [b"lazy"], lazy=True)
    assert opened.append()
    assert opened.journal.durable_lsn == lazy + 2
    opened.journal.close()


def test_a_large_record_is_the_writers(opened: Opened) -> None:
    opened.quick()
    for _ in range(ALONE_IN_A_ROW):
        opened.append()
    opened.files.threads.clear()
    assert opened.journal.alone.begin(1)
    lsn = opened.journal.append(1, [bytes(ALONE_BYTES)])
    opened.journal.alone.end()
    opened.durable.wait(lsn + 1)
    assert threading.get_ident() not in opened.files.threads
    opened.journal.close()


@pytest.mark.parametrize(("size", "here"), [(TURN_BYTES // 4, True), (TURN_BYTES // 3, False)])
def test_what_a_turn_brings_is_one_group_that_is_committed_at_its_end_unless_it_is_too_much(
    opened: Opened, size: int, here: bool
) -> None:
    found = []
    # A thread that has just begun, or written, may still be on its way to rest, and then it takes what comes.
    while len(found) < 3 or (here and True not in found and len(found) < 300):
        opened.quick()
        opened.files.threads.clear()
        opened.journal.alone.begin_turn()
        lsns = [opened.journal.append(1, [bytes(size)]) for _ in range(3)]
        opened.journal.alone.end()
        opened.durable.wait(lsns[-1] + 1)
        found.append(opened.files.threads == [threading.get_ident()])
    assert (True in found) is here
    opened.journal.close()


def test_a_turn_of_a_follower_waits_longer_for_a_sync_than_a_broker_alone_and_not_for_ever(opened: Opened) -> None:
    opened.writer.last_sync_seconds = QUICK_SYNC
    assert opened.journal.alone.begin_turn()
    opened.journal.alone.end()
    opened.writer.last_sync_seconds = TURN_SYNC
    assert not opened.journal.alone.begin_turn()
    opened.journal.close()


def test_a_disk_that_has_stalled_once_has_the_turns_of_a_follower_written_elsewhere_for_a_long_time(
    opened: Opened,
) -> None:
    opened.quick()
    opened.writer.slowest_sync_seconds = 2.0
    syncs = 0
    while not opened.journal.alone.begin_turn():
        opened.durable.wait(opened.journal.append(1, [b"x"]) + 1)
        opened.writer.last_sync_seconds = 0.0
        syncs += 1
        assert syncs < 2_000, opened.writer.slowest_sync_seconds
    opened.journal.alone.end()
    assert syncs >= 200
    opened.journal.close()


def test_what_comes_alone_is_the_writers_where_the_slowest_sync_is_slower_than_who_appends_may_wait(
    opened: Opened,
) -> None:
    opened.quick()
    opened.writer.slowest_sync_seconds = TURN_SYNC
    assert not any(opened.journal.alone.begin(1, TURN_SYNC) for _ in range(ALONE_IN_A_ROW + 2))
    opened.writer.slowest_sync_seconds = TURN_SYNC * 0.9
    begun = [opened.journal.alone.begin(1, TURN_SYNC) for _ in range(ALONE_IN_A_ROW + 1)]
    assert begun == [False] * ALONE_IN_A_ROW + [True], "those before it have to have been alone too"
    opened.journal.alone.end()
    opened.journal.close()


def test_a_turn_that_finds_the_writer_at_work_is_the_writers(opened: Opened) -> None:
    opened.quick()
    opened.files.in_sync.clear()
    opened.files.may_sync.clear()
    opened.journal.append(1, [b"under way"])
    assert opened.files.in_sync.wait(30.0)
    assert not opened.journal.alone.begin_turn()
    last = opened.journal.append(1, [b"behind it"])
    opened.files.may_sync.set()
    opened.durable.wait(last + 1)
    assert threading.get_ident() not in opened.files.threads
    opened.journal.close()


def test_a_new_segment_is_made_by_the_writers_thread(tmp_path: Path) -> None:
    opened = Opened(tmp_path, JournalOptions(segment_bytes=4096))
    opened.quick()
    for _ in range(ALONE_IN_A_ROW):
        opened.append()
    found = set()
    for _ in range(30):
        held = opened.journal.alone.begin(1)
        lsn = opened.journal.append(1, [b"x" * 900])
        new_segment = any(type(each) is not tuple for each in opened.writer.queue)
        opened.files.threads.clear()
        if held:
            opened.journal.alone.end()
        found.add((held, new_segment, threading.get_ident() in opened.files.threads))
        opened.durable.wait(lsn + 1)
        opened.quick()
    assert {(True, False, True), (True, True, False)} <= found
    assert (True, True, True) not in found
    opened.journal.close()


def test_a_disk_that_fails_there_is_told_and_nothing_is_durable(opened: Opened) -> None:
    opened.quick()
    for _ in range(ALONE_IN_A_ROW):
        opened.append()
    before = opened.journal.durable_lsn
    opened.files.broken = True
    assert opened.journal.alone.begin(1)
    opened.journal.append(1, [b"lost"])
    opened.journal.alone.end()
    assert [str(each.__cause__) for each in opened.durable.failures] == ["[Errno 5] Input/output error"]
    assert opened.journal.durable_lsn == before
    opened.files.broken = False
    opened.journal.close()


def test_under_another_policy_than_always_every_group_is_the_writers(tmp_path: Path) -> None:
    opened = Opened(tmp_path, JournalOptions(sync="interval"))
    opened.quick()
    assert not any(opened.append() for _ in range(ALONE_IN_A_ROW + 3))
    opened.journal.close()


def test_an_append_that_raised_leaves_nothing_held(opened: Opened) -> None:
    opened.quick()
    for _ in range(ALONE_IN_A_ROW):
        opened.append()
    assert opened.journal.alone.begin(1)
    with pytest.raises(JournalUsageError, match="kinds are 1 to 255"):
        opened.journal.append(300, [b"of no kind"])
    opened.journal.alone.end()
    lsn = opened.journal.append(1, [b"by the writer, which is rung"])
    opened.durable.wait(lsn + 1)
    opened.quick()
    assert opened.append()
    opened.journal.close()


def test_an_interrupt_in_the_middle_of_a_write_ends_the_journal_and_nothing_behind_it_is_durable(
    tmp_path: Path,
) -> None:
    opened = Opened(tmp_path)
    opened.quick()
    for _ in range(ALONE_IN_A_ROW):
        opened.append()
    before = opened.journal.durable_lsn
    assert opened.journal.alone.begin(1)
    opened.journal.append(1, [b"taken out and not written"])
    with mock.patch.object(opened.files, "write", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        opened.journal.alone.end()
    assert len(opened.durable.failures) == 1
    with pytest.raises(JournalFailedError):
        opened.journal.append(1, [b"behind a hole"])
    assert opened.journal.durable_lsn == before
    opened.journal.close()
    again = Journal.open(tmp_path)
    assert again.next_lsn == before
    again.abandon()


def test_two_threads_that_commit_beside_each_other_lose_and_repeat_nothing(tmp_path: Path) -> None:
    opened = Opened(tmp_path, JournalOptions(lazy_delay=0.0001, segment_bytes=64 * 1024))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        here = 0
        for number in range(3_000):
            opened.quick()
            if number % 3 == 0:
                opened.journal.append(2, [b"lazy %d" % number], lazy=True)
            held = opened.journal.alone.begin(1)
            lsn = opened.journal.append(1, [b"%d" % number])
            if held:
                opened.journal.alone.end()
            here += opened.journal.durable_lsn > lsn
            opened.durable.wait(lsn + 1)
    finally:
        sys.setswitchinterval(interval)
    assert here > 0
    opened.journal.close()
    assert opened.durable.failures == []
    again = Journal.open(tmp_path)
    found = [record.payload for record in again.replay() if record.kind == 1]
    assert found == [b"%d" % number for number in range(3_000)]
    again.abandon()


def test_the_writers_thread_does_not_wait_for_what_was_lazy_and_is_committed(tmp_path: Path) -> None:
    opened = Opened(tmp_path, JournalOptions(lazy_delay=3600.0))
    opened.quick()
    for _ in range(ALONE_IN_A_ROW):
        opened.append()
    opened.journal.append(1, [b"lazy"], lazy=True)
    assert not opened.writer.ready()
    assert opened.writer.seconds_to_wait() is not None
    assert opened.append()
    # As if the thread had looked at the queue before, and at its clock behind.
    opened.writer._lazy_since = 0.0
    assert opened.writer.seconds_to_wait() is None
    opened.journal.close()
