"""``LimitDemand``: a receiver's demand becomes what a limit leaves beside what it holds, against a model that counts."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actors.errors import InvalidRequestError, UnknownAcknowledgementError
from actors.queue.vocabulary.prefetch import AcknowledgedForMore, LimitDemand
from actors.queue.vocabulary.replies import DemandLimited, Tell
from tests.actors.driven import QueueState
from tests.actors.receiving import LARGE, delivered, queue_with, receive, store


def limited(queue: QueueState, messages: int) -> DemandLimited:
    """What is answered to a limit; what is delivered with it stays to be looked at."""
    queue.execute(LimitDemand(messages, cast("Any", "r")), 0.0, 0)
    (told,) = [each for each in queue.effects if isinstance(each, Tell) and isinstance(each.reply, DemandLimited)]
    queue.effects.remove(told)
    return cast("DemandLimited", told.reply)


def acknowledged_for_more(queue: QueueState, number: int, messages: int) -> None:
    queue.execute(AcknowledgedForMore([(number, 1)], messages, cast("Any", "r")), 0.0, 0)


class Limits(RuleBasedStateMachine):
    """Messages are numbered as they come; what is given back is in its old place."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = queue_with(1)
        self.queue.receive("r", 0, LARGE, 0.0)
        self.ready, self.held, self.stored, self.demand = {0}, set[int](), 1, 0

    def look(self) -> None:
        """Deliveries are the first that are ready, as many as the demand."""
        count = min(self.demand, len(self.ready))
        expected = sorted(self.ready)[:count]
        assert [number for _, numbers in delivered(self.queue) for number in numbers] == expected
        self.ready -= set(expected)
        self.held |= set(expected)
        self.demand -= count

    @rule(count=st.integers(1, 4))
    def store(self, count: int) -> None:
        store(self.queue, count)
        self.ready |= set(range(self.stored, self.stored + count))
        self.stored += count
        self.look()

    @rule(count=st.integers(0, 4))
    def signal(self, count: int) -> None:
        self.queue.receive("r", count, 0, 0.0)
        self.demand += count
        self.look()

    @rule(most=st.integers(0, 6))
    def limit(self, most: int) -> None:
        left = most - len(self.held)
        assert limited(self.queue, most) == (max(0, left), max(0, -left))
        self.demand = max(0, left)
        self.look()
        assert len(self.held) <= max(most, most - left)

    @rule(data=st.data(), gives_back=st.booleans())
    def settle(self, data: st.DataObject, gives_back: bool) -> None:
        if not self.held:
            return
        number = data.draw(st.sampled_from(sorted(self.held)))
        self.held.remove(number)
        if gives_back:
            self.ready.add(number)
            self.queue.negative_acknowledge("r", [(number, 1)], 0.0, 0.0)
        else:
            self.queue.acknowledge("r", [(number, 1)])
        self.look()

    @rule(data=st.data(), more=st.integers(0, 3))
    def acknowledge_for_more(self, data: st.DataObject, more: int) -> None:
        if not self.held:
            return
        number = data.draw(st.sampled_from(sorted(self.held)))
        self.held.remove(number)
        acknowledged_for_more(self.queue, number, more)
        self.demand += more
        self.look()

    @rule()
    def withdraw(self) -> None:
        self.queue.cancel_demand("r")
        self.demand = 0
        self.queue.receive("r", 0, LARGE, 0.0)
        self.look()

    @invariant()
    def the_queue_knows_what_is_held(self) -> None:
        assert self.queue.statistics(0.0).in_flight == len(self.held)


TestLimits = Limits.TestCase
TestLimits.settings = settings(max_examples=100, stateful_step_count=30)


def test_a_limit_above_what_is_held_brings_what_is_left_and_one_below_tells_the_excess() -> None:
    queue = queue_with(10)
    assert receive(queue, "r", 3) == [range(3)]
    assert limited(queue, 5) == DemandLimited(2, 0)
    assert delivered(queue) == [("r", range(3, 5))]
    assert limited(queue, 1) == DemandLimited(0, 4)
    queue.acknowledge("r", [(0, 5)])
    assert delivered(queue) == []


def test_demand_of_before_counts_no_more() -> None:
    queue = queue_with()
    receive(queue, "r", 1_000)
    assert limited(queue, 1) == DemandLimited(1, 0)
    store(queue, 5)
    assert delivered(queue) == [("r", range(1))]


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="a limit of -1 messages is negative"):
        limited(queue_with(), -1)


def test_an_acknowledgement_that_asks_for_more_gets_it() -> None:
    queue = queue_with(5)
    assert receive(queue, "r", 2) == [range(2)]
    acknowledged_for_more(queue, 0, 2)
    assert delivered(queue) == [("r", range(2, 4))]
    assert queue.statistics(0.0).total_acknowledged == 1


def test_an_acknowledgement_for_less_than_nothing_or_of_what_is_not_held_is_refused_and_changes_nothing() -> None:
    queue = queue_with(5)
    receive(queue, "r", 1)
    with pytest.raises(InvalidRequestError, match="-1 messages are requested"):
        acknowledged_for_more(queue, 0, -1)
    with pytest.raises(UnknownAcknowledgementError):
        acknowledged_for_more(queue, 3, 1)
    assert delivered(queue) == []
    assert (queue.statistics(0.0).in_flight, queue.statistics(0.0).demand_waiting) == (1, 0)
