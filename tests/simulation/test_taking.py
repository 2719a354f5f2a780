"""Takes under seeded faults keep their promises, and the runs have all in them that takes come to; broken takes are found out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from actors.queue.operations import taking
from actors.queue.operations.dispatch import dispatch
from actors.queue.queue_state import _OPERATIONS
from actors.queue.state.receivers import Take
from actors.queue.vocabulary.takes import GiveBackUnseen
from tests.simulation.history import Crashed, Deleted, Event, Noted, ReceiptTold, Seen, TakeAnswered, Taken, Unseen
from tests.simulation.judged import BEYOND, COUNTED, OLD_RECEIPT, RESURRECTED, Finding
from tests.simulation.plan import FaultPlan, Plan, TakerPlan, draw
from tests.simulation.runner import run_plan
from transport.gateways.http.receipts import Receipts

SEEDS = range(4)
MORE_SEEDS = [*SEEDS, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(4, 20))]
MUTANT_SEEDS = range(12)
"""A defect need not show in every run, but must in one of these."""
BUSY = TakerPlan(
    "queue-0",
    callers=4,
    largest_take=10,
    wait=2.0,
    leaves=0.3,
    unseen=0.2,
    late=0.3,
    forgotten=0.05,
    returned=0.15,
    extended=0.1,
    twice=0.3,
    pause=0.05,
    alters=1.0,
)


def with_takes(seed: int, *, durable: bool) -> Plan:
    """A seed's plan whose first queue has callers with every habit, and whose broker is killed again and again if ``durable``."""
    plan = draw(seed, durable=durable)
    kinds = ("kill broker", "power off broker", "stop broker") if durable else ("wall clock",)
    faults = FaultPlan(interval=1.0, weights=dict.fromkeys(kinds, 1.0), until=8.0)
    takers = (BUSY, *(each for each in plan.takers if each.queue != BUSY.queue))
    # What is altered is looser to the checker: `draw` has it so for its own takers alone.
    queues = tuple(
        replace(each, rules=replace(each.rules, visibility=0.5, longest=10.0)) if each.name == BUSY.queue else each
        for each in plan.queues
    )
    return replace(plan, takers=takers, queues=queues, faults=faults, deletes=0.5)


def taken_only(plan: Plan) -> Plan:
    """The same with nobody beside the callers at their queue."""
    consumers = tuple(each for each in plan.consumers if each.queue != BUSY.queue)
    queues = tuple(
        replace(each, rules=replace(each.rules, taken_only=True)) if each.name == BUSY.queue else each
        for each in plan.queues
    )
    return replace(plan, consumers=consumers, queues=queues)


@cache
def outcome_of(seed: int) -> tuple[tuple[Finding, ...], tuple[Event, ...], str]:
    plan = with_takes(seed, durable=True)
    outcome = run_plan(plan if seed % 2 else taken_only(plan))
    return outcome.findings, outcome.events, outcome.digest


@pytest.mark.parametrize("seed", MORE_SEEDS)
def test_every_promise_is_kept_to_those_who_take(seed: int) -> None:
    assert [str(finding) for finding in outcome_of(seed)[0]] == []


def test_the_same_seed_is_the_same_history_of_takes() -> None:
    assert run_plan(taken_only(with_takes(0, durable=True))).digest == outcome_of(0)[2]


def test_the_runs_have_in_them_whatever_may_become_of_a_take() -> None:
    events = [event for seed in SEEDS for event in outcome_of(seed)[1]]
    assert {event.how for event in events if isinstance(event, Crashed)} == {"killed", "power", "stopped"}
    assert sum(event.messages for event in events if isinstance(event, Seen)) > 200
    assert any(event.count == 0 for event in events if isinstance(event, TakeAnswered))
    assert any(isinstance(event, Unseen) for event in events)
    assert any(isinstance(event, Deleted) for event in events)
    assert any(isinstance(event, Taken) and event.delivery_count > 2 for event in events)
    assert any(isinstance(event, Noted) and "is altered" in event.text for event in events)
    told = {(event.how, event.code) for event in events if isinstance(event, ReceiptTold)}
    assert {how for how, code in told if code is None} == {"acknowledge", "return", "extend"}
    codes = {code for _, code in told}
    assert codes == {None, "receipt-gone", "receipt-expired", "stale-receipt", "foreign-receipt"}


def first_found(kind: str, *, durable: bool) -> Finding | None:
    """The first finding of a kind, in whichever run has one."""
    plans: Iterator[Plan] = (taken_only(with_takes(seed, durable=durable)) for seed in MUTANT_SEEDS)
    return next((finding for plan in plans for finding in run_plan(plan).findings if finding.kind == kind), None)


def test_receipts_that_settle_another_delivery_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    held = taking._held

    def any_delivery(core: Any, receiver: Any, taken: Any) -> Any:
        spans = ((number, receiver.held.first_from(number)) for number, _ in taken)
        return held(core, receiver, [(number, span.deliveries if span else 1) for number, span in spans])

    monkeypatch.setattr(taking, "_held", any_delivery)
    assert first_found(OLD_RECEIPT, durable=False)


def test_receipts_of_an_earlier_life_that_are_taken_for_todays_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Receipts.__init__
    monkeypatch.setattr(Receipts, "__init__", lambda receipts, key, _epoch: made(receipts, key, 1))
    assert first_found(OLD_RECEIPT, durable=True)


def test_deliveries_that_nobody_saw_and_that_count_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(core: Any, command: Any, now: float) -> None:
        receiver, _ = taking._taker(core, command.connection)
        for span in taking._held(core, receiver, command.taken)[0]:
            core.put_back(span, None)
        taking.tell_if_idle(core, receiver)
        dispatch(core, now)

    monkeypatch.setitem(_OPERATIONS, GiveBackUnseen, counted)
    assert first_found(COUNTED, durable=False)


def test_takes_that_are_given_more_than_they_asked_for_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def generous(receiver: Any, request: int, messages: int, size: int, visibility: float) -> Take:
        return Take(receiver, request, messages + 1, size, visibility)

    monkeypatch.setattr(taking, "Take", generous)
    assert first_found(BEYOND, durable=False)


def test_acknowledgements_that_are_answered_before_they_are_durable_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(_directory: object) -> None:
        """Nothing is waited for."""

    monkeypatch.setattr("actors.queue.queue_directory.QueueDirectory.acknowledged", at_once)
    assert first_found(RESURRECTED, durable=True)
