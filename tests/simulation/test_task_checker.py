"""The rules of levels, limits that drop, failures and the time of day find what is wrong in a history made by hand, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.simulation.checker import BEYOND, COUNTED, EARLY, LOST, QueueRules, Timing, check
from tests.simulation.failure_checker import UNTRIED
from tests.simulation.history import (
    Acknowledged,
    Arrived,
    Confirmed,
    Crashed,
    Delivered,
    DroppedInAll,
    Event,
    Leapt,
    Offered,
    Refused,
    Released,
    Returned,
    Started,
)
from tests.simulation.judged import BURIED, DROPPED, DUPLICATED, PASSED, PHANTOM
from tests.simulation.task_rules import TaskRules
from tests.simulation.wall import START, Wall

TIMING = Timing(commit=0.01, acknowledgement=0.1)
LEVELS = TaskRules(max_priority=9)
RETRIES = TaskRules(max_failures=3, least_failures=3, retry_delay=1.0, retry_max_delay=2.0)
DROPS = TaskRules(drops_head=True, room=2, buries=True)
DAY = 86_400.0


def sent(*messages: str, priority: int = 0, time: float = 0.1) -> list[Event]:
    return [
        Offered(time, "q", f"p{priority}", 0, messages),
        Arrived(time, 0, "q", messages, priority=priority),
        Confirmed(time + 0.05, "q", messages),
    ]


def given(time: float, first: int, *messages: str, failures: int = 0, count: int = 1, to: int = 1) -> Delivered:
    return Delivered(time, to, "q", first, messages, count, count > 1, failures)


def done(time: float, first: int, count: int = 1, queue: str = "q", by: int = 1) -> Acknowledged:
    return Acknowledged(time, by, queue, ((first, count),))


def back(time: float, first: int, delay: float = 0.0, failed: bool = True) -> Returned:
    return Returned(time, 1, "q", ((first, 1),), delay, failed)


def buried(time: float, first: int, message: str, reason: str, since: float) -> Delivered:
    return Delivered(time, 2, "dead", first, (message,), 1, False, 0, round((START + since) * 1e6), ((reason, "q"),))


def kinds(events: Sequence[Event], tasks: TaskRules) -> list[str]:
    rules = {
        "q": QueueRules(visibility=10.0, drops=tasks.buries or tasks.max_failures is not None, tasks=tasks),
        "dead": QueueRules(visibility=10.0, fed_by=("q",), tasks=TaskRules(dead_of="q")),
    }
    return sorted({found.kind for found in check(events, rules, TIMING)})


TWO_LEVELS = [*sent("low"), *sent("high", priority=5)]


def test_a_higher_level_goes_first_and_one_that_is_as_high_by_its_number() -> None:
    assert kinds([*TWO_LEVELS, given(1, 1, "high"), given(1, 0, "low"), done(2, 0, 2)], LEVELS) == []
    wrong = [*TWO_LEVELS, given(1, 0, "low"), given(2, 1, "high"), done(3, 0, 2)]
    assert kinds(wrong, LEVELS) == [PASSED]
    assert kinds(wrong, replace(LEVELS, max_priority=None)) == []
    others = [*sent("a", "b"), given(1, 1, "b"), given(2, 0, "a", to=2), done(3, 1), done(3, 0, by=2)]
    assert kinds(others, LEVELS) == [PASSED]


def test_what_has_just_come_or_is_decided_as_late_as_a_commit_passes_nobody() -> None:
    late = [*sent("low"), *sent("high", priority=5, time=0.95), given(1.005, 0, "low"), given(2, 1, "high")]
    assert kinds([*late, done(3, 0, 2)], LEVELS) == []
    together = [*TWO_LEVELS, given(1, 0, "low"), given(1.01, 1, "high"), done(3, 0, 2)]
    assert kinds(together, LEVELS) == []


def test_what_is_returned_goes_to_the_head_of_its_level() -> None:
    start = [*TWO_LEVELS, *sent("last"), given(1, 1, "high"), given(1.1, 0, "low"), back(1.2, 0)]
    assert kinds([*start, given(1.3, 0, "low", count=2), given(1.4, 2, "last"), done(3, 0, 3)], LEVELS) == []
    assert kinds([*start, given(1.4, 2, "last"), given(1.5, 0, "low", count=2), done(3, 0, 3)], LEVELS) == [PASSED]
    never_written = [*start, Released(1.3, 2, "aborted"), given(1.4, 2, "last"), given(1.5, 0, "low", count=3)]
    assert kinds([*never_written, done(3, 0, 3)], LEVELS) == []
    crashed = [*start, Crashed(1.25, "killed"), Started(1.3, 2), given(1.4, 2, "last"), given(1.5, 0, "low", count=2)]
    assert kinds([*crashed, done(3, 0, 3)], LEVELS) == []


def test_the_oldest_is_dropped_when_there_is_no_room_and_is_a_dead_letter() -> None:
    start = [*sent("a", "b", "c"), buried(2, 0, "a", "maxlen", 0.12), done(2.1, 0, queue="dead", by=2)]
    rest = [given(3, 1, "b", "c"), done(4, 1, 2)]
    assert kinds([*start, *rest], DROPS) == []
    assert kinds([*start, *rest], replace(DROPS, room=3)) == [DROPPED]
    assert kinds([*start, *rest], replace(DROPS, drops_head=False)) == [BURIED]
    assert kinds([*sent("a", "b", "c"), *rest], DROPS) == [LOST]
    newest = [*sent("a", "b", "c"), buried(5, 0, "c", "maxlen", 1.0), done(5.1, 0, queue="dead", by=2)]
    assert kinds([*newest, given(6, 0, "a", "b"), done(7, 0, 2)], DROPS) == [PASSED]


def test_what_is_dropped_is_counted_and_nothing_else_is_missing() -> None:
    events = [*sent("a", "b", "c"), given(3, 2, "c"), done(4, 2)]
    uncounted = replace(DROPS, buries=False)
    assert kinds([*events, DroppedInAll(5, "q", 2)], uncounted) == []
    assert kinds([*events, DroppedInAll(5, "q", 1)], uncounted) == [DROPPED]


def test_what_was_refused_may_be_a_dead_letter_and_is_in_the_queue_only_if_it_was_sent_again() -> None:
    rules = TaskRules(refused_die=True, buries=True)
    start: list[Event] = [Offered(0, "q", "p", 0, ("a",)), Arrived(0.1, 0, "q", ("a",)), Refused(0.2, "q", ("a",))]
    letter = [buried(1, 0, "a", "maxlen", 0.1), done(2, 0, queue="dead", by=2)]
    assert kinds([*start, *letter], rules) == []
    assert kinds([*start, given(1, 0, "a"), done(2, 0)], rules) == [PHANTOM]
    stored = [*start[:2], Confirmed(0.2, "q", ("a",)), *letter, given(3, 0, "a"), done(4, 0)]
    assert kinds(stored, rules) == [DUPLICATED]
    assert kinds([start[1], *stored], rules) == []


def test_failures_count_wait_and_end() -> None:
    first = [*sent("a"), given(1, 0, "a"), back(2, 0)]
    again = [*first, given(2.9, 0, "a", failures=1, count=2)]
    assert kinds([*again, done(3, 0)], RETRIES) == []
    assert kinds([*first, given(2.7, 0, "a", failures=1, count=2), done(3, 0)], RETRIES) == [EARLY]
    assert kinds([*first, given(2.9, 0, "a", failures=0, count=2), done(3, 0)], RETRIES) == [COUNTED]
    assert kinds([*first, given(2.9, 0, "a", failures=2, count=2), done(3, 0)], RETRIES) == [COUNTED]
    twice = [*again, back(3, 0)]
    assert kinds([*twice, given(4, 0, "a", failures=2, count=3), done(5, 0)], RETRIES) == [EARLY]
    third = [*twice, given(4.7, 0, "a", failures=2, count=3), back(5, 0)]
    assert kinds([*third, given(9, 0, "a", failures=3, count=4), done(10, 0)], RETRIES) == [BEYOND]
    letter = [buried(6, 0, "a", "max-receives", 5.0), done(7, 0, queue="dead", by=2)]
    assert kinds([*third, *letter], RETRIES) == []
    assert kinds([*third, buried(6, 0, "a", "expired", 5.0), *letter[1:]], RETRIES) == [BURIED]
    assert kinds([*again, *letter], RETRIES) == [BURIED]


@pytest.mark.parametrize(("reason", "failures"), [("lost", 1), ("CANCEL", 1), (UNTRIED, 0)])
def test_what_a_connection_held_has_failed_unless_it_says_otherwise(reason: str, failures: int) -> None:
    start = [*sent("a"), given(1, 0, "a"), Released(2, 1, reason)]
    end = [given(3, 0, "a", failures=failures, count=2, to=2), done(4, 0, by=2)]
    assert kinds([*start, *end], RETRIES) == []


def test_a_lease_that_is_over_is_a_failure_and_a_return_untried_is_none() -> None:
    held = [*sent("a"), given(1, 0, "a")]
    assert kinds([*held, given(11.9, 0, "a", failures=1, count=2, to=2), done(12, 0, by=2)], RETRIES) == []
    assert kinds([*held, given(11.9, 0, "a", failures=0, count=2, to=2), done(12, 0, by=2)], RETRIES) == [COUNTED]
    untried = [*held, back(2, 0, failed=False)]
    assert kinds([*untried, given(2.1, 0, "a", count=2), done(3, 0)], RETRIES) == []
    assert kinds([*untried, given(2.1, 0, "a", failures=1, count=2), done(3, 0)], RETRIES) == [COUNTED]


def test_a_crash_forgets_a_failure_only_if_it_comes_at_once() -> None:
    first = [*sent("a"), given(1, 0, "a"), back(2, 0)]
    soon = [*first, Crashed(2.05, "power"), Started(2.1, 2), given(2.2, 0, "a", count=2), done(3, 0)]
    assert kinds(soon, RETRIES) == []
    later = [*first, Crashed(2.2, "power"), Started(2.3, 2)]
    assert kinds([*later, given(2.4, 0, "a", failures=1, count=2), done(3, 0)], RETRIES) == [EARLY]
    assert kinds([*later, given(2.9, 0, "a", failures=0, count=2), done(3, 0)], RETRIES) == [COUNTED]
    assert kinds([*later, given(2.9, 0, "a", failures=1, count=2), done(3, 0)], RETRIES) == []


@pytest.mark.parametrize("arrived", [{"delay": DAY}, {"at": START + DAY + 0.1}])
def test_a_delay_is_over_when_the_time_of_day_says_so(arrived: dict[str, float]) -> None:
    start: list[Event] = [Offered(0, "q", "p", 0, ("a",)), Arrived(0.1, 0, "q", ("a",), **arrived)]  # type: ignore[arg-type]
    end = [given(10, 0, "a"), done(11, 0)]
    assert kinds([*start, *end], TaskRules()) == [EARLY]
    assert kinds([*start, Leapt(1, DAY - 11), *end], TaskRules()) == [EARLY]
    assert kinds([*start, Leapt(1, DAY / 2), Leapt(2, DAY / 2), *end], TaskRules()) == []


def test_dead_letters_go_by_the_level_that_they_had() -> None:
    letters = [buried(6, 0, "low", "maxlen", 1.0), buried(7, 1, "high", "maxlen", 2.0), done(8, 0, 2, "dead", by=2)]
    rules = {
        "q": QueueRules(visibility=10.0, drops=True, tasks=replace(DROPS, room=None, max_priority=9)),
        "dead": QueueRules(visibility=10.0, fed_by=("q",), tasks=TaskRules(dead_of="q", max_priority=9)),
    }
    assert [found.kind for found in check([*TWO_LEVELS, *letters], rules, TIMING)].count(PASSED) == 1
    alike = rules | {"dead": replace(rules["dead"], tasks=TaskRules(dead_of="q"))}
    assert [found.kind for found in check([*TWO_LEVELS, *letters], alike, TIMING)].count(PASSED) == 0


def test_the_time_of_day_is_found_again_by_what_it_shows() -> None:
    wall = Wall()
    wall.leapt(10.0, 100.0)
    wall.leapt(20.0, 50.0)
    assert [wall.at(time) for time in (5.0, 10.0, 15.0, 25.0)] == [5.0, 110.0, 115.0, 175.0]
    assert [wall.first(shown) for shown in (5.0, 110.0, 115.0, 175.0)] == [5.0, 10.0, 15.0, 25.0]
    assert wall.first(60.0) == 10.0
