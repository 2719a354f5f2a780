"""What is published to exchanges comes to each queue that it must come to, whatever fails; and a broker that breaks that is found out.

``python -m tests.simulation --exchanges --seeds A:B`` runs any other seeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from actors.exchanges.exchanges import Exchanges
from actors.queue.exchange_publishing import ExchangePublishing
from actors.storage.together import decode_together
from tests.simulation.__main__ import main
from tests.simulation.checker import LOST
from tests.simulation.delayed_plan import LATER
from tests.simulation.exchange_checker import ASTRAY, DEFINITION, HALF
from tests.simulation.exchange_plan import ALWAYS, BRIEFLY, DEFAULT
from tests.simulation.history import CameBack, CommandHeard, Crashed, Delivered, Published
from tests.simulation.plan import FaultPlan, Plan, draw_exchanges_alone
from tests.simulation.runner import Outcome, run_plan

SEEDS = range(8)
MORE_SEEDS = [*SEEDS, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(8, 30))]
MUTANT_SEEDS = (41, 10, 15, 8, *range(8), 9, *range(11, 15), *range(16, 41), *range(42, 64))
"""A defect need not show in every run, but must in one of these; those that show it are known, and come first."""


@cache
def outcome_of(seed: int) -> Outcome:
    return run_plan(draw_exchanges_alone(seed))


def found(plans: Iterable[Plan], *kinds: str) -> bool:
    """Whether a run has a finding of one of these kinds."""
    return any(finding.kind in kinds for plan in plans for finding in run_plan(plan).findings)


def dying(how: str, first: int) -> Iterator[Plan]:
    """Plans whose commits take long, and whose broker dies often; one that is known to show what is looked for comes first."""
    faults = FaultPlan(interval=1.0, weights={how: 1.0}, until=12.0)
    plans = (replace(draw_exchanges_alone(seed), commit_delay=0.2, faults=faults) for seed in (first, *MUTANT_SEEDS))
    return (plan for plan in plans if plan.exchanges is not None and plan.exchanges.definers)


@pytest.mark.parametrize("seed", MORE_SEEDS)
def test_what_is_published_comes_where_it_must(seed: int) -> None:
    again = f"python -m tests.simulation --seeds {seed} --exchanges --verbose"
    assert not outcome_of(seed).findings, "\n".join([again, *map(str, outcome_of(seed).findings)])


def test_so_it_does_without_a_disk() -> None:
    assert main(["--exchanges", "--memory", "--seeds", "0:2"]) == 0


def test_the_runs_have_every_exchange_change_and_death_in_them() -> None:
    events = [event for seed in SEEDS for event in outcome_of(seed).events]
    assert {event.exchange for event in events if isinstance(event, Published)} == {
        *("direct", "fanout", "topic", "headers"),
        DEFAULT,
        LATER,
    }
    assert {event.queue for event in events if isinstance(event, Delivered)} >= {*ALWAYS, BRIEFLY[0]}
    assert {event.name for event in events if isinstance(event, CommandHeard)} == {
        f"{what}.{how}" for what in ("exchange", "binding", "queue") for how in ("create", "delete")
    }
    assert {event.how for event in events if isinstance(event, Crashed)} == {"killed", "power", "stopped"}
    assert any(isinstance(event, CameBack) for event in events)


def test_queues_that_do_not_catch_up_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for where in ("queue_state", "operations.sending"):
        monkeypatch.setattr(f"actors.queue.{where}.catch_up", lambda *_: None)
    quiet = FaultPlan(interval=1.0, weights={}, until=2.0)
    plans = (replace(draw_exchanges_alone(seed, durable=False), faults=quiet) for seed in (1, *MUTANT_SEEDS))
    assert found(plans, LOST)


def test_definitions_that_are_answered_before_they_are_durable_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(_: Any) -> None:
        """Nothing is waited for."""

    monkeypatch.setattr("actors.queue.queue_directory.QueueDirectory.durable", at_once)
    assert found(dying("power off broker", first=10), DEFINITION)


def test_messages_that_are_confirmed_before_they_are_durable_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    confirm = ExchangePublishing._confirm

    def at_once(publishing: ExchangePublishing) -> None:
        storage, publishing._storage = publishing._storage, None
        confirm(publishing)
        publishing._storage = storage

    monkeypatch.setattr(ExchangePublishing, "_confirm", at_once)
    assert found(dying("power off broker", first=15), LOST)


def test_a_record_of_which_a_start_forgets_a_queue_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_the_last(payload: memoryview) -> Any:
        found = decode_together(payload)
        return found._replace(events=dict(list(found.events.items())[:-1]))

    monkeypatch.setattr("actors.storage.contents.decode_together", without_the_last)
    assert found(dying("kill broker", first=8), HALF)


def test_messages_that_go_where_no_binding_leads_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Exchanges, "route", lambda of, exchange, *_, **__: of.reached(exchange).queues)
    plans = (draw_exchanges_alone(seed, durable=False) for seed in MUTANT_SEEDS)
    # What waits would come back to where it waits, for ever.
    assert found((plan for plan in plans if plan.exchanges is None or not plan.exchanges.delayed), ASTRAY)
