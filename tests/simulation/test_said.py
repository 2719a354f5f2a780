"""Groups, and ids that a queue looks at, under seeded faults keep their promises; and a broker that breaks one of these is found out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from actors.queue.operations.deduplicating import tell_numbers
from actors.queue.state.accepted_ids import AcceptedIds
from actors.queue.state.deduplication import deduplicate
from actors.queue.state.grouped_ready import GroupedReady
from actors.queue.state.groups import Groups
from tests.simulation.history import Confirmed, Crashed, Delivered, Event, Extended, Returned, TakeAnswered, Taken
from tests.simulation.judged import BEYOND, DUPLICATED, GROUP_SHARED, LOST, REORDERED, STUCK
from tests.simulation.plan import FaultPlan, Plan, draw
from tests.simulation.programs import TakerPlan
from tests.simulation.runner import run_plan
from tests.simulation.said import Says, group_of, id_of
from tests.simulation.said_plan import GROUPS_CHANCE, IDS_CHANCE

SEEDS = range(3)
MORE_SEEDS = [*SEEDS, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 20))]
MUTANT_SEEDS = (9, 11, 1, 5, 0, 2, 3, 4, 6, 7, 8, 10)
"""A defect need not show in every run, but must in one of these; the short ones come first."""
DRAWN = range(400)
QUEUE = "queue-0"
GROUPS = Says(groups=4, free=0.3)
IDS = Says(again=0.5, shared=0.5, nameless=0.1)
BUSY = TakerPlan(
    QUEUE,
    callers=4,
    largest_take=5,
    wait=2.0,
    leaves=0.1,
    unseen=0.1,
    late=0.3,
    forgotten=0.05,
    returned=0.2,
    extended=0.1,
    twice=0.1,
    pause=0.05,
    alters=None,
)
DYING = {"kill broker": 1.0, "power off broker": 1.0, "stop broker": 1.0, "kill client": 1.0, "cut": 1.0}


def saying(seed: int, says: Says, durable: bool, window: float = 1.0) -> Plan:
    """A seed's plan whose first queue has groups and looks at ids, as its messages say them, and whose broker dies if ``durable``."""
    plan = draw(seed, durable, frozenset({"transactions", "dead letters"}))
    (first, *others) = plan.queues
    settings, rules = first.settings, first.rules
    if says.groups:
        settings, rules = replace(settings, groups=True), replace(rules, groups=True)
    if says.again is not None:
        settings = replace(settings, deduplication_window=window, max_deduplication_ids=1_000)
        rules = replace(rules, window=window, most_ids=1_000)
    producers = tuple(replace(each, says=says) if each.queue == QUEUE else each for each in plan.producers)
    writers = tuple(replace(each, says=((QUEUE, says),) if QUEUE in each.queues else ()) for each in plan.writers)
    return replace(
        plan,
        queues=(replace(first, settings=settings, rules=rules), *others),
        producers=producers,
        writers=writers,
        takers=(BUSY,),
        faults=FaultPlan(1.0, DYING if durable else {"kill client": 1.0, "cut": 1.0}, 8.0),
    )


@cache
def events_of(seed: int, says: Says) -> tuple[Event, ...]:
    outcome = run_plan(saying(seed, says, durable=True))
    assert [str(finding) for finding in outcome.findings] == []
    return outcome.events


@pytest.mark.parametrize("seed", MORE_SEEDS)
def test_every_promise_of_groups_is_kept(seed: int) -> None:
    assert events_of(seed, GROUPS)


@pytest.mark.parametrize("seed", MORE_SEEDS)
def test_every_promise_of_ids_is_kept(seed: int) -> None:
    assert events_of(seed, IDS)


def test_the_runs_have_in_them_whatever_may_become_of_a_group() -> None:
    events = [event for seed in SEEDS for event in events_of(seed, GROUPS)]
    assert {event.how for event in events if isinstance(event, Crashed)} == {"killed", "power", "stopped"}
    assert any(isinstance(event, Returned) for event in events)
    assert any(isinstance(event, Extended) for event in events)
    assert any(isinstance(event, TakeAnswered) and not event.count for event in events)
    given = [event for event in events if isinstance(event, Delivered | Taken) and event.queue == QUEUE]
    assert {type(event) for event in given} == {Delivered, Taken}
    assert {group_of(message) for event in given for message in event.messages} == {None, "g0", "g1", "g2", "g3"}
    assert any(event.delivery_count > 2 for event in given)


def test_the_runs_have_in_them_ids_that_come_again_within_their_window_and_behind_it() -> None:
    within = behind = 0
    for seed in SEEDS:
        events = events_of(seed, IDS)
        confirmed = {name for event in events if isinstance(event, Confirmed) for name in event.messages}
        given = {name for event in events if isinstance(event, Delivered | Taken) for name in event.messages}
        within += sum(id_of(name) is not None for name in confirmed - given)
        stored = Counter(id_of(name) for name in given if name.partition("~")[2].startswith(QUEUE))
        behind += sum(count > 1 for count in stored.values())
    assert within > 50
    assert behind > 10


def test_a_fair_share_of_the_queues_that_are_drawn_has_groups_or_looks_at_ids() -> None:
    drawn = [queue for seed in DRAWN for queue in draw(seed, durable=True).queues if queue.name in NAMES]
    grouped = sum(queue.settings.groups for queue in drawn) / len(drawn)
    identified = sum(queue.settings.deduplication_window is not None for queue in drawn) / len(drawn)
    assert 0.1 < grouped < GROUPS_CHANCE
    assert 0.1 < identified < IDS_CHANCE


NAMES = ("queue-0", "queue-1", "queue-2")


def found(kind: str, plans: Iterator[Plan], text: str) -> bool:
    """Whether a run has a finding of this kind that says this."""
    return any(each.kind == kind and text in each.text for plan in plans for each in run_plan(plan).findings)


def in_memory(says: Says) -> Iterator[Plan]:
    return (saying(seed, says, durable=False) for seed in MUTANT_SEEDS)


def dying(how: str, interval: float, first: int) -> Iterator[Plan]:
    """Plans with ids whose commits take long, and whose broker dies often; one that is known to show what is looked for comes first."""
    faults = FaultPlan(interval, {how: 1.0}, 12.0)
    plans = (saying(seed, IDS, durable=True, window=20.0) for seed in (first, *MUTANT_SEEDS))
    return (replace(plan, commit_delay=0.2, faults=faults) for plan in plans)


def test_a_group_that_two_receivers_have_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Groups, "blocks", lambda *_: None)
    assert found(GROUP_SHARED, in_memory(GROUPS), "of its group")


def test_two_requests_of_one_taker_that_share_a_group_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = GroupedReady.turn

    def the_takers(ready: GroupedReady, holder: Any, most: int) -> None:
        turn(ready, getattr(holder, "receiver", holder), most)

    monkeypatch.setattr(GroupedReady, "turn", the_takers)
    assert found(GROUP_SHARED, in_memory(GROUPS), "of its group")


def test_a_group_that_goes_on_while_what_came_back_waits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Groups, "delay", lambda *_: None)
    monkeypatch.setattr(Groups, "undelay", lambda *_: None)
    assert found(REORDERED, in_memory(GROUPS), "of its group, and was there before")


def test_a_group_that_holds_up_all_others_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupedReady, "is_full", property(lambda ready: ready.passed_over > 0))
    assert found(STUCK, in_memory(GROUPS), "got nothing")


def test_duplicates_that_are_stored_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AcceptedIds, "__contains__", lambda *_: False)
    assert found(DUPLICATED, in_memory(IDS), "with the id")


def test_ids_that_are_forgotten_before_their_window_is_over_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AcceptedIds, "until_us", property(lambda ids: ids._now_us + ids.window_us * 2 // 3))
    assert found(DUPLICATED, in_memory(IDS), "with the id")


def test_ids_that_are_remembered_for_too_long_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AcceptedIds, "until_us", property(lambda ids: ids._now_us + ids.window_us * 2))
    assert found(LOST, in_memory(IDS), "never delivered")


def test_ids_that_a_crash_forgets_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgotten(heaps: Any, log: Any, *others: Any) -> Any:
        log.accepted = None
        return deduplicate(heaps, log, *others)

    monkeypatch.setattr("actors.queue.state.core.deduplicate", forgotten)
    assert found(DUPLICATED, dying("kill broker", 1.0, first=MUTANT_SEEDS[0]), "with the id")


def test_duplicates_that_are_confirmed_before_the_first_is_durable_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(core: Any, item: Any, runs: Any, number: int) -> int:
        stored = tell_numbers(core, item, runs, number)
        core.effects[-1] = core.effects[-1]._replace(after=0)
        return stored

    monkeypatch.setattr("actors.queue.operations.sending.tell_numbers", at_once)
    assert found(LOST, dying("power off broker", 0.3, first=8), "never delivered")


def test_a_queue_that_lets_in_more_ids_than_it_may_remember_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def small(seed: int) -> Plan:
        plan = saying(seed, replace(IDS, again=0.0), durable=False)
        settings = replace(plan.queues[0].settings, max_deduplication_ids=8, deduplication_window=2.0)
        rules = replace(plan.queues[0].rules, most_ids=8, window=2.0)
        return replace(
            plan, queues=(replace(plan.queues[0], settings=settings, rules=rules), *plan.queues[1:]), writers=()
        )

    assert not [str(each) for seed in SEEDS for each in run_plan(small(seed)).findings]
    monkeypatch.setattr(AcceptedIds, "room", property(lambda _: 1_000_000))
    assert any(each.kind == BEYOND for seed in MUTANT_SEEDS for each in run_plan(small(seed)).findings)
