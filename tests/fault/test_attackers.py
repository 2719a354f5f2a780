"""The short form of `tests.fault.attackers`: a few of the worst, for a few seconds, and what they cost in memory."""

from __future__ import annotations

import asyncio

from tests.fault.attackers import MIB, run

KINDS = ("unread-pings", "unread-stats", "extensions", "unread-returns")
BOUND = 100 * MIB
"""More than before; without the bounds each of the first three took several hundred in a few seconds."""


def test_attackers_cost_a_broker_process_a_bounded_memory_and_an_honest_pair_goes_on() -> None:
    outcome = asyncio.run(
        run(KINDS, each=3, seconds=2.0, queues=100, durable=False, warm_up=0.5, leaving=0.5, idle=False)
    )
    assert outcome.peak - outcome.before < BOUND
    assert set(outcome.attacks) == set(KINDS)
    assert all(did["written"] > 0 for did in outcome.attacks.values())
    assert outcome.disturbed["messages"] > 0
