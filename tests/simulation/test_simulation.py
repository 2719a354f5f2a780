"""Broker and clients under seeded faults keep every promise; the same seed is the same history; and a broken broker is found out.

The range here is small and fixed; ``python -m tests.simulation --seeds A:B`` runs any other.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

import pytest

from actors.queue.queue_state import _OPERATIONS
from actors.queue.state.core import QueueCore
from actors.queue.state.ready import ReadyRanges
from actors.queue.vocabulary.commands import Acknowledged, EndStages
from actors.queue.vocabulary.moves import Parcel
from actors.queue.vocabulary.replies import ReceivedMessages
from actors.storage import codec
from actors.storage.codec import decode_transaction
from actors.storage.durable_map import EntryPut
from tests.simulation import runner
from tests.simulation.__main__ import main
from tests.simulation.checker import DUPLICATED, LOST, REORDERED, RESURRECTED, STUCK, UNCOMMITTED, Finding
from tests.simulation.history import (
    CommitAnswered,
    CommitAsked,
    Crashed,
    Delivered,
    Event,
    Moved,
    Noted,
    Put,
    Remembered,
    Returned,
)
from tests.simulation.map_checker import MIXED
from tests.simulation.plan import FEATURES, FaultPlan, Plan, draw
from tests.simulation.runner import Outcome, run, run_plan
from tests.simulation.task_plan import TASK_FEATURES
from transport.broker.receiving_ports import ReceivingPort

SEEDS = range(3, 12)
MORE_SEEDS = [*SEEDS, 359, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (0, 1, 2, 12, 13))]
SEEDS_IN_MEMORY = [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 6))]
SAME_SEEDS = (8, 9, 11, 359)
MUTANT_SEEDS = range(12)
CRASHING_SEEDS = (*range(8, 12), *range(8))
TRANSACTION_SEEDS = range(40)
"""A defect need not show in every run, but must in one of these; where those that show it are known they come first."""
OVERTAKEN_SEED = 26
"""One in which a crash falls between a commit and its answer."""


@cache
def outcome_of(seed: int) -> Outcome:
    return run(seed)


def first_found(kind: str, plans: Iterator[Plan]) -> Finding | None:
    """The first finding of a kind, in whichever run has one."""
    return next((finding for plan in plans for finding in run_plan(plan).findings if finding.kind == kind), None)


def in_memory() -> Iterator[Plan]:
    return (draw(seed, durable=False) for seed in MUTANT_SEEDS)


def with_power_failures() -> Iterator[Plan]:
    """Plans whose commits take long, and whose broker often loses power before one."""
    faults = FaultPlan(interval=1.0, weights={"power off broker": 1.0}, until=20.0)
    return (replace(draw(seed, durable=True), commit_delay=0.2, faults=faults) for seed in CRASHING_SEEDS)


@pytest.mark.parametrize("seed", MORE_SEEDS)
def test_every_promise_is_kept(seed: int) -> None:
    outcome = outcome_of(seed)
    again = f"python -m tests.simulation --seeds {seed} --verbose"
    assert not outcome.findings, "\n".join([again, *map(str, outcome.findings)])


@pytest.mark.parametrize("seed", SEEDS_IN_MEMORY)
def test_every_promise_is_kept_without_a_disk(seed: int) -> None:
    assert [str(finding) for finding in run(seed, durable=False).findings] == []


@pytest.mark.parametrize("seed", SAME_SEEDS)
def test_the_same_seed_is_the_same_history_whenever_garbage_is_collected(seed: int) -> None:
    first, thresholds = outcome_of(seed).digest, gc.get_threshold()
    gc.set_threshold(100)
    try:
        assert run(seed).digest == first
    finally:
        gc.set_threshold(*thresholds)


def test_another_seed_is_another_history() -> None:
    assert len({outcome_of(seed).digest for seed in SAME_SEEDS}) == len(SAME_SEEDS)


def test_the_same_seed_is_the_same_history_in_a_process_whose_hashes_are_others() -> None:
    program = f"from tests.simulation.runner import run\nprint(*(run(seed).digest for seed in {SAME_SEEDS}))"
    environment = os.environ | {"PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}
    told = subprocess.run(
        (sys.executable, "-c", program), env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    assert told.stdout.split() == [outcome_of(seed).digest for seed in SAME_SEEDS]


def test_garbage_is_not_collected_while_a_run_lasts_for_what_is_dropped_may_do_something() -> None:
    generations: list[int] = []

    def told(phase: str, about: dict[str, int]) -> None:
        if phase == "start":
            generations.append(about["generation"])

    gc.callbacks.append(told)
    try:
        run(SAME_SEEDS[0])
    finally:
        gc.callbacks.remove(told)
    assert generations[0] == 0, "the first is the one at its end"
    assert gc.isenabled()


def test_the_runs_have_crashes_redeliveries_and_messages_given_back_in_them() -> None:
    events = [event for seed in SEEDS for event in outcome_of(seed).events]
    assert {event.how for event in events if isinstance(event, Crashed)} == {"killed", "power", "stopped"}
    assert any(isinstance(event, Returned) for event in events)
    assert any(isinstance(event, Delivered) and event.possibly_replayed for event in events)


def test_redeliveries_that_are_not_marked_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    tell = ReceivingPort.tell

    def unmarked(port: ReceivingPort, reply: Any) -> None:
        marked = isinstance(reply, ReceivedMessages)
        tell(port, reply._replace(delivery_count=1, possibly_replayed=False) if marked else reply)

    monkeypatch.setattr(ReceivingPort, "tell", unmarked)
    assert first_found(DUPLICATED, in_memory())


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue that never gets empty goes round until the run's patience ends: a tenth of it is enough for a good one."""
    for deadline in ("PRODUCE_DEADLINE", "DRAIN_DEADLINE"):
        monkeypatch.setattr(runner, deadline, getattr(runner, deadline) / 10)


def test_acknowledgements_that_are_ignored_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    plan = draw(MUTANT_SEEDS[0], durable=False)
    assert run_plan(plan).findings == ()
    monkeypatch.setitem(_OPERATIONS, Acknowledged, lambda *_: None)
    assert {finding.kind for finding in run_plan(plan).findings} >= {RESURRECTED, STUCK}


def test_confirmations_before_the_sync_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.queue.queue_output.CommitGate.passes", lambda *_: True)
    assert first_found(LOST, with_power_failures())


def with_little_demand() -> Iterator[Plan]:
    """Plans in which single messages wait for receivers of three, whose requests come while the disk is at work."""
    faults = FaultPlan(interval=1.0, weights={"wall clock": 1.0}, until=6.0)
    for seed in MUTANT_SEEDS:
        plan = draw(seed, durable=True, features=frozenset({"exclusive"}))
        producers = (replace(each, total=240, largest_batch=1, pause=0.01) for each in plan.producers)
        consumers = (replace(each, max_in_flight=3, late=0.0, stays=60.0) for each in plan.consumers)
        yield replace(
            plan,
            producers=tuple(producers),
            consumers=tuple(consumers),
            commit_delay=0.2,
            faults=faults,
            rush=0.2,
            pause=0.3,
        )


def test_deliveries_that_overtake_what_the_gate_holds_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue hears of a commit a while after it: what is durable by then must not pass what is held."""
    monkeypatch.setattr(
        "actors.queue.queue_output.CommitGate.passes", lambda gate, after: after <= gate._storage.durable
    )
    assert first_found(REORDERED, with_little_demand())


def with_transactions(crashes: bool = False, known: Iterable[int] = ()) -> Iterator[Plan]:
    """Plans in which programs write in transactions, with a broker that is killed again and again if ``crashes``."""
    faults = FaultPlan(interval=0.5, weights={"kill broker": 1.0} if crashes else {}, until=10.0)
    plans = (replace(draw(seed, durable=crashes), faults=faults) for seed in (*known, *TRANSACTION_SEEDS))
    return (plan for plan in plans if plan.writers)


def test_staged_messages_that_are_delivered_at_once_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReadyRanges, "add_staged", ReadyRanges.add)
    assert first_found(UNCOMMITTED, with_transactions())


def test_commits_that_miss_a_queue_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_OPERATIONS, EndStages, lambda *_: None)
    assert first_found(LOST, with_transactions())


def test_commits_that_are_forgotten_by_a_crash_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "actors.storage.codec.decode_transaction", lambda payload: (*decode_transaction(payload)[:2], {})
    )
    assert first_found(LOST, with_transactions(crashes=True))


def with_moves(durable: bool) -> Iterator[Plan]:
    """Plans in which programs move messages all the time, with a broker that is killed again and again if ``durable``."""
    faults = FaultPlan(interval=0.5, weights={"kill broker" if durable else "cut": 1.0}, until=5.0)
    # Of queues that keep what they have, so that there is something to move, and too much for where it goes.
    features = FEATURES - TASK_FEATURES - {"groups", "ids", "delayed exchanges"}
    plans = (draw(seed, durable, features) for seed in TRANSACTION_SEEDS)
    often = (replace(plan, movers=tuple(replace(each, pause=0.02) for each in plan.movers)) for plan in plans)
    return (replace(plan, faults=faults) for plan in often if plan.movers)


def test_moved_messages_that_also_stay_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def stay(core: QueueCore, parcel: Parcel) -> int:
        core.put_back(core.parcels.pop(parcel), None)
        return parcel.stored or 0

    monkeypatch.setattr("actors.queue.operations.moving.settle", stay)
    assert first_found(DUPLICATED, with_moves(durable=False))


def test_moves_of_which_a_crash_forgets_one_half_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = codec.decode_stored
    monkeypatch.setattr("actors.storage.codec.decode_stored", lambda *record: (decode(*record)[0], None))
    assert first_found(DUPLICATED, with_moves(durable=True))


def test_the_runs_have_moves_in_them_and_targets_that_are_full() -> None:
    events = [event for plan in islice(with_moves(durable=True), 3) for event in run_plan(plan).events]
    assert sum(event.count for event in events if isinstance(event, Moved)) > 50
    assert any("queue-full" in event.text for event in events if isinstance(event, Noted))


def with_a_gateway() -> Iterator[Plan]:
    """Plans with a gateway that remembers things, whose broker is killed, and loses power, again and again."""
    faults = FaultPlan(interval=0.5, weights={"kill broker": 1.0, "power off broker": 1.0}, until=10.0)
    drawn = (draw(seed, durable=True) for seed in CRASHING_SEEDS)
    return (replace(plan, commit_delay=0.2, faults=faults, remembers=0.05) for plan in drawn)


def test_a_map_whose_changes_are_confirmed_before_the_sync_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(*_: object) -> None:
        """Nothing is waited for."""

    monkeypatch.setattr("actors.storage.Storage.synced", at_once)
    assert first_found(LOST, with_a_gateway())


def test_a_map_that_forgets_removals_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = codec.decode_put

    def kept(payload: memoryview) -> EntryPut:
        event = decode(payload)
        return event if event.value is not None else event._replace(value=b"still here")

    monkeypatch.setattr("actors.storage.codec.decode_put", kept)
    assert first_found(MIXED, with_a_gateway())


def test_the_runs_have_changes_of_the_map_in_them_that_a_crash_has_overtaken_and_that_are_found_again() -> None:
    overtaken = 0
    for plan in islice(with_a_gateway(), 4):
        events = run_plan(plan).events
        left = max(event.changes for event in events if isinstance(event, Remembered))
        assert left > 50
        overtaken += sum(isinstance(event, Put) for event in events) - left
    assert overtaken > 0


def commits_overtaken(events: Iterable[Event]) -> int:
    """Commits that were asked for and not answered when a broker died."""
    under_way: set[tuple[str, int]] = set()
    overtaken = 0
    for event in events:
        if isinstance(event, CommitAsked):
            under_way.add((event.writer, event.version))
        elif isinstance(event, CommitAnswered):
            under_way.discard((event.writer, event.version))
        elif isinstance(event, Crashed):
            overtaken += len(under_way)
            under_way.clear()
    return overtaken


def test_the_runs_have_transactions_in_them_and_crashes_between_a_commit_and_its_answer() -> None:
    events = [event for seed in SEEDS for event in outcome_of(seed).events]
    assert sum(isinstance(event, CommitAnswered) for event in events) > 20
    plans = with_transactions(crashes=True, known=[OVERTAKEN_SEED])
    assert any(commits_overtaken(run_plan(plan).events) for plan in plans)


def test_the_command_prints_the_failing_seed_and_how_to_run_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hurry(monkeypatch)
    assert main(["--seeds", "0", "--memory"]) == 0
    monkeypatch.setitem(_OPERATIONS, Acknowledged, lambda *_: None)
    assert main(["--seeds", "0:1", "--memory"]) == 1
    printed = capsys.readouterr().out
    assert "seed 0 fails: python -m tests.simulation --seeds 0 --memory --verbose" in printed
    assert "1 seeds, 1 failed" in printed
