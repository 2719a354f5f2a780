"""What waits for the journal, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.commit_gate import CommitGate
from actors.later_reply import LaterReply
from actors.loop_future import LoopFuture
from actors.storage import Storage


class Durability:
    """The part of a storage that a gate looks at, moved by the test."""

    def __init__(self) -> None:
        self.durable = 0
        self.waiters: list[Callable[[], None]] = []

    def when_durable(self, waiter: Callable[[], None]) -> None:
        self.waiters.append(waiter)


def gate_over(durability: Durability) -> CommitGate:
    return CommitGate(cast("Storage", durability), lambda: None)


def test_without_a_journal_everything_passes() -> None:
    gate = CommitGate(None, lambda: None)
    assert gate.passes(0)
    assert gate.passes(7)
    assert gate.released() == []


def test_what_depends_on_nothing_or_on_what_is_durable_passes() -> None:
    durability = Durability()
    gate = gate_over(durability)
    durability.durable = 5
    assert [gate.passes(number) for number in (0, 4, 5, 6)] == [True, True, True, False]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=30), st.lists(st.integers(0, 12), min_size=1, max_size=10))
def test_everything_held_is_released_in_order_and_never_before_its_event_is_durable(
    events: list[int], steps: list[int]
) -> None:
    durability = Durability()
    gate = gate_over(durability)
    for place, after in enumerate(events):
        gate.hold(after, "connection", place)
    told: list[int] = []
    for step in [*steps, 30]:
        durability.durable += step
        for after, _, place in gate.released():
            assert after <= durability.durable
            told.append(place)
        assert durability.waiters or not len(gate), "whoever holds something is woken"
    assert told == list(range(len(events)))
    assert len(gate) == 0


def test_it_asks_to_be_woken_once_for_all_that_it_holds() -> None:
    durability = Durability()
    gate = gate_over(durability)
    gate.hold(1, "a", 1)
    gate.hold(2, "a", 2)
    assert len(durability.waiters) == 1
    durability.durable = 1
    assert [message for _, _, message in gate.released()] == [1]
    assert len(durability.waiters) == 2, "and again while something is left"


def test_clearing_tells_whoever_asked_why_and_drops_the_rest() -> None:
    gate = gate_over(Durability())
    reply: LaterReply = LaterReply()
    future: LoopFuture[Any] = LoopFuture()
    reply.answer_to(future)
    gate.hold(1, reply, "value")
    gate.hold(1, "connection", "message")
    gate.clear(RuntimeError("the queue stopped"))
    with pytest.raises(RuntimeError, match="the queue stopped"):
        future.get()
    assert gate.released() == []
