"""What it costs to look at messages, whoever holds them: as much as there is to show. Counted, never timed."""

from __future__ import annotations

from typing import Any, cast

import pytest

from actors.queue.operations.browsing import BROWSE_BATCHES
from actors.queue.vocabulary.commands import BrowseRequested
from actors.queue.vocabulary.moves import PeekMessages
from actors.queue.vocabulary.replies import FetchedRanges, PeekedMessages, Tell
from tests.actors.counted_work import LARGE, instructions, queue_of, send
from tests.actors.taking import TakerState

SHOWN = 100


def held(messages: int, a_batch: int = 1) -> TakerState:
    """A queue whose messages somebody holds, each by itself; behind them are some that nobody does."""
    queue = queue_of()
    queue.attach_receiver("r")
    for _ in range(messages // a_batch):
        send(queue, a_batch)
    for _ in range(messages):
        queue.receive("r", 1, LARGE, 0.0)
        queue.take_effects()
    send(queue, SHOWN)
    return queue


def peeked(queue: TakerState, start: int | None) -> PeekedMessages:
    return cast("PeekedMessages", queue.execute(PeekMessages(SHOWN, start), 0.0, 0))


@pytest.mark.parametrize("a_batch", [1, 1000])
@pytest.mark.parametrize("start", [0, None])
def test_a_peek_costs_as_much_as_it_shows_however_many_are_held(a_batch: int, start: int | None) -> None:
    costs = []
    for messages in (1000, 5000):
        queue = held(messages, a_batch)
        shown = [each.messages for each in peeked(queue, start).ranges]
        first = 0 if start == 0 else messages
        assert [(each.first, len(each.batch)) for each in shown] == (
            [(number, 1) for number in range(SHOWN)] if start == 0 else [(first, SHOWN)]
        )
        assert peeked(queue, start).rest == (SHOWN if start == 0 else None)
        costs.append(instructions(lambda queue=queue: peeked(queue, start)))  # type: ignore[misc]
    # To find the last ones is a bisection.
    assert 0 < costs[1] <= costs[0] + 400


def test_a_peek_shows_as_many_where_some_between_are_gone() -> None:
    queue = held(1000, 1000)
    queue.acknowledge("r", [(number, 1) for number in range(0, 1000, 2)])
    queue.take_effects()
    found = peeked(queue, 0)
    assert [each.messages.first for each in found.ranges] == list(range(1, 2 * SHOWN, 2))
    assert found.rest == 2 * SHOWN + 1


def test_a_step_of_a_browse_costs_as_much_as_it_has_of_messages_that_are_held_one_by_one() -> None:
    def step(queue: TakerState, stop: int) -> FetchedRanges:
        queue.execute(BrowseRequested(1, 0, stop, cast("Any", "b")), 0.0, 0)
        (told,) = queue.effects
        queue.effects = []
        assert isinstance(told, Tell)
        assert isinstance(told.reply, FetchedRanges)
        return told.reply

    queue = held(4 * BROWSE_BATCHES)
    costs = [instructions(lambda stop=stop: step(queue, stop)) for stop in (SHOWN, 2 * SHOWN, 4 * SHOWN)]  # type: ignore[misc]
    assert costs[2] - costs[1] <= 2.2 * (costs[1] - costs[0]), "twice as many more cost twice as much more"
    assert [len(step(queue, LARGE).ranges), step(queue, LARGE).rest] == [BROWSE_BATCHES, BROWSE_BATCHES]
