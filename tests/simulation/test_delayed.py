"""What waits at an exchange comes once, when it is due, to what is bound then, whatever fails; a broker that breaks that is found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from actors.exchanges.delayed import is_waiting_queue
from actors.queue.distribution import Distributor
from actors.queue.letters_out import NOWHERE
from actors.queue.waited_out import WaitedOut
from actors.queue.waiting_queues import look_for_waiting
from tests.simulation.delayed_plan import DELAYED_CHANCE, LATER, wait_in
from tests.simulation.exchange_checker import ASTRAY, HALF
from tests.simulation.exchange_plan import ALWAYS, Bound
from tests.simulation.history import Crashed, Delivered, Event, Published
from tests.simulation.judged import DUPLICATED, EARLY, LOST, STUCK
from tests.simulation.plan import FaultPlan, Plan, draw_exchanges_alone
from tests.simulation.runner import run_plan

DRAWN = range(60)
SEEDS = (6, 15, 26)
MORE_SEEDS = [*SEEDS, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(60, 100))]
FAULTS = {"kill broker": 1.0, "power off broker": 1.0, "stop broker": 1.0}


def plans(durable: bool = True, **weights: float) -> Iterator[Plan]:
    """Plans that have an exchange at which messages wait, and programs that bind and unbind queues there."""
    drawn = (draw_exchanges_alone(seed, durable) for seed in DRAWN)
    for plan in drawn:
        exchanges = plan.exchanges
        if exchanges is None or not exchanges.delayed or not exchanges.definers:
            continue
        yield replace(plan, faults=FaultPlan(1.0, weights, 10.0), commit_delay=0.02)


def found(runs: Iterable[Plan], *kinds: str) -> bool:
    """Whether a run has a finding of one of these kinds about what has waited."""
    return any(finding.kind in kinds and LATER in finding.text for plan in runs for finding in run_plan(plan).findings)


@cache
def events_of(seed: int) -> tuple[Event, ...]:
    outcome = run_plan(draw_exchanges_alone(seed))
    assert [str(finding) for finding in outcome.findings] == []
    return outcome.events


def waits(events: Iterable[Event]) -> dict[str, float]:
    """When each message that waits was due, as far as its publisher knows."""
    published = (event for event in events if isinstance(event, Published))
    return {
        name: event.time + wait_in(event.exchange, dict(headers))
        for event in published
        for name, headers in zip(event.messages, event.headers, strict=True)
        if wait_in(event.exchange, dict(headers))
    }


@pytest.mark.parametrize("seed", MORE_SEEDS)
def test_what_waits_comes_once_when_it_is_due_to_what_is_bound_then(seed: int) -> None:
    assert events_of(seed)


def test_half_of_the_runs_with_exchanges_have_one_at_which_messages_wait() -> None:
    drawn = [draw_exchanges_alone(seed).exchanges for seed in range(200)]
    share = sum(each is not None and each.delayed for each in drawn) / len(drawn)
    assert abs(share - DELAYED_CHANCE) < 0.1


def test_the_runs_have_waits_in_them_that_a_death_of_the_broker_falls_into() -> None:
    across = set[str]()
    for seed in SEEDS:
        events = events_of(seed)
        due, deaths = waits(events), [event for event in events if isinstance(event, Crashed)]
        given = {name for event in events if isinstance(event, Delivered) for name in event.messages}
        published = {name: event.time for event in events if isinstance(event, Published) for name in event.messages}
        across |= {
            each.how for name in given & due.keys() for each in deaths if published[name] < each.time < due[name]
        }
    assert across >= {"killed", "power"}


def test_messages_that_come_before_their_time_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.queue.exchange_delays.MS_PER_SECOND", 2_000)
    # What is due is looked at once more as it goes.
    monkeypatch.setattr("actors.queue.operations.passing_on._dues", lambda _core, _entry, batch: [0.0] * len(batch))
    assert found(plans(durable=False), EARLY)


def test_waits_that_a_start_forgets_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def emptied(storage: Any, *others: Any) -> None:
        for each in list(storage.queues):
            if is_waiting_queue(each.name):
                storage.delete(each.number)
        look_for_waiting(storage, *others)

    monkeypatch.setattr("actors.queue.found_queues.look_for_waiting", emptied)
    assert found(map(everywhere, plans(**FAULTS)), LOST)


def test_messages_that_stay_where_they_waited_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    move = Distributor.move_dead_letters

    def copied(of: Any, source: Any, ranges: Any, names: Any, batch: Any, *others: Any) -> int:
        event = move(of, source, ranges, names, batch, *others)
        return event if not is_waiting_queue(source.name) else move(of, source, ranges, names, batch, *others)

    monkeypatch.setattr(Distributor, "move_dead_letters", copied)
    assert found(plans(durable=False), DUPLICATED)


def test_messages_that_go_to_what_was_bound_some_time_before_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    route = WaitedOut._route
    before: dict[Any, Any] = {}

    def first(of: Any, routes: Any, letter: Any, keys: Any, *others: Any) -> Any:
        return before.setdefault((id(routes), keys), route(of, routes, letter, keys, *others))

    monkeypatch.setattr(WaitedOut, "_route", first)
    assert found(map(changing_first, plans(durable=False)), ASTRAY, LOST)


def test_messages_of_which_one_queue_gets_nothing_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    route = WaitedOut._route

    def less(of: Any, *others: Any) -> Any:
        names = route(of, *others)
        return names[1:] or NOWHERE if len(names) > 1 and names[0] in ALWAYS else names

    monkeypatch.setattr(WaitedOut, "_route", less)
    assert found((everywhere(plan) for plan in plans(durable=False)), LOST, HALF)


def everywhere(plan: Plan) -> Plan:
    """The same, with two queues more bound to it for good."""
    assert plan.exchanges is not None
    keys = ("#", "") if plan.exchanges.known[LATER].kind == "topic" else ("eu.tea", "")
    bound = tuple(Bound(LATER, queue, False, keys[0]) for queue in ALWAYS[:2])
    exchanges = replace(plan.exchanges, bindings=tuple(dict.fromkeys((*plan.exchanges.bindings, *bound))))
    return replace(plan, exchanges=exchanges)


def changing_first(plan: Plan) -> Plan:
    """The same, with bindings that change for two seconds, and messages that are due before and behind that."""
    exchanges = plan.exchanges
    assert exchanges is not None
    publishers = tuple(
        replace(each, waits=(20, 4_000), delay=None) if each.waits else each for each in exchanges.publishers
    )
    definers = tuple(replace(each, pause=0.1) for each in exchanges.definers)
    faults = FaultPlan(0.5, {"cut": 1.0}, 2.0)
    return replace(plan, exchanges=replace(exchanges, publishers=publishers, definers=definers), faults=faults)


def test_messages_that_wait_for_ever_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WaitedOut, "step", lambda *_: None)
    runs = (replace(plan, faults=FaultPlan(1.0, {}, 1.0)) for plan in plans(durable=False))
    assert found(runs, STUCK)
