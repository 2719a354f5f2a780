"""Ids, calendars, levels, groups, limits that drop, retries and dead letters through deaths and losses of power at any call."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from actors.queue.state.calendar import Calendar
from actors.queue.state.log import QueueLog
from actors.queue.vocabulary.events import MessagesAdded, MessagesScheduled
from tests.fault import features
from tests.fault.features import faults
from tests.fault.features_damages import verify_store
from tests.fault.features_lives import verify_fails_for_good, verify_features_survive
from tests.fault.features_program import QUEUES
from tests.fault.history import HistoryError

SEEDS = 3
"""Of the program's own; `make soak` runs three hundred."""
DAMAGED = 0.03
"""Of the damages of two stores; `make soak` does half of those of forty."""


def test_what_was_told_of_any_feature_survives_deaths_and_losses_of_power_at_any_call() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        seen += verify_features_survive(seed, share=0.04, steps=80)
    wanted = {"purged", "moved", "failed", "deleted with a calendar", "looked at"}
    assert wanted <= seen.keys()
    assert {"write", "sync", "sync_directory", "rename", "unlink", "create"} <= seen.keys()


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", sorted(QUEUES))
def test_each_feature_alone_survives_a_death_at_every_call(name: str) -> None:
    for seed in range(4):
        verify_features_survive(seed, [name, "plain"], share=1.0)


def test_a_disk_that_fails_at_a_call_ends_the_broker_and_the_next_start_finds_what_was_told() -> None:
    failed = [verify_fails_for_good(seed, fault) for seed in range(3) for fault in faults(seed)]
    assert sum(failed) > 3


def test_a_directory_damaged_in_a_record_of_any_feature_is_repaired_and_loses_nothing_else() -> None:
    outcomes: Counter[str] = Counter()
    for seed, names in ((0, ("all", "plain", "levels")), (1, ("all in groups", "drops", "ids"))):
        came, broken = verify_store(seed, DAMAGED, names)
        assert not broken, broken[0]
        outcomes += came
    assert any("some lost" in outcome for outcome in outcomes)
    assert outcomes.total() > 10


def test_the_command_names_the_seed_that_fails_and_how_to_see_it_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(seed: int, names: list[str], share: float) -> None:
        if seed == 4:
            raise HistoryError(f"of {names}, {share:g}")

    monkeypatch.setattr(features, "verify_features_survive", broken)
    assert features.main(["--seeds", "3:6", "--kind", "all in groups"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "3 seeds, 1 broken\n"
    assert "of ['all in groups', 'plain'], 0.06" in captured.err
    assert 'again: python -m tests.fault.features --seeds 4 --share 0.06 --kind "all in groups"\n' in captured.err


def broken_within(seeds: range, names: list[str]) -> bool:
    """Whether a run finds something."""
    for seed in seeds:
        try:
            verify_features_survive(seed, names)
        except HistoryError:
            return True
    return False


def test_a_calendar_that_forgets_what_has_left_it_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a start: it counts and moves what has come into the queue already."""
    apply = QueueLog.apply

    def forgetful(log: QueueLog, event: Any, number: int = 0) -> None:
        if type(event) is MessagesScheduled and number and event.scheduled.left and event.first % 3 == 0:
            event = replace(event, scheduled=event.scheduled._replace(left=()))
        apply(log, event, number)

    monkeypatch.setattr(QueueLog, "apply", forgetful)
    assert broken_within(range(10), ["plain", "levels"])


def test_a_checkpoint_without_a_calendar_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Calendar, "rows", lambda _: [])
    assert broken_within(range(10), ["plain", "levels"])


def test_ids_that_a_start_forgets_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = QueueLog.apply

    def forgetful(log: QueueLog, event: Any, number: int = 0) -> None:
        apply(log, replace(event, ids_until_us=0) if type(event) is MessagesAdded else event, number)

    monkeypatch.setattr(QueueLog, "apply", forgetful)
    assert broken_within(range(10), ["ids", "plain"])
