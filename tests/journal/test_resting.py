"""The writer's thread between two commits: behind one it rests for as long as a lazy record may wait, and is not woken for such."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from journal import Journal, JournalFailedError, JournalOptions, ThreadCommitter
from journal.committer import AWAKE, RESTS, RESTS_SHORTLY

DELAY = 0.25


class Bell:
    """In the place of the lock that the thread sleeps on: does what it is told while the thread would sleep."""

    def __init__(self) -> None:
        self.rung = 0
        self.slept: list[tuple[int, float]] = []
        self.meanwhile: Callable[[], bool] = lambda: True
        self.committer: Committer | None = None

    def acquire(self, timeout: float = -1) -> bool:
        assert self.committer is not None
        self.slept.append((self.committer.resting, timeout))
        return self.meanwhile()

    def locked(self) -> bool:
        return True

    def release(self) -> None:
        self.rung += 1


class Committer(ThreadCommitter):
    """One whose threads are the test's own."""

    def __init__(self, bell: Bell) -> None:
        super().__init__()
        self._bell = bell  # type: ignore[assignment]  # as much of a lock as is asked for
        bell.committer = self

    def start(self, writer: object) -> None:
        self.writer = writer

    def work(self) -> None:
        """What its thread does until there is nothing to do and it has rested once."""
        slept = len(self._bell.slept)  # type: ignore[attr-defined]  # it is a Bell
        while len(self._bell.slept) == slept:  # type: ignore[attr-defined]
            self._step(self.writer)  # type: ignore[arg-type]


@pytest.fixture
def bell() -> Bell:
    return Bell()


@pytest.fixture
def committer(bell: Bell) -> Committer:
    return Committer(bell)


@pytest.fixture
def journal(tmp_path: Path, committer: Committer) -> Iterator[Journal]:
    failures: list[JournalFailedError] = []
    opened = Journal.open(tmp_path, JournalOptions(lazy_delay=DELAY))
    opened.start(lambda lsn: None, failures.append, committer)
    yield opened
    assert not failures
    opened.abandon()


def test_behind_a_commit_it_rests_as_long_as_a_lazy_record_may_wait_and_then_until_it_is_woken(
    journal: Journal, committer: Committer, bell: Bell
) -> None:
    journal.append(1, [b"urgent"])
    bell.meanwhile = lambda: False
    committer.work()
    assert journal.durable_lsn == journal.next_lsn
    committer.work()
    assert bell.slept == [(RESTS_SHORTLY, DELAY), (RESTS, -1)]
    assert committer.resting == AWAKE


def test_a_lazy_record_that_comes_behind_a_commit_wakes_nobody_and_is_written_when_that_rest_is_over(
    journal: Journal, committer: Committer, bell: Bell, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(committer.writer, "_clock", lambda: now[0])
    journal.append(1, [b"urgent"])
    rung = bell.rung

    def lazy() -> bool:
        journal.append(1, [b"lazy"], lazy=True)
        now[0] += DELAY
        return False

    bell.meanwhile = lazy
    committer.work()
    assert journal.durable_lsn == journal.next_lsn - 1
    bell.meanwhile = lambda: True
    committer.work()
    assert journal.durable_lsn == journal.next_lsn
    assert bell.rung == rung


def test_what_is_not_lazy_wakes_it_from_either_rest(journal: Journal, committer: Committer, bell: Bell) -> None:
    def urgent() -> bool:
        rung = bell.rung
        journal.append(1, [b"urgent"])
        assert bell.rung == rung + 1
        return True

    bell.meanwhile = urgent
    committer.work()
    committer.work()
    assert [resting for resting, _ in bell.slept] == [RESTS, RESTS_SHORTLY]


def test_a_lazy_record_wakes_who_rests_until_woken(journal: Journal, committer: Committer, bell: Bell) -> None:
    def lazy() -> bool:
        journal.append(1, [b"lazy"], lazy=True)
        return True

    bell.meanwhile = lazy
    committer.work()
    assert (bell.slept, bell.rung) == ([(RESTS, -1)], 1)
