"""What a queue with levels costs: as much with 256 levels as with few, be it a command or a step of a purge. Counted, never timed."""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from actors.queue.operations.purging import purge_step
from actors.queue.structures.minima import Minima
from actors.queue.vocabulary.budgets import EXPIRY_BUDGET, PURGE_BUDGET
from actors.queue.vocabulary.settings import QueueSettings
from tests.actors.counted_work import LARGE, instructions, queue_of, send
from tests.actors.taking import TakerState

FEW, MANY = 4, 256


def with_something_in_each(levels: int, messages: int = 2 * MANY, **settings: object) -> TakerState:
    queue = queue_of(QueueSettings(max_priority=255, **settings))  # type: ignore[arg-type]  # as the test says
    for number in range(messages):
        send(queue, priority=number % levels)
    return queue


def a_command(queue: TakerState) -> None:
    send(queue, priority=1)
    queue.next_deadline()


def a_delivery(queue: TakerState) -> None:
    queue.receive("r", 1, LARGE, 0.0)
    queue.next_deadline()


@pytest.mark.parametrize("exclusive", [False, True])
def test_with_a_time_to_live_a_command_and_a_delivery_cost_the_same_however_many_levels_have_something(
    exclusive: bool,
) -> None:
    costs = []
    for levels in (FEW, MANY):
        queue = with_something_in_each(levels, ttl=60.0, exclusive=exclusive)
        queue.attach_receiver("r")
        a_command(queue)
        a_delivery(queue)
        costs.append((instructions(lambda q=queue: a_command(q)), instructions(lambda q=queue: a_delivery(q))))  # type: ignore[misc]
    for few, many in zip(*costs, strict=True):
        # A tree of 256 has eight steps, whatever is in it.
        assert 0 < many <= few + 200


def test_what_expires_in_all_levels_at_one_time_goes_in_steps() -> None:
    queue = with_something_in_each(MANY, 3 * MANY, ttl=1.0)
    steps = []
    while queue.ready.messages:
        before = queue.log.total_expired
        queue.tick(1.5)
        steps.append(queue.log.total_expired - before)
    assert steps == [EXPIRY_BUDGET] * 3


def purged(levels: int) -> list[tuple[int, int]]:
    """How many messages each step of a purge takes, and by how many instructions; there are others behind it in all levels."""
    queue = with_something_in_each(levels)
    queue.attach_receiver("r")
    queue.receive("r", MANY, LARGE, 0.0)
    queue.detach("r", 0.0)
    below = queue.log.next_sequence
    for number in range(MANY):
        send(queue, priority=number % levels)
    steps: list[tuple[int, int]] = []
    while True:
        before = queue.ready.messages
        work = instructions(lambda: purge_step(queue, below))
        if queue.ready.messages == before:
            assert before == MANY, "what came behind it stays"
            return steps
        steps.append((before - queue.ready.messages, work))


def test_a_step_of_a_purge_costs_as_much_as_what_it_takes_and_a_little_for_each_level() -> None:
    few, many = purged(FEW), purged(MANY)
    assert [messages for messages, _ in many] == [messages for messages, _ in few] == [PURGE_BUDGET] * 2
    for (_, little), (_, much) in zip(few, many, strict=True):
        assert much <= 1.5 * little


def test_the_least_of_places_and_the_last_that_has_little_are_what_a_look_at_all_finds() -> None:
    random, minima, places = Random(18), Minima(MANY), [inf] * MANY
    for _ in range(3000):
        place, value = random.randrange(MANY), random.choice((inf, *range(9)))
        minima.set(place, value)
        places[place] = value
        start, most = random.randrange(MANY + 1), random.randrange(-1, 9)
        assert minima.least(start) == min(places[start:], default=inf)
        assert minima.last_within(most) == max((at for at, each in enumerate(places) if each <= most), default=None)
