"""Requests for very many pieces are answered a part in each turn, whole and in order. Counted, never timed."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from actors.queue.operations import answering
from actors.queue.vocabulary.budgets import DISPATCH_BUDGET
from actors.queue.vocabulary.replies import MessagesTaken
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.takes import Settlement
from tests.actors.counted_work import instructions, queue_of, send
from tests.actors.taking import TakerState, numbers

ASKED = 1_000
TAKERS = 8


def backlog(messages: int, **settings: Any) -> TakerState:
    """A queue with so many batches of one message, and a taker."""
    queue = queue_of(QueueSettings(visibility_timeout=1000.0, **settings))
    for number in range(messages):
        send(queue, priority=number % 3)
    queue.attach_taker()
    return queue


def turns(queue: TakerState) -> list[int]:
    """How much is held after each turn, until nothing is to be done at once."""
    held = [queue.leases.in_flight]
    while queue.unfinished_at is not None:
        queue.tick(0.0)
        held.append(queue.leases.in_flight)
    return held


@pytest.mark.parametrize("settings", [{}, {"max_priority": 2}, {"ttl": 60.0}], ids=str)
def test_eight_requests_for_a_thousand_single_messages_are_answered_in_turns_of_so_many_pieces(
    settings: dict[str, Any],
) -> None:
    queue = backlog(TAKERS * ASKED + 5, **settings)
    for request in range(TAKERS):
        queue.take(request, ASKED, wait=5.0)
    held = turns(queue)
    assert max(after - before for before, after in zip([0, *held], held, strict=False)) == DISPATCH_BUDGET
    answers = queue.answers()
    assert [(answer.request, len(numbers(answer))) for answer in answers] == [
        (request, ASKED) for request in range(TAKERS)
    ]
    got = [number for answer in answers for number, _ in numbers(answer)]
    wanted = list(range(TAKERS * ASKED + 5))
    if "max_priority" in settings:
        wanted.sort(key=lambda number: (-(number % 3), number))
    assert got == wanted[: TAKERS * ASKED]
    assert queue.next_deadline() is not None, "the leases end"
    queue.settle(99, [pair for answer in answers for pair in numbers(answer)])
    assert queue.log.stored_messages == 5


def test_with_groups_a_turn_has_no_more_pieces_either_and_a_look_at_very_many_ends_an_answer() -> None:
    queue = backlog(TAKERS * ASKED, groups=True)
    for request in range(TAKERS):
        queue.take(request, ASKED, wait=5.0)
    held = turns(queue)
    assert max(after - before for before, after in zip([0, *held], held, strict=False)) <= DISPATCH_BUDGET
    got = [number for answer in queue.answers() for number, _ in numbers(answer)]
    assert got == list(range(len(got)))
    assert len(got) > TAKERS * DISPATCH_BUDGET // 2


def test_a_turn_costs_the_same_however_much_is_asked_for_by_however_many() -> None:
    works = []
    for takers, asked in ((2, 3 * DISPATCH_BUDGET), (TAKERS, ASKED)):
        queue = backlog(takers * asked)
        for request in range(takers):
            queue.take(request, asked, wait=5.0)
        works.append(instructions(lambda queue=queue: queue.tick(0.0)))  # type: ignore[misc]
    assert 0 < works[1] <= works[0] + 200


def test_who_has_left_meanwhile_gets_no_answer_and_what_it_had_is_the_next_ones() -> None:
    queue = backlog(ASKED)
    queue.attach_taker("u")
    queue.take(1, ASKED, wait=5.0)
    queue.take(2, ASKED, wait=5.0, taker="u")
    queue.tick(0.0)
    assert queue.leases.in_flight == 2 * DISPATCH_BUDGET
    queue.detach("t", 0.0)
    turns(queue)
    assert not queue.take_effects()
    (told,) = queue.told
    assert told[0] == "u"
    assert [number for number, _ in numbers(told[1])] == list(range(ASKED))
    assert {delivery for number, delivery in numbers(told[1]) if number < 2 * DISPATCH_BUDGET} == {2}


def test_who_asks_no_more_meanwhile_is_answered_as_one_whose_answer_was_on_its_way() -> None:
    queue = backlog(ASKED)
    queue.take(1, ASKED, wait=5.0)
    queue.cancel_take(1)
    turns(queue)
    (answer,) = queue.answers()
    assert len(numbers(answer)) == ASKED
    queue.give_back_unseen(numbers(answer))
    assert queue.ready.messages == ASKED


def test_what_a_purge_takes_meanwhile_is_not_in_the_answer() -> None:
    queue = backlog(ASKED)
    queue.take(1, ASKED, wait=5.0)
    queue.purge()
    turns(queue)
    (answer,) = queue.answers()
    assert [number for number, _ in numbers(answer)] == list(range(DISPATCH_BUDGET))
    assert answer.ready == 0


def test_a_queue_that_begins_anew_answers_nobody_and_has_all_again() -> None:
    queue = backlog(ASKED)
    queue.take(1, ASKED, wait=5.0)
    queue.reset(0.0)
    turns(queue)
    assert (queue.answers(), queue.ready.messages, queue.leases.in_flight) == ([], ASKED, 0)


def test_in_turns_requests_get_what_they_would_get_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(60):
        settings = Random(seed).choice(
            [{}, {"groups": True}, {"max_priority": 2}, {"ttl": 3.0}, {"ttl": 0.0}, {"exclusive": True}]
        )
        told = []
        for most in (DISPATCH_BUDGET, 2):
            monkeypatch.setattr(answering, "DISPATCH_BUDGET", most)
            monkeypatch.setattr("actors.queue.operations.dispatch.DISPATCH_BUDGET", most)
            monkeypatch.setattr("actors.queue.operations.group_dispatch.DISPATCH_BUDGET", most)
            told.append(a_life(seed, settings))
        assert told[0] == told[1], (seed, settings)


def a_life(seed: int, settings: dict[str, Any]) -> list[Any]:
    """What a queue with one taker tells in a random history, in which nothing comes while somebody is answered."""
    random, queue, now = Random(seed), backlog(0, **settings), 0.0
    told: list[Any] = []
    held: list[tuple[int, int]] = []

    def settled() -> None:
        while queue.unfinished_at is not None:
            queue.tick(now)
        for answer in queue.answers():
            if not isinstance(answer, MessagesTaken):
                continue
            told.append((answer.request, numbers(answer), answer.ready))
            held.extend(numbers(answer))

    for request in range(60):
        now += random.choice((0.0, 0.1, 1.0))
        what = random.choice(("send", "send", "take", "settle"))
        if what == "send":
            for _ in range(random.randrange(1, 12)):
                send(queue, random.choice((1, 1, 3)), now, priority=random.randrange(3))
                settled()
        elif what == "take":
            queue.take(request, random.randrange(1, 15), size=random.choice((3, 10**6)), wait=0.0, now=now)
        elif held:
            some = [held.pop(random.randrange(len(held))) for _ in range(min(len(held), random.randrange(1, 9)))]
            queue.settle(request, some, random.choice((Settlement.ACKNOWLEDGE, Settlement.RETURN)), now=now)
        settled()
    return told
