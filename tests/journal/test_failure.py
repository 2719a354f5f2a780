"""The first failure is for good: nothing is tried again, nothing more is taken, and everybody is told why, once."""

from __future__ import annotations

import errno
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from journal import Journal, JournalError, JournalFailedError, JournalUsageError, ManualCommitter, OsFiles
from tests.fault.faulty_files import Fault, FaultyFiles, Kind
from tests.journal.harness import DIRECTORY, SMALL, Opened, SimulatedDisk, Watched


class Failing(Watched):
    """A disk on which one operation fails from some time on."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.failing = ""

    def __getattr__(self, name: str) -> Any:
        if name == self.failing:
            raise OSError(errno.EIO, "Input/output error")
        return super().__getattr__(name)

    def sync(self, file: int) -> None:
        if self.failing == "sync":
            self.order.append("sync")
            raise OSError(errno.EIO, "Input/output error")
        super().sync(file)

    def write(self, file: int, parts: Any, offset: int) -> int:
        if self.failing == "write":
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(file, parts, offset)


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_after_a_failure_nothing_is_written_and_nothing_is_taken(operation: str) -> None:
    files = Failing(SimulatedDisk())
    opened = Opened(files)
    opened.event(b"durable")
    opened.run()
    files.failing = operation
    opened.event(b"lost")
    opened.committer.run()
    assert opened.durable == [2]
    assert len(opened.failures) == 1
    assert opened.journal.failure is opened.failures[0]
    files.failing = ""
    files.order.clear()
    for _ in range(3):
        with pytest.raises(JournalFailedError, match="nothing that was reported durable is lost"):
            opened.event(b"refused")
        with pytest.raises(JournalFailedError):
            opened.journal.checkpoint(b"", lambda stream, first, stop: 0)
        opened.committer.run()
    opened.journal.close()
    assert not {"write", "sync", "rename", "truncate"} & set(files.order)
    assert len(opened.failures) == 1
    assert opened.durable == [2]


def test_a_sync_that_failed_is_never_tried_again() -> None:
    files = Failing(SimulatedDisk())
    opened = Opened(files)
    files.failing = "sync"
    opened.event(b"x")
    opened.committer.run()
    opened.committer.run()
    files.order.clear()
    opened.committer.run()
    opened.journal.close()
    assert "sync" not in files.order


def test_a_failing_checkpoint_fails_the_journal_and_is_not_done() -> None:
    files = Failing(SimulatedDisk())
    opened = Opened(files)
    opened.event(b"x")
    opened.run()
    files.failing = "rename"
    done: list[bool] = []
    opened.journal.checkpoint(b"state", lambda stream, first, stop: 0, lambda: done.append(True))
    opened.committer.run()
    assert done == []
    assert len(opened.failures) == 1
    assert Opened(files.inner.restart()).replayed == [(1, 1, b"x")]  # type: ignore[attr-defined]


def test_a_callback_that_raises_is_a_failure_of_the_journal() -> None:
    journal = Journal.open(DIRECTORY, SMALL, SimulatedDisk())
    failures: list[JournalFailedError] = []
    committer = ManualCommitter()

    def defect(lsn: int) -> None:
        raise ZeroDivisionError("a defect")

    journal.start(defect, failures.append, committer)
    journal.append(1, [b"x"])
    committer.run()
    assert "a defect" in str(failures[0])
    with pytest.raises(JournalFailedError):
        journal.append(1, [b"y"])


def test_the_thread_tells_of_its_failure_and_close_returns(tmp_path: Path) -> None:
    told = threading.Event()
    failures: list[JournalFailedError] = []

    def failed(error: JournalFailedError) -> None:
        failures.append(error)
        told.set()

    files = Failing(OsFiles())
    journal = Journal.open(tmp_path, SMALL, files)
    journal.start(lambda lsn: None, failed)
    files.failing = "sync"
    journal.append(1, [b"x"])
    assert told.wait(30)
    journal.close()
    assert len(failures) == 1
    with pytest.raises(JournalFailedError):
        journal.append(1, [b"y"])
    Journal.open(tmp_path).close()


def test_a_disk_that_does_not_answer_ends_the_wait_of_close(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Watched(OsFiles())
    journal = Journal.open(tmp_path, SMALL, files)
    journal.start(lambda lsn: None, lambda error: None)
    files.may_sync.clear()
    monkeypatch.setattr("journal.journal.CLOSE_TIMEOUT", 0.05)
    journal.append(1, [b"x"])
    with pytest.raises(JournalError, match=r"could not be closed within 0\.05 s"):
        journal.close()
    files.may_sync.set()
    monkeypatch.undo()
    journal.close()
    assert Journal.open(tmp_path).epoch == 2


class Short(Watched):
    """A disk that takes a few bytes at a time."""

    def write(self, file: int, parts: Any, offset: int) -> int:
        return super().write(file, [b"".join(parts)[:7]], offset)


def test_a_short_write_is_continued() -> None:
    files = Short(SimulatedDisk())
    opened = Opened(files)
    opened.event(b"payload" * 100)
    opened.items(3, 0, 1, bytes(range(256)) * 40)
    opened.run()
    assert set(files.written) <= set(range(1, 8))
    again = Opened(files.inner.restart())  # type: ignore[attr-defined]
    assert again.replayed[0] == (1, 1, b"payload" * 100)
    assert again.journal.read(3, 0).payload == bytes(range(256)) * 40
    assert again.reports == []


def test_a_disk_that_takes_nothing_and_gives_no_error_is_a_failure() -> None:
    files = Failing(SimulatedDisk())
    opened = Opened(files)
    files.write = lambda file, parts, offset: 0  # type: ignore[method-assign]
    opened.event(b"x")
    opened.committer.run()
    assert "took none" in str(opened.failures[0])


def test_calls_at_the_wrong_time_are_refused() -> None:
    journal = Journal.open(DIRECTORY, SMALL, SimulatedDisk())
    with pytest.raises(JournalUsageError, match="not started"):
        journal.append(1, [b"x"])
    assert list(journal.replay()) == []
    with pytest.raises(JournalUsageError, match="once"):
        next(journal.replay())
    journal.start(lambda lsn: None, lambda error: None, ManualCommitter())
    with pytest.raises(JournalUsageError, match="once"):
        journal.start(lambda lsn: None, lambda error: None, ManualCommitter())
    journal.close()
    journal.close()
    with pytest.raises(JournalUsageError, match="closed"):
        journal.append(1, [b"x"])


@pytest.mark.parametrize("kind", [-1, 0, 256])
def test_a_kind_out_of_range_is_refused_and_changes_nothing(kind: int) -> None:
    opened = Opened(SimulatedDisk())
    with pytest.raises(JournalUsageError, match="kind"):
        opened.journal.append(kind, [])
    with pytest.raises(JournalUsageError, match="kind"):
        opened.journal.append_items(kind, 1, 0, 1, [])
    assert opened.journal.next_lsn == 1
    opened.event(b"x")
    opened.run()
    assert opened.killed().replayed == [(1, 1, b"x")]


@pytest.mark.parametrize(
    ("stream", "first", "count"), [(-1, 0, 1), (2**32, 0, 1), (1, -1, 1), (1, 0, 0), (1, 2**64, 1)]
)
def test_items_out_of_range_are_refused(stream: int, first: int, count: int) -> None:
    opened = Opened(SimulatedDisk())
    with pytest.raises(JournalUsageError, match="out of range"):
        opened.items(stream, first, count, b"x")
    assert opened.journal.next_lsn == 1


def test_items_that_go_back_are_refused_over_segments_too() -> None:
    opened = Opened(SimulatedDisk())
    opened.items(1, 10, 5, bytes(3000))
    with pytest.raises(JournalUsageError, match="follow"):
        opened.items(1, 14, 1, b"x")
    opened.items(2, 0, 1, bytes(3000))
    with pytest.raises(JournalUsageError, match="follow"):
        opened.items(1, 14, 1, b"x")
    assert opened.items(1, 20, 1, b"a gap") == 3


def test_a_directory_whose_last_look_at_the_start_fails_is_said_and_let_go() -> None:
    disk = SimulatedDisk()
    Opened(disk).journal.close()
    files = FaultyFiles(disk)
    Journal.open(DIRECTORY, SMALL, files).close()
    last = max(number for number, call in enumerate(files.calls) if call.operation == "names")
    with pytest.raises(JournalFailedError):
        Journal.open(DIRECTORY, SMALL, FaultyFiles(disk, Fault(last, Kind.EIO)))
    Journal.open(DIRECTORY, SMALL, disk)


def test_nothing_is_confirmed_that_is_written_to_a_file_which_was_removed(tmp_path: Path) -> None:
    """As `rm -rf` under a running broker does: the file takes writes and syncs as if nothing had happened."""
    opened = Opened(OsFiles(), directory=tmp_path / "data")
    opened.event(b"kept")
    opened.run()
    durable = opened.journal.durable_lsn
    for path in (tmp_path / "data").iterdir():
        path.unlink()
    opened.event(b"lost")
    opened.committer.run()
    assert opened.journal.durable_lsn == durable
    (failure,) = opened.failures
    assert "was removed while a broker was at work in it" in str(failure)
    assert "nothing that was reported durable is lost" not in str(failure)


def test_a_directory_that_is_made_is_its_owners_alone_and_one_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    made, given = tmp_path / "above" / "made", tmp_path / "given"
    given.mkdir()
    given.chmod(0o750)
    for directory in (made, given):
        Opened(OsFiles(), directory=directory).journal.close()
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert stat.S_IMODE(given.stat().st_mode) == 0o750
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o027 == 0 for path in made.iterdir())
