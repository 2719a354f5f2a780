"""Receivers of different priorities: the highest with demand go first, equal ones share, and nobody else pays for it."""

from __future__ import annotations

import sys
from random import Random
from types import FrameType
from typing import Any, Self, cast

import pytest

from actors.batch import MessageBatch
from actors.errors import InvalidRequestError, UnknownAcknowledgementError
from actors.queue.state.priority_ring import PriorityRing
from actors.queue.state.receivers import DemandRing
from actors.queue.structures.levels import Levels
from actors.queue.vocabulary.budgets import DISPATCH_BUDGET
from actors.queue.vocabulary.prefetch import ReturnedForMore
from tests.actors.driven import Deliver, QueueState

LARGE = 10**12


def queue_of(**priorities: int) -> QueueState:
    queue = QueueState("q", 0)
    queue.attach_sender("s", None)
    queue.request_capacity("s", 10**6, LARGE)
    for name, priority in priorities.items():
        queue.attach_receiver(name, priority=priority)
    queue.take_effects()
    return queue


def store(queue: QueueState, count: int, batches: int = 1) -> None:
    for _ in range(batches):
        queue.send("s", queue.log.next_sequence, MessageBatch.from_payloads([b"x"] * count), 0.0, 0)


def got(queue: QueueState) -> dict[object, int]:
    counts: dict[object, int] = {}
    for effect in queue.take_effects():
        if isinstance(effect, Deliver):
            counts[effect.receiver] = counts.get(effect.receiver, 0) + len(effect.batch)
    return counts


def test_messages_go_to_the_highest_priority_that_has_demand() -> None:
    queue = queue_of(low=-1, usual=0, high=5)
    for name in ("low", "usual", "high"):
        queue.receive(name, 3, LARGE, 0.0)
    store(queue, 2)
    assert got(queue) == {"high": 2}
    store(queue, 2)
    assert got(queue) == {"high": 1, "usual": 1}
    store(queue, 4)
    assert got(queue) == {"usual": 2, "low": 2}
    queue.receive("high", 1, LARGE, 0.0)
    store(queue, 2)
    assert got(queue) == {"high": 1, "low": 1}


def test_what_is_ready_goes_by_priority_too_as_demand_comes() -> None:
    queue = queue_of(low=0, high=1)
    store(queue, 3)
    queue.receive("low", 1, LARGE, 0.0)
    assert got(queue) == {"low": 1}, "nobody of a higher priority asks for anything"
    queue.receive("high", 9, LARGE, 0.0)
    assert got(queue) == {"high": 2}


def test_equal_ones_share_in_proportion_to_their_demand_on_every_level() -> None:
    queue = queue_of(a=3, b=3, c=1, d=1)
    for name, demand in (("a", 10), ("b", 30), ("c", 60), ("d", 20)):
        queue.receive(name, demand, LARGE, 0.0)
    store(queue, 20)
    assert got(queue) == {"a": 5, "b": 15}
    store(queue, 60)
    assert got(queue) == {"a": 5, "b": 15, "c": 30, "d": 10}


def test_byte_demand_that_is_used_up_makes_way_for_a_lower_priority() -> None:
    queue = queue_of(high=1, low=0)
    queue.receive("high", 100, 1, 0.0)
    queue.receive("low", 100, LARGE, 0.0)
    store(queue, 3)
    assert got(queue) == {"high": 1, "low": 2}
    queue.receive("high", 0, LARGE, 0.0)
    store(queue, 3)
    assert got(queue) == {"high": 3}


def test_a_reservation_that_does_not_want_what_is_ready_keeps_it_from_nobody() -> None:
    queue = queue_of(low=-1)
    store(queue, 1)
    queue.open_subscription("o", "sub", "own", epoch=None, starting="earliest", owner_timeout=None)
    queue.reserve("o", 1, 0, messages=1, size=LARGE, wait=0.0, below=None, now=0.0)
    queue.reserve("o", 2, 1, messages=5, size=LARGE, wait=5.0, below=1, now=0.0)
    queue.take_effects()
    queue.receive("low", 5, LARGE, 0.0)
    store(queue, 2)
    assert got(queue) == {"low": 2}
    assert queue.statistics(0.0).demand_waiting == 3 + 5


def test_a_reservation_goes_before_a_lower_priority_and_behind_a_higher_one() -> None:
    queue = queue_of(low=-1, high=1)
    queue.open_subscription("o", "sub", "own", epoch=None, starting="earliest", owner_timeout=None)
    queue.receive("low", 5, LARGE, 0.0)
    queue.receive("high", 1, LARGE, 0.0)
    queue.reserve("o", 1, 0, messages=2, size=LARGE, wait=5.0, below=None, now=0.0)
    store(queue, 4)
    assert got(queue) == {"high": 1, "low": 1}
    assert queue.statistics(0.0).reserved == 2


def test_who_returns_messages_for_more_gets_them_again_before_a_lower_priority() -> None:
    queue = queue_of(high=1, low=0)
    for name in ("high", "low"):
        queue.receive(name, 2, LARGE, 0.0)
    store(queue, 2)
    assert got(queue) == {"high": 2}
    queue.execute(ReturnedForMore([(0, 2)], 1, cast("Any", "high")), 0.0, 0)
    assert got(queue) == {"high": 1, "low": 1}
    facts = {each.connection: (each.demand, each.in_flight) for each in queue.statistics(0.0).connections}
    assert (facts["high"], facts["low"]) == ((0, 1), (1, 1))
    with pytest.raises(InvalidRequestError, match="-1 messages are requested"):
        queue.execute(ReturnedForMore([(0, 1)], -1, cast("Any", "high")), 0.0, 0)
    with pytest.raises(UnknownAcknowledgementError):
        queue.execute(ReturnedForMore([(0, 2)], 1, cast("Any", "high")), 0.0, 0)


def test_one_that_leaves_or_withdraws_is_passed_over() -> None:
    queue = queue_of(low=0, high=1, higher=2)
    for name in ("low", "high", "higher"):
        queue.receive(name, 5, LARGE, 0.0)
    queue.detach("higher", 0.0)
    queue.cancel_demand("high")
    assert queue.statistics(0.0).demand_waiting == 5
    store(queue, 2)
    assert got(queue) == {"low": 2}


def test_the_ring_is_the_plain_one_while_nobody_has_another_priority() -> None:
    queue = queue_of(a=0, b=0)
    queue.receive("a", 5, LARGE, 0.0)
    before = queue.ring
    assert type(before) is DemandRing
    queue.attach_receiver("high", priority=1)
    assert isinstance(queue.ring, PriorityRing)
    queue.receive("b", 5, LARGE, 0.0)
    queue.detach("high", 0.0)
    assert type(queue.ring) is DemandRing
    assert list(queue.ring.waiting) == [queue.receivers[name] for name in "ab"]
    assert queue.ring.total == 10


def test_what_waits_for_a_large_message_to_be_read_waits_on_when_priorities_come_and_go() -> None:
    queue = queue_of(a=0)
    queue.ring.reading = True
    queue.ring.late.append(late := object())  # type: ignore[arg-type]  # it is only kept
    queue.attach_receiver("high", priority=1)
    assert (queue.ring.reading, queue.ring.late) == (True, [late])
    queue.detach("high", 0.0)
    assert (queue.ring.reading, queue.ring.late) == (True, [late])


def test_a_turn_costs_the_same_however_many_priorities_there_are() -> None:
    costs = []
    for number in (100, 10_000):
        queue = queue_of()
        priorities = Random(number).sample(range(-number, number), number)
        for each in range(number):
            queue.attach_receiver(each, priority=priorities[each])
            queue.receive(each, 2, LARGE, 0.0)
        store(queue, 1, 10)
        got(queue)
        with Calls() as calls:
            store(queue, 1, 40)
        assert sum(got(queue).values()) == 40
        costs.append(calls.of("actors/queue"))
    assert costs[0] == costs[1] > 0


def test_a_dispatch_over_many_levels_is_one_in_steps() -> None:
    queue = queue_of()
    store(queue, 1, 3 * DISPATCH_BUDGET)
    for each in range(3 * DISPATCH_BUDGET):
        queue.attach_receiver(each, priority=each)
    for each in range(3 * DISPATCH_BUDGET):
        queue.unfinished_at = 0.0
        queue.receive(each, 1, LARGE, 0.0)
    steps = []
    while queue.unfinished_at is not None:
        queue.tick(0.0)
        steps.append([effect.receiver for effect in queue.take_effects() if isinstance(effect, Deliver)])
    assert [len(step) for step in steps] == [DISPATCH_BUDGET] * 3
    assert [each for step in steps for each in step] == list(range(3 * DISPATCH_BUDGET))[::-1]


def test_levels_come_and_go_in_any_order() -> None:
    random = Random(1)
    levels: Levels[list[int]] = Levels(list)
    there: dict[int, list[int]] = {}
    for _ in range(2_000):
        priority = random.randrange(-50, 50)
        if priority in there and random.random() < 0.5:
            assert levels.take(priority) == there.pop(priority)
        else:
            levels.at(priority).append(priority)
            there.setdefault(priority, []).append(priority)
        assert len(levels) == len(there)
        assert levels.find(priority) == there.get(priority)
        if there:
            assert levels.top == max(there)
            assert levels.highest == there[max(there)]


class Calls:
    """Functions that are called while it is entered, by the files that they are of."""

    def __init__(self) -> None:
        self._files: list[str] = []

    def __enter__(self) -> Self:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_error: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            self._files.append(frame.f_code.co_filename)

    def of(self, folder: str) -> int:
        return sum(folder in file for file in self._files)
