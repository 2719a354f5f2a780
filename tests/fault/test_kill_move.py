"""A broker that is killed while messages are moved loses none and doubles none."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.fault.kill_move import Found, kill_moves

KILLS = 3
SEED = 4711


def test_messages_that_are_moved_through_kills_are_there_once(tmp_path: Path) -> None:
    found: Found = asyncio.run(kill_moves(KILLS, SEED, tmp_path, lambda _: None))
    assert found.violations == []
    assert found.kills == KILLS
    assert found.moved > 0
