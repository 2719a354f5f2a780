"""A broker that is killed while senders publish to exchanges has, in each queue, what was routed to it, and its dead letters."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.fault.exchange_judge import EXPIRED, REJECTED
from tests.fault.exchange_ledger import State
from tests.fault.kill_exchanges import Found, kill_exchanges, summary

KILLS = 2
SEED = 4711


def test_what_is_published_through_kills_is_in_each_queue_that_it_goes_to(tmp_path: Path) -> None:
    found: Found = asyncio.run(kill_exchanges(KILLS, SEED, tmp_path, lambda _: None))
    assert [*found.verdict.examples, *found.left] == []
    assert found.clean
    assert found.kills == KILLS
    assert found.confirmed > 0
    assert found.figures.transactions[State.COMMITTED] > 0, summary(found)
    assert min(found.figures.letters[EXPIRED], found.figures.letters[REJECTED], found.figures.gone) > 0, summary(found)
