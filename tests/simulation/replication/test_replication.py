"""The replication core holds in every run, each defect put in on purpose is found, and a run comes from its seed alone."""

from __future__ import annotations

import pytest

from tests.simulation.replication.defects import DEFECTS, OF_DAMAGE, RARE
from tests.simulation.replication.plan import draw
from tests.simulation.replication.runner import run

SEEDS = 200
"""More run with ``python -m tests.simulation.replication``; these take some seconds."""

FOUND_BY = {
    "own sync is enough": 3,
    "follower answers before its sync": 5,
    "seal not durable": 1571,
    "old epoch accepted": 4,
    "old-epoch record counted as committed": 1093,
    "truncation left out": 0,
    "checkpoint of uncommitted": 5,
    "wiped node as itself": 18,
    "lost swap answer taken for refused": 346,
    "transfer without pin": 2,
    "closed with an lsn": 2,
    "one majority while members change": 5,
    "own log in place of the greatest": 26,
    "own seal is enough": 19,
    "log adopted while it is cut": 88,
    "transfer dropped while it is installed": 33,
}
"""A seed that finds each defect; all are among the first 2,000."""
DAMAGE_FOUND_BY = {
    "a node in doubt votes": 27,
    "doubt forgotten by a crash": 27,
    "doubt ends before all is there": 34,
}
"""Likewise, of runs in which the last write on a disk may be damaged."""


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_nothing_confirmed_is_lost_and_everything_heals(first: int) -> None:
    for seed in range(first, first + 20):
        outcome = run(seed)
        assert outcome.findings == [], f"python -m tests.simulation.replication --seeds {seed} --verbose"
        assert outcome.confirmed > 0


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_disks_that_are_full_for_a_while_lose_nothing_and_everybody_catches_up(first: int) -> None:
    for seed in range(first, first + 20):
        outcome = run(seed, full=True)
        assert outcome.findings == [], seed
        assert any(fault.kind == "full" for fault in outcome.plan.faults)
        assert outcome.confirmed > 0


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_the_last_write_on_one_disk_may_be_damaged_and_nothing_confirmed_is_lost(first: int) -> None:
    for seed in range(first, first + 20):
        outcome = run(seed, damaged=True)
        assert outcome.findings == [], f"python -m tests.simulation.replication --damaged --seeds {seed} --verbose"
        assert any(fault.kind == "damage" for fault in outcome.plan.faults)
        assert outcome.confirmed > 0


@pytest.mark.parametrize("defect", list(OF_DAMAGE))
def test_what_is_not_done_about_damage_is_found(defect: str) -> None:
    assert run(DAMAGE_FOUND_BY[defect], None, OF_DAMAGE[defect], damaged=True).findings
    assert run(DAMAGE_FOUND_BY[defect], damaged=True).findings == []


def test_a_leader_that_ends_between_committing_and_opening_hides_no_loss() -> None:
    assert run(1935).findings == []


@pytest.mark.parametrize("defect", list(DEFECTS))
def test_a_defect_is_found(defect: str) -> None:
    assert run(FOUND_BY[defect], None, DEFECTS[defect]).findings


@pytest.mark.parametrize("defect", list(DEFECTS))
def test_the_run_that_finds_a_defect_is_clean_without_it(defect: str) -> None:
    assert run(FOUND_BY[defect]).findings == []


def test_a_rare_defect_is_found_in_the_seed_that_is_known_to_show_it() -> None:
    seed = 10553
    assert run(seed, None, RARE["overtaken while it waited for the register"]).findings
    assert run(seed).findings == []


def test_a_run_comes_from_its_seed_alone() -> None:
    first, second = run(3, verbose=True), run(3, verbose=True)
    assert first.events == second.events
    assert len(first.events) > 100


def test_the_plans_have_all_modes_sizes_and_kinds_of_faults() -> None:
    plans = [draw(seed) for seed in range(200)]
    assert {plan.mode for plan in plans} == {"async", "one", "majority", "all"}
    assert {len(plan.members) for plan in plans} == {3, 5}
    kinds = {fault.kind for plan in plans for fault in plan.faults}
    assert kinds >= {
        "crash",
        "power",
        "step",
        "partition",
        "pause",
        "clock",
        "register",
        "wipe",
        "restore",
        "stop",
        "join",
    }
