"""Levels, limits that drop, failures that count and the calendar are drawn often enough, and a broker that breaks one is found out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from actors.queue.operations import calendar, dropping
from actors.queue.state.leveled_ready import LeveledReady
from actors.queue.state.retries import Retries
from actors.queue.structures.spans import SpanMap
from actors.queue.vocabulary.events import MessagesAcknowledged
from actors.queue.vocabulary.settings import QueueSettings
from tests.simulation.checker import BEYOND, COUNTED, DUPLICATED, EARLY, LOST, STUCK, Finding
from tests.simulation.history import Crashed, Delivered, DroppedInAll, Event, Leapt
from tests.simulation.judged import DROPPED, PASSED
from tests.simulation.plan import FEATURES, draw
from tests.simulation.programs import FaultPlan, Plan, QueuePlan
from tests.simulation.runner import run_plan
from tests.simulation.task_plan import MAX_LATER, TASK_FEATURES
from tests.simulation.task_rules import LEAST_ROOM

SEEDS = range(250)
MOST_RUNS = 12
"""In which a defect must show."""
SHOW_MOST = {"levels": (44, 39), "drops": (41, 0), "retries": (32, 8), "calendar": (32,)}
"""Seeds whose runs are short and show defects of these; they come first."""

HAS: dict[str, Callable[[Plan, QueuePlan], bool]] = {
    "levels": lambda _plan, queue: queue.settings.max_priority is not None and not queue.rules.fed_by,
    "drops": lambda _plan, queue: queue.settings.overflow in ("drop-head", "reject-dead-letter"),
    "retries": lambda _plan, queue: queue.settings.retry_delay > 0,
    "calendar": lambda plan, queue: any(each.later for each in plan.producers if each.queue == queue.name),
}


def has(plan: Plan, feature: str) -> bool:
    return any(HAS[feature](plan, queue) for queue in plan.queues)


def with_feature(feature: str, *, durable: bool = False, faults: FaultPlan | None = None) -> Iterator[Plan]:
    """Plans of which at least a queue has it, and none has anything else."""
    first = SHOW_MOST[feature]
    plans = (
        draw(seed, durable, frozenset({feature})) for seed in (*first, *(each for each in SEEDS if each not in first))
    )
    found = islice((plan for plan in plans if has(plan, feature)), MOST_RUNS)
    return (plan if faults is None else replace(plan, faults=faults) for plan in found)


def first_found(kind: str, plans: Iterator[Plan]) -> Finding | None:
    return next((finding for plan in plans for finding in run_plan(plan).findings if finding.kind == kind), None)


RESTARTS = FaultPlan(interval=0.7, weights={"kill broker": 1.0, "stop broker": 1.0}, until=15.0)


@pytest.mark.parametrize("feature", sorted(TASK_FEATURES))
def test_each_is_drawn_in_a_fair_share_of_queues_and_by_itself(feature: str) -> None:
    plans = [draw(seed, durable=True) for seed in SEEDS]
    own = [(plan, queue) for plan in plans for queue in plan.queues if queue.name in {p.queue for p in plan.producers}]
    share = sum(HAS[feature](plan, queue) for plan, queue in own) / len(own)
    assert 0.1 < share < 0.2
    without = [draw(seed, durable=True, features=FEATURES - {feature}) for seed in SEEDS]
    assert not any(has(plan, feature) for plan in without)
    assert [plan.heartbeat for plan in without] == [plan.heartbeat for plan in plans]


def test_a_seed_without_them_is_what_it_was_before_there_were_any() -> None:
    for seed in SEEDS:
        plan, before = draw(seed, durable=True), draw(seed, durable=True, features=FEATURES - TASK_FEATURES)
        if not any(has(plan, feature) for feature in TASK_FEATURES):
            assert plan == before


def test_no_more_is_sent_with_a_delay_than_twice_what_somebody_may_leave_its_queue_room_for() -> None:
    altered = 0
    for plan in (draw(seed, durable=True) for seed in SEEDS):
        least = {queue.name: queue.settings.max_messages or MAX_LATER for queue in plan.queues}
        least |= {taker.queue: LEAST_ROOM for taker in plan.takers if taker.alters is not None}
        waiting = [producer for producer in plan.producers if producer.later]
        assert all(each.total <= 2 * least[each.queue] for each in waiting)
        altered += sum(least[each.queue] == LEAST_ROOM for each in waiting)
    assert altered > 10


def test_the_runs_have_drops_leaps_and_failures_in_them() -> None:
    def few(plans: Iterator[Plan], count: int = 3) -> list[Event]:
        return [event for plan in islice(plans, count) for event in run_plan(plan).events]

    found = [*few(with_feature("drops")), *few(with_feature("retries"))]
    assert any(isinstance(event, DroppedInAll) and event.total for event in found)
    delivered = [event for event in found if isinstance(event, Delivered)]
    assert {reason for event in delivered for reason, _ in event.deaths} == {"maxlen", "max-receives"}
    assert max(event.failures for event in delivered) > 1
    late = few(with_feature("calendar", durable=True))
    assert max(event.seconds for event in late if isinstance(event, Leapt)) > 86_400
    assert any(isinstance(event, Crashed) for event in late)


def test_priorities_that_are_ignored_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QueueSettings, "level_of", lambda *_: 0)
    assert first_found(PASSED, with_feature("levels"))


def test_the_lowest_level_first_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    level = LeveledReady._level

    def upside_down(ready: LeveledReady, number: int) -> Any:
        found = level(ready, number)
        ready._order.sort(key=lambda each: each.number)
        return found

    monkeypatch.setattr(LeveledReady, "_level", upside_down)
    assert first_found(PASSED, with_feature("levels"))


def test_what_is_returned_and_goes_behind_its_level_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    first = LeveledReady._first_of

    def fresh_first(ready: LeveledReady, level: Any, minimum: int) -> Any:
        returned, level.returned = level.returned, SpanMap()
        try:
            return first(ready, level, minimum) if level.fresh else None
        finally:
            level.returned = returned

    def behind(ready: LeveledReady, level: Any, minimum: int) -> Any:
        found = fresh_first(ready, level, minimum)
        return first(ready, level, minimum) if found is None else found

    monkeypatch.setattr(LeveledReady, "_first_of", behind)
    assert first_found(PASSED, with_feature("levels"))


def test_what_is_dropped_too_soon_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    over = dropping._over

    def by_half(core: Any, messages: int = 0, size: int = 0) -> tuple[int, int]:
        most = core.settings.max_messages
        return over(core, messages + (0 if most is None else most // 2), size)

    monkeypatch.setattr(dropping, "_over", by_half)
    assert first_found(DROPPED, with_feature("drops"))


def test_what_is_dropped_and_not_counted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.queue.operations.sending.in_record", lambda *_: dropping.NOTHING)
    monkeypatch.setattr(dropping, "MessagesDropped", MessagesAcknowledged)
    assert first_found(DROPPED, with_feature("drops"))


def test_dropped_messages_that_do_not_become_dead_letters_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(core: Any, messages: int, _size: int, _now: float) -> None:
        ranges = [(start, min(stop, start + max(messages, 0))) for start, stop in core.ready.in_order()][:1]
        dropping.let_go(core, dropping.Dropped(tuple(ranges)))
        core.commit(dropping.MessagesDropped(tuple(ranges)))

    monkeypatch.setattr(dropping, "_leave", lose)
    assert first_found(LOST, with_feature("drops"))


def test_what_has_failed_and_comes_at_once_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.queue.operations.failing.retry_delay", lambda *_: 0.0)
    assert first_found(EARLY, with_feature("retries"))


def test_a_wait_that_does_not_grow_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.queue.state.retries.RETRY_FACTOR", 1)
    assert first_found(EARLY, with_feature("retries"))


def test_a_wait_that_a_restart_forgets_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Retries, "note", lambda *_: None)
    assert first_found(EARLY, with_feature("retries", durable=True, faults=RESTARTS))


def test_failures_that_are_not_counted_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.queue.operations.failing._failed_again", lambda failures: failures)
    assert first_found(COUNTED, with_feature("retries"))


def test_messages_that_have_failed_too_often_and_are_given_again_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QueueSettings, "worn_out", lambda *_: False)
    assert first_found(BEYOND, with_feature("retries"))


def test_what_comes_out_of_the_calendar_before_its_time_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    at = calendar.scheduled_at
    monkeypatch.setattr(calendar, "scheduled_at", lambda core, added, delay_us: at(core, added, delay_us - 1_000_000))
    assert first_found(EARLY, with_feature("calendar", durable=True))


def test_what_never_comes_out_of_the_calendar_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_core: Any, feeder: Any, _calendar: Any, now: float) -> bool:
        feeder.at = now + 10.0
        return False

    monkeypatch.setattr(calendar, "_open", never)
    assert first_found(STUCK, with_feature("calendar", durable=True))


def test_what_comes_out_of_the_calendar_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    move = calendar._move_in

    def twice(*arguments: Any) -> None:
        move(*arguments)
        move(*arguments)

    monkeypatch.setattr(calendar, "_move_in", twice)
    assert first_found(DUPLICATED, with_feature("calendar", durable=True))


def test_a_calendar_that_a_crash_forgets_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.queue.queue_output.CommitGate.passes", lambda *_: True)
    faults = FaultPlan(interval=1.0, weights={"power off broker": 1.0}, until=15.0)
    plans = (replace(plan, commit_delay=0.2) for plan in with_feature("calendar", durable=True, faults=faults))
    assert first_found(LOST, plans)
