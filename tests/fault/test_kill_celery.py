"""What Celery's workers were given survives kills of them and of their broker; and what finds losses is shown to find them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.fault.celery_books import Books
from tests.fault.kill_celery import kill_celery

SEED, WORKER_KILLS, BROKER_KILLS, EACH_LIFE = 5672, 2, 1, 20


def test_workers_and_a_broker_that_are_killed_lose_no_task(tmp_path: Path) -> None:
    books, violations = asyncio.run(kill_celery(WORKER_KILLS, BROKER_KILLS, EACH_LIFE, SEED, tmp_path))
    assert violations == []
    assert len(books.confirmed) > EACH_LIFE
    assert books.marked
    assert books.events["task-succeeded"]
    assert books.pings


def good(*more: str) -> Books:
    books = Books(confirmed={"a", "b"})
    # The first try of b is run by two workers, each of which sends the second; the first of a is run again.
    entries = (
        "begins a 0 0",
        "begins a 0 1",
        "ends a 0 1",
        "begins b 0 0",
        "begins b 0 1",
        "begins b 1 0",
        "begins b 1 0",
        "ends b 1 0",
    )
    for entry in (*entries, *more):
        books.enter(entry)
    return books


def test_what_may_be_is_no_violation() -> None:
    assert good().violations() == []


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ("begins a 0 0", "1 tasks were run again unmarked, one is a"),
        ("begins b 1 0", "1 tasks were run again unmarked, one is b"),
    ],
)
def test_a_task_that_is_run_again_unmarked_is_found(more: str, what: str) -> None:
    assert good(more).violations() == [what]


def test_a_task_that_is_lost_is_found() -> None:
    books = good()
    books.confirmed.add("c")
    assert books.violations() == ["1 tasks with late acknowledgements are lost, one is c"]


def test_a_task_that_was_revoked_and_runs_is_found() -> None:
    books = good("begins c 0 0")
    books.revoked.add("c")
    assert books.violations() == ["1 tasks were revoked and run, one is c"]
