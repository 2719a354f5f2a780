"""Each time of a schedule is there exactly once through kills of a real broker; and what finds others is shown to find them."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tests.fault.kill_schedules import BEHIND, QUEUE, Found, kill_schedules

FEW = 2
"""Kills; the program has twenty, and more when it is asked."""


def test_through_kills_each_time_is_there_exactly_once(tmp_path: Path) -> None:
    found = asyncio.run(kill_schedules(FEW, 10, 1811, tmp_path))
    assert found.violations() == []
    assert found.kills == FEW
    # How many there are by then depends on how fast a broker starts; which there have to be is looked at above.
    assert all(counter.total() > 0 for counter in found.times.values())


def seen(*times: int, left: tuple[int, ...] = (1, 2, 3), right: tuple[int, ...] = (1, 2, 3)) -> Found:
    """What there would be of a schedule in each of the queues."""
    pairs = {QUEUE: times, BEHIND[0]: left, BEHIND[1]: right}
    counted = {queue: Counter(("s", at) for at in some) for queue, some in pairs.items()}
    return Found({"s": (1, 2)}, 3, counted)


def test_what_comes_behind_the_last_time_is_no_violation() -> None:
    assert seen(2, 3, 4, left=(1, 2, 3, 4)).violations() == []


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (seen(1, 2, 2, 3), "has ('s', 2) 2 times"),
        (seen(1, 3), "lacks 1 of s, the first is 2"),
        (seen(1, 2), "lacks 1 of s, the first is 3"),
        (seen(3), "it was due between 1 and 2"),
        (seen(0, 1, 2, 3), "it was due between 1 and 2"),
        (seen(1, 2, 3, left=(2, 3)), "1 are in one queue of two"),
    ],
)
def test_what_must_not_be_is_found(found: Found, what: str) -> None:
    assert any(what in violation for violation in found.violations())
