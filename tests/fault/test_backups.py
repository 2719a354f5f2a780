"""A loaded broker that is backed up: a few times of what `make soak` does fifty times, with a client and a broker killed meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.fault import backups

BACKUPS = 3
SEED = 14
KEPT, BETWEEN = 6_000, 2_000
"""Messages before and between; the program has more than twice as many."""


def quiet(_text: str) -> None:
    """Takes lines of progress."""


def test_each_backup_of_a_loaded_broker_has_what_was_confirmed_before_it_also_beside_some_that_are_killed(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(backups, "KILL_EVERY", BACKUPS - 1)
    monkeypatch.setattr(backups, "KEPT_MESSAGES", KEPT)
    monkeypatch.setattr(backups, "BETWEEN", BETWEEN)
    figures = asyncio.run(backups.back_up_under_load(BACKUPS, SEED, tmp_path, quiet))
    assert len(figures.seconds) == BACKUPS
    assert figures.killed == 2
    assert min(figures.wanted) >= backups.KEPT_MESSAGES
