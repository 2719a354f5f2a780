"""`transport.gateways.amqp.consuming`: a consumer demands as much as its limit leaves, however often that changes while deliveries come."""

from __future__ import annotations

from collections import deque
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actors.queue.vocabulary.commands import Acknowledged, DemandSignalled, Rejected
from actors.queue.vocabulary.prefetch import DemandWithdrawn, LimitDemand, ReturnedForMore
from actors.queue.vocabulary.replies import DemandLimited
from transport.gateways.amqp.consuming import WITHOUT_END, Consumer, ranges_of
from transport.gateways.amqp.pace import Pace

WINDOW = 1_000


class Queue:
    """The receiver's actor and its queue in one: it hears of what it was told when a test says so."""

    def __init__(self) -> None:
        self.told: deque[Any] = deque()
        self.demand = self.in_flight = self.size = 0
        self.answers: deque[DemandLimited] = deque()

    def is_alive(self) -> bool:
        return True

    def deliver(self, command: Any) -> None:
        self.told.append(command)

    def hear(self) -> None:
        """The first of what it was told."""
        command = self.told.popleft()
        if isinstance(command, DemandSignalled):
            self.demand += command.messages
            self.size += command.bytes
        elif isinstance(command, LimitDemand):
            left = command.messages - self.in_flight
            self.demand = max(0, left)
            self.answers.append(DemandLimited(self.demand, max(0, -left)))
        elif isinstance(command, Acknowledged | Rejected | ReturnedForMore):
            self.in_flight -= sum(count for _, count in command.ranges)
            if isinstance(command, ReturnedForMore):
                self.demand += command.messages
        else:
            assert isinstance(command, DemandWithdrawn)
            self.demand = 0


def consumer(queue: Queue, prefetch: int = 0, *, no_ack: bool = False) -> Consumer:
    made = Consumer(cast("Any", None), "tag", "queue", no_ack=no_ack, prefetch=prefetch, window=WINDOW, pace=Pace())
    made.actor = cast("Any", queue)
    made.begin_demand()
    return made


class Prefetch(RuleBasedStateMachine):
    """Commands and answers are under way for as long as it likes. When all has come, the demand is what the limit leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = Queue()
        self.limit = 3
        self.subject = consumer(self.queue, self.limit)
        self.number = self.held = 0

    @rule(prefetch=st.sampled_from([0, 1, 2, 5, 5, 9]))
    def qos(self, prefetch: int) -> None:
        self.limit = prefetch
        self.subject.limit(prefetch)

    @rule(count=st.integers(1, 4))
    def deliver(self, count: int) -> None:
        count = min(count, self.queue.demand)
        self.queue.demand -= count
        self.queue.in_flight += count
        self.held += count

    @rule(count=st.integers(1, 4))
    def settle(self, count: int) -> None:
        count = min(count, self.held)
        if count:
            self.held -= count
            self.subject.acknowledge(((self.number, count),))
            self.subject.settled(count)
            self.number += count

    @rule(count=st.integers(1, 4))
    def give_back(self, count: int) -> None:
        count = min(count, self.held)
        if count:
            self.held -= count
            self.subject.settled(count - self.subject.give_back_for_more(((self.number, count),), count))
            self.number += count

    @rule()
    def the_queue_hears(self) -> None:
        if self.queue.told:
            self.queue.hear()

    @rule()
    def the_consumer_hears(self) -> None:
        if self.queue.answers:
            self.subject.tell(self.queue.answers.popleft())

    @rule()
    def all_comes(self) -> None:
        while self.queue.told or self.queue.answers:
            while self.queue.told:
                self.queue.hear()
            while self.queue.answers:
                self.subject.tell(self.queue.answers.popleft())
        assert self.queue.in_flight == self.held
        if self.limit:
            assert self.queue.demand == max(0, self.limit - self.held)
        else:
            assert self.queue.demand > WITHOUT_END // 2

    @invariant()
    def it_never_demands_less_than_nothing(self) -> None:
        assert self.queue.demand >= 0


TestPrefetch = Prefetch.TestCase
TestPrefetch.settings = settings(max_examples=200, stateful_step_count=30)


def test_a_limit_that_is_taken_back_and_said_again_holds() -> None:
    queue = Queue()
    subject = consumer(queue, 1)
    for prefetch in (5, 0, 5):
        subject.limit(prefetch)
    while queue.told or queue.answers:
        while queue.told:
            queue.hear()
        while queue.answers:
            subject.tell(queue.answers.popleft())
    assert queue.demand == 5


def test_one_that_consumes_no_more_demands_nothing_whatever_its_limit_becomes() -> None:
    queue = Queue()
    subject = consumer(queue, 1)
    subject.demand_no_more()
    queue.told.clear()
    subject.limit(0)
    subject.limit(7)
    subject.settled(1)
    subject.written(WINDOW)
    assert not queue.told


def test_one_whose_messages_are_settled_as_they_are_written_has_no_limit_of_messages() -> None:
    queue = Queue()
    subject = consumer(queue, 1, no_ack=True)
    subject.limit(2)
    queue.hear()
    assert (queue.demand, list(queue.told)) == (WITHOUT_END, [])


def test_what_is_written_is_demanded_again_in_halves_of_the_window() -> None:
    queue = Queue()
    subject = consumer(queue)
    queue.hear()
    assert queue.size == WINDOW
    subject.written(WINDOW // 2 - 1)
    assert not queue.told
    subject.written(1)
    queue.hear()
    assert queue.size == WINDOW + WINDOW // 2


@pytest.mark.parametrize(
    ("pairs", "ranges"),
    [
        ([], ()),
        ([(1, 2), (3, 1)], ((1, 3),)),
        ([(1, 2), (4, 1), (5, 5)], ((1, 2), (4, 6))),
    ],
)
def test_ranges_that_touch_are_one(pairs: list[tuple[int, int]], ranges: tuple[tuple[int, int], ...]) -> None:
    assert ranges_of(pairs) == ranges
