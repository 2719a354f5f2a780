"""Each delayed message comes once and at its time through kills of a real broker; and what finds others is shown to find them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.fault.kill_delays import Found, kill_delays

FEW = 3
"""Kills; the program has twenty, and more when it is asked."""


def test_through_kills_each_delayed_message_comes_once_and_not_before_its_time(tmp_path: Path) -> None:
    found = asyncio.run(kill_delays(FEW, 300, 1811, tmp_path))
    assert found.violations() == []
    assert (found.kills, found.confirmed, len(found.came)) == (FEW, 300, 300)


@pytest.mark.parametrize(
    ("came", "what"),
    [
        ({}, "1 never came"),
        ({1: [(4.9, False)]}, "1 came 0.1"),
        ({1: [(5.1, False), (5.2, False)]}, "1 came twice"),
        ({1: [(5.1, True), (4.0, True)]}, "before its time"),
    ],
)
def test_what_must_not_be_is_found(came: dict[int, list[tuple[float, bool]]], what: str) -> None:
    assert any(what in violation for violation in Found({1: 5.0}, came).violations())


def test_what_may_have_come_before_is_no_violation() -> None:
    assert Found({1: 5.0}, {1: [(5.1, False), (5.2, True)]}).violations() == []
