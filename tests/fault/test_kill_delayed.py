"""What waits comes once, and not before its time, through kills of a real broker; and what finds others is shown to find them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.fault.kill_delayed import BEHIND, Found, kill_delayed

FEW, SOME = 2, 300
"""Kills, and messages; the program has more of both."""
LEFT, RIGHT = BEHIND


def test_through_kills_each_message_comes_once_and_not_before_its_time(tmp_path: Path) -> None:
    found = asyncio.run(kill_delayed(FEW, SOME, 1812, tmp_path))
    assert found.violations() == []
    assert found.kills == FEW
    assert all(len(came) == len(found.published) for came in found.came.values())


def seen(left: dict[int, tuple[int, float]]) -> Found:
    """Two messages with waits of a second, both of which have come to one of the queues as they should."""
    return Found({1: (10.0, 1000), 2: (10.0, 1000)}, {LEFT: left, RIGHT: {7: (1, 11.0), 8: (2, 12.0)}})


@pytest.mark.parametrize(
    ("left", "what"),
    [
        ({0: (1, 11.0)}, "lacks 1 messages, such as 2"),
        ({0: (1, 11.0), 1: (2, 11.0), 2: (1, 11.5)}, "has 1 messages twice, such as 1"),
        ({0: (1, 11.0), 1: (2, 10.9)}, "had 2 after 0.900 s, and it was to wait 1000 ms"),
    ],
)
def test_what_must_not_be_is_found(left: dict[int, tuple[int, float]], what: str) -> None:
    assert seen({0: (1, 11.0), 1: (2, 11.0)}).violations() == []
    (violation,) = seen(left).violations()
    assert violation == f"{LEFT} {what}"
