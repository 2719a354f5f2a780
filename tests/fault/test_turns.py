"""A short form of ``python -m tests.fault.turns``: that it measures what it says, and sees a turn that is too long."""

from __future__ import annotations

import asyncio
import gc
import time

import pytest

from actors.queue.vocabulary.budgets import JUDGE_BUDGET
from tests.fault import turns
from tests.fault.turns import LIMIT, TimedSelector, Turns, report, timed


def test_every_turn_of_a_purge_is_seen_and_all_of_it_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    before = gc.get_threshold()
    turns.main(["purge", "--ranges", "1000"])
    assert gc.get_threshold() == before, "what a broker's process has is no other's"
    told = capsys.readouterr().out
    assert int(told.split()[0]) >= 2000 // turns.BATCH + 1
    assert "the longest" in told


def test_what_came_back_is_judged_by_other_settings_in_many_turns(capsys: pytest.CaptureFixture[str]) -> None:
    turns.main(["alter", "--spans", "2000"])
    told = capsys.readouterr().out
    assert "2000 spans left" in told
    assert int(told.splitlines()[1].split()[0]) >= 2 * 2000 // JUDGE_BUDGET


def test_many_queues_are_used_and_checkpoints_made_meanwhile(capsys: pytest.CaptureFixture[str]) -> None:
    turns.main(["queues", "--queues", "20", "--seconds", "0.2"])
    assert "messages in 20 queues" in capsys.readouterr().out


def test_a_turn_that_is_too_long_is_seen(capsys: pytest.CaptureFixture[str]) -> None:
    async def busy(selector: TimedSelector) -> Turns:
        await asyncio.sleep(0)
        selector.begin()
        until = time.thread_time() + 2 * LIMIT
        while time.thread_time() < until:
            pass
        await asyncio.sleep(0)
        return selector.measured()

    assert not report(timed(busy), 1.0)
    assert "1 up to 50 ms" in capsys.readouterr().out
