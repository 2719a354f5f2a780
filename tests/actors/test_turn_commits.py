"""A node's loop commits what came in a turn when that is over, and tells of it once, whoever has committed it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from actors.storage.node_news import NodeHooks, NodeNews
from actors.storage.turn_commits import TurnCommits
from journal.alone import TURN_SYNC


class Journal:
    """Of the journal what `TurnCommits` and `NodeNews` use; ``alone`` is itself."""

    on_appended: Any

    def __init__(self, *, holds: bool = True) -> None:
        self.alone = self
        self.durable_lsn = self.appended = 1
        self.holds = holds
        self.committing = False
        self.turns = self.ends = 0
        self.reaches: Callable[[], int] = lambda: self.appended
        self.committed: Callable[[int], None] = lambda _lsn: None

    def start(self, durable: Callable[[int], None], *_: object) -> None:
        self.committed = durable

    def commit(self) -> None:
        """What the writer's thread does, all of it in a place where the loop has its turn."""
        self.durable_lsn = self.appended
        self.committed(self.durable_lsn)

    def begin_turn(self) -> bool:
        self.turns += 1
        self.committing = self.holds
        return self.holds

    def begin(self, batches: int, slowest: float) -> bool:
        """Of who leads; a disk of the test's was never slow."""
        assert slowest == TURN_SYNC
        return self.holds and batches == 1

    def end(self) -> None:
        self.ends += 1
        if (reached := self.reaches()) > self.durable_lsn:
            self.durable_lsn = reached
            self.committed(reached)
        self.committing = False


def run(journal: Journal, body: Callable[[TurnCommits], None]) -> int:
    """How often it was told that something is durable, some turns behind ``body``."""

    async def main() -> int:
        told: list[int] = []
        hooks = NodeHooks(lambda: None, lambda: told.append(journal.durable_lsn), lambda _: None)
        news = NodeNews(asyncio.get_running_loop(), hooks, lambda: None)
        news.start_journal(cast(Any, journal), None, lambda _: None)
        body(TurnCommits(cast(Any, journal), news))
        for _ in range(3):
            await asyncio.sleep(0)
        return len(told)

    return asyncio.run(main())


def append(journal: Journal, commits: TurnCommits, count: int = 3) -> None:
    for _ in range(count):
        commits.begin()
        journal.appended += 1


def test_all_that_comes_in_a_turn_is_committed_together_when_it_is_over() -> None:
    journal = Journal()
    assert run(journal, lambda commits: append(journal, commits)) == 1
    assert (journal.turns, journal.ends, journal.durable_lsn) == (1, 1, journal.appended)


def test_what_the_writers_thread_has_committed_meanwhile_is_told_too_for_that_has_told_nobody() -> None:
    journal = Journal()

    def body(commits: TurnCommits) -> None:
        append(journal, commits)
        journal.commit()

    assert run(journal, body) == 1


def test_what_the_writers_thread_has_committed_before_the_turn_and_did_not_tell_for_it_was_at_it_is_told() -> None:
    journal = Journal()
    journal.reaches = lambda: 1

    def body(commits: TurnCommits) -> None:
        journal.appended = journal.durable_lsn = 5
        append(journal, commits)
        journal.committed(5)  # it comes to tell when the turn has begun

    assert run(journal, body) == 1
    assert journal.durable_lsn == 5


def test_where_the_thread_is_still_at_work_it_tells_itself() -> None:
    journal = Journal()
    journal.reaches = lambda: 1
    assert run(journal, lambda commits: append(journal, commits)) == 0
    assert journal.ends == 1


@pytest.mark.parametrize("count", [1, 3])
def test_what_is_not_held_is_left_to_the_thread(count: int) -> None:
    journal = Journal(holds=False)
    assert run(journal, lambda commits: append(journal, commits, count)) == 0
    assert (journal.turns, journal.ends) == (count, 0)


def test_a_journal_that_is_closed_in_the_turn_holds_nothing_any_more_and_nobody_is_told() -> None:
    journal = Journal()

    def body(commits: TurnCommits) -> None:
        append(journal, commits)
        commits.stop()
        commits.stop()

    assert run(journal, body) == 0
    assert journal.ends == 1


def test_what_comes_alone_to_a_leader_is_committed_when_it_is_shipped() -> None:
    journal = Journal()
    ends: list[int] = []

    def body(commits: TurnCommits) -> None:
        assert commits.begin_alone(1)
        journal.appended += 1
        asyncio.get_running_loop().call_soon(
            lambda: ends.append(journal.ends)
        )  # it is shipped, as the append has asked for
        commits.end_alone()

    assert run(journal, body) == 1
    assert ends == [0]
    assert (journal.ends, journal.durable_lsn) == (1, journal.appended)


def test_what_comes_to_a_leader_behind_that_in_the_same_turn_goes_along() -> None:
    journal = Journal()

    def body(commits: TurnCommits) -> None:
        assert commits.begin_alone(1)
        commits.end_alone()
        assert not commits.begin_alone(2)
        assert commits.begin_alone(1)
        commits.end_alone()
        journal.appended += 3

    assert run(journal, body) == 1
    assert (journal.ends, journal.durable_lsn) == (1, journal.appended)


def test_a_leader_that_ends_in_the_turn_holds_nothing_any_more_and_nobody_is_told() -> None:
    journal = Journal()

    def body(commits: TurnCommits) -> None:
        assert commits.begin_alone(1)
        commits.end_alone()
        commits.stop()

    assert run(journal, body) == 0
    assert journal.ends == 1
