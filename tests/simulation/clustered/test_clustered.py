"""A cluster of real nodes under seeded faults keeps every promise of a broker; defects are found.

The range here is small and fixed; ``python -m tests.simulation --cluster --seeds A:B`` runs any other.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from actors.queue.queue_directory import QueueDirectory
from actors.replication.holding import Lagging
from tests.simulation.clustered.aims import AIMS, EIGHT, LAG, SIDES
from tests.simulation.clustered.defects import first_found, with_faults
from tests.simulation.clustered.plan import draw_aimed, draw_clustered
from tests.simulation.clustered.runner import run_cluster, run_cluster_plan
from transport.node import holding

SEEDS = range(6)
MUTANT_SEEDS = range(60)
"""A defect need not show in every run, but must in one of these; the one that is known to show it comes first."""
DAMAGED = {"damage_last_write": 3.0, "kill_node": 1.0, "mode": "majority"}
WIPING = {"cut_off_node": 4.0, "lose_disk": 2.0, "kill_node": 2.0}


def test_every_promise_is_kept_by_a_cluster() -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        outcome = run_cluster_plan(draw_clustered(seed), seen)
        again = f"python -m tests.simulation --cluster --seeds {seed} --verbose"
        assert not outcome.findings, "\n".join([again, *map(str, outcome.findings)])
    assert seen["opened"] > len(SEEDS), "a run begins with one leader, and some go on with others"


def test_every_promise_is_kept_while_senders_are_held_back_for_who_lags(monkeypatch: pytest.MonkeyPatch) -> None:
    held: Counter[bool] = Counter()
    hold = QueueDirectory.hold_senders

    def counted(queues: QueueDirectory, holds: bool) -> None:
        held[holds] += 1
        hold(queues, holds)

    # A few hundred kilobytes are no lag: so each follower is taken to lag, as long as it is to be waited for.
    monkeypatch.setattr(QueueDirectory, "hold_senders", counted)
    monkeypatch.setattr(holding, "lagging", lambda leader, *_: [Lagging(peer, 1 << 30) for peer in leader.peers])
    for seed in SEEDS:
        outcome = run_cluster_plan(draw_clustered(seed))
        assert not outcome.findings, "\n".join([f"seed {seed}", *map(str, outcome.findings)])
    assert held[True] > len(SEEDS)
    assert held[False] >= held[True] - len(SEEDS)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", range(1000, 2000, 100))
def test_every_promise_is_kept_by_a_thousand_clusters(first: int) -> None:
    found = {seed: outcome.findings[0] for seed in range(first, first + 100) if (outcome := run_cluster(seed)).findings}
    assert not found


def test_a_disk_that_is_lost_is_replaced_by_a_transfer() -> None:
    seen: Counter[str] = Counter()
    for seed in (8, *MUTANT_SEEDS):
        assert not run_cluster_plan(with_faults(seed, lose_disk=1.0), seen).findings
        if seen["installed"]:
            return
    raise AssertionError("no run has had one")


@pytest.mark.parametrize(
    ("name", "known", "faults"),
    [
        ("own sync is enough", 1, {"kill_node": 2.0, "cut_off_node": 2.0}),
        ("truncation left out", 2, {"kill_node": 3.0, "cut_off_node": 2.0}),
        ("follower answers before its sync", 0, {"power_off_all": 4.0, "kill_two": 2.0, "commit_delay": 0.2}),
        ("a node in doubt votes", 0, DAMAGED),
        pytest.param("checkpoint of uncommitted", 0, {"kill_node": 2.0, "cut_off_node": 2.0}, marks=pytest.mark.soak),
        pytest.param("wiped node as itself", 29, WIPING, marks=pytest.mark.soak),
        pytest.param("own seal is enough", 7, {"split": 2.0, "kill_node": 2.0, "one_way": 2.0}, marks=pytest.mark.soak),
    ],
)
def test_a_defect_is_found_in_a_run_that_is_good_without_it(name: str, known: int, faults: dict[str, Any]) -> None:
    found = first_found(name, (with_faults(seed, **faults) for seed in (known, *MUTANT_SEEDS)))
    assert found is not None
    assert not run_cluster_plan(with_faults(found.plan.seed, **faults)).findings


@pytest.mark.parametrize(
    ("name", "known", "aim"),
    [
        ("old-epoch record counted as committed", 0, EIGHT),
        ("seal not durable", 1, SIDES),
        ("lost swap answer taken for refused", 1, LAG),
        pytest.param("old epoch accepted", 4, SIDES, marks=pytest.mark.soak),
    ],
)
def test_a_defect_for_which_much_has_to_meet_is_found_in_a_run_that_aims_at_it(name: str, known: int, aim: str) -> None:
    found = first_found(name, (draw_aimed(seed, aim) for seed in (known, *MUTANT_SEEDS)))
    assert found is not None
    assert not run_cluster_plan(draw_aimed(found.plan.seed, aim)).findings


def test_some_seeds_aim_at_something_and_most_do_not() -> None:
    aims = Counter(draw_clustered(seed).aim for seed in range(500))
    assert all(aims[aim] >= 5 for aim in AIMS)
    assert aims[None] > 400
