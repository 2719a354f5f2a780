"""The line that whoever sends a great deal stands in, and the one of those who break off together, on a loop whose turns are counted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transport.shell.turns import CROWD, CROWD_EVERY, ENDS, LEAST, LOOK_WORK, SHARE, TURN_WORK, Turns


class CountedLoop:
    """Only what `Turns` uses: callbacks that run a turn later."""

    def __init__(self) -> None:
        self.ready: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.ready.append(callback)

    def turn(self) -> None:
        ready, self.ready = self.ready, []
        for callback in ready:
            callback()


class Flood:
    """Has ``left`` frames of ``cost`` units waiting, and joins again while it has any."""

    def __init__(self, turns: Turns, left: int, cost: int = 1) -> None:
        self.turns = turns
        self.left = left
        self.cost = cost
        self.handled: list[int] = []

    def work(self, share: int) -> int:
        done = 0
        while done < share and self.left:
            self.left -= 1
            done += self.cost
        self.handled.append(done)
        if self.left:
            self.turns.join(self)
        return done


def made(**options: Any) -> tuple[Any, Turns]:
    loop: Any = CountedLoop()
    return loop, Turns(loop, **options)


@given(st.lists(st.tuples(st.integers(1, 2_000), st.sampled_from([1, 3, 201])), min_size=1, max_size=40))
def test_a_turn_does_no_more_for_many_who_flood_than_for_one_and_each_has_its_turn(
    kinds: list[tuple[int, int]],
) -> None:
    loop, turns = made()
    floods = [Flood(turns, left, cost) for left, cost in kinds]
    for flood in floods:
        turns.join(flood)
    rounds = idle = total = 0
    # Each unit is paid for once, and a crowd's in one turn of some.
    most = CROWD_EVERY * (sum(left * cost for left, cost in kinds) // TURN_WORK + len(kinds) + 201 // TURN_WORK + 2)
    while any(flood.left for flood in floods):
        before = [len(flood.handled) for flood in floods]
        waiting = [bool(flood.left) for flood in floods]
        loop.turn()
        rounds += 1
        served = [flood.handled[-1] for flood, had in zip(floods, before, strict=True) if len(flood.handled) > had]
        # One frame may be larger than what is left of the turn; then the next ones have less.
        assert sum(served) < TURN_WORK + 201
        total += sum(served)
        assert total < TURN_WORK * rounds + 201
        # A crowd is served in some turns, and a debt takes some.
        idle = 0 if served or not any(waiting) else idle + 1
        assert idle < CROWD_EVERY * (1 + 201 // TURN_WORK)
        # Nobody is served twice before everybody in line was served once.
        still = [len(flood.handled) for flood in floods if flood.left]
        assert not still or max(still) - min(still) <= 1
        assert rounds <= most
    assert turns.waiting == 0


def test_turns_are_counted_only_where_there_is_something_to_share() -> None:
    loop, turns = made()
    turns.used(TURN_WORK - SHARE)
    assert loop.ready == []
    assert turns.share() == SHARE
    turns.used(1)
    assert len(loop.ready) == 1
    assert turns.share() == SHARE - 1


def test_whoever_sends_little_has_its_share_whatever_stands_in_line() -> None:
    loop, turns = made()
    assert turns.share() == SHARE
    for _ in range(100):
        turns.join(Flood(turns, 10_000))
    for _ in range(CROWD_EVERY):
        loop.turn()
    assert turns.share() == LEAST
    turns.used(LEAST)
    assert turns.share() == LEAST


def test_what_is_handled_at_once_comes_out_of_the_turn_and_the_next_turn_begins_anew() -> None:
    loop, turns = made()
    turns.used(TURN_WORK - 10)
    assert turns.share() == 10
    loop.turn()
    assert turns.share() == SHARE
    assert loop.ready == [], "an idle line costs no turns"


def served_in(loop: Any, floods: list[Flood], count: int) -> list[int]:
    """The units that each of so many turns has for those in line."""
    units = []
    for _ in range(count):
        before = sum(sum(flood.handled) for flood in floods)
        loop.turn()
        units.append(sum(sum(flood.handled) for flood in floods) - before)
    return units


def test_a_crowd_is_served_in_one_turn_of_some_and_few_in_each() -> None:
    loop, turns = made()
    floods = [Flood(turns, 10_000) for _ in range(CROWD)]
    for flood in floods[1:]:
        turns.join(flood)
    assert served_in(loop, floods, 4) == [TURN_WORK] * 4
    turns.join(floods[0])
    assert served_in(loop, floods, 2 * CROWD_EVERY) == ([0] * (CROWD_EVERY - 1) + [TURN_WORK]) * 2


def test_a_frame_that_takes_more_than_a_turn_has_is_paid_for_by_the_next_turns() -> None:
    loop, turns = made()
    flood = Flood(turns, 10_000, cost=3 * TURN_WORK)
    turns.join(flood)
    assert served_in(loop, [flood], 6) == [3 * TURN_WORK, 0, 0, 3 * TURN_WORK, 0, 0]


def test_a_debt_is_paid_by_the_turns_that_follow_though_nobody_stands_in_line() -> None:
    loop, turns = made()
    turns.join(Flood(turns, 1, cost=3 * TURN_WORK))
    loop.turn()
    assert turns.share() == LEAST
    for _ in range(3):
        loop.turn()
    assert turns.share() == SHARE
    assert loop.ready == [], "then it is idle"
    late = Flood(turns, 1)
    turns.join(late)
    loop.turn()
    assert late.handled == [1], "whoever comes much later has nothing of it"


def ended_in(loop: Any, ended: list[int], turns: int) -> list[int]:
    """How many come to their end in each of so many turns."""
    counts = []
    for _ in range(turns):
        before = len(ended)
        loop.turn()
        counts.append(len(ended) - before)
    return counts


@given(st.lists(st.integers(0, 3 * ENDS), min_size=1, max_size=12))
def test_however_many_connections_end_together_a_turn_has_a_few_of_them_and_each_ends_once(crowds: list[int]) -> None:
    loop, turns = made()
    ended: list[int] = []
    at_once = number = 0
    for crowd in crowds:
        before = len(ended)
        for _ in range(crowd):
            if not turns.endings.wait(partial(ended.append, number)):
                at_once += 1
            number += 1
        assert len(ended) == before, "whoever asks does what need not wait"
        loop.turn()
        assert len(ended) - before <= ENDS
    counts = ended_in(loop, ended, CROWD_EVERY * (number // ENDS + 2))
    assert all(sum(counts[at : at + CROWD_EVERY]) <= ENDS for at in range(len(counts)))
    assert turns.endings.waiting == 0
    assert ended == sorted(set(ended)), "in the order in which they broke off"
    assert at_once + len(ended) == number
    assert loop.ready == [], "then it is idle"


def test_a_few_that_end_do_so_at_once_in_each_turn() -> None:
    loop, turns = made()
    for _ in range(3):
        assert not any(turns.endings.wait(pytest.fail) for _ in range(ENDS))
        loop.turn()


def test_whoever_waits_until_all_have_ended_is_called_once_even_where_one_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop, turns = made()
    called: list[int] = []

    def fail() -> None:
        raise RuntimeError("a defect")

    def resume() -> None:
        called.append(turns.endings.waiting)

    for _ in range(ENDS):
        turns.endings.wait(fail)
    for _ in range(ENDS + 1):
        assert turns.endings.wait(fail)
    turns.endings.when_caught_up(resume)
    turns.endings.when_caught_up(resume)
    for _ in range(4 * CROWD_EVERY):
        loop.turn()
    assert called == [0]
    assert len(caplog.records) == ENDS + 1


def test_between_two_looks_there_is_as_much_work_whether_in_the_line_or_beside_it() -> None:
    looks: list[int] = []
    done = 0
    loop, turns = made(look=lambda: looks.append(done))
    flood = Flood(turns, 20 * LOOK_WORK)
    turns.join(flood)
    while flood.left:
        turns.used(5)
        done += 5
        loop.turn()
        done = 5 * len(flood.handled) + sum(flood.handled)
    between = [later - before for before, later in pairwise([0, *looks])]
    assert len(between) >= 10
    # Those beside the line have what is left of a turn, and a turn looks before it works.
    assert all(LOOK_WORK - TURN_WORK < each <= LOOK_WORK + 2 * TURN_WORK for each in between)


def test_who_has_nothing_to_do_is_not_looked_at() -> None:
    looks: list[None] = []
    loop, turns = made(look=lambda: looks.append(None))
    turns.used(LOOK_WORK)
    loop.turn()
    assert len(looks) == 1
    for _ in range(10):
        turns.join(Flood(turns, 0))
        loop.turn()
    assert len(looks) == 1
