"""A queue with a calendar against a model that knows each message: what comes, when, and once, through kills and losses of power."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.queue.operations import calendar
from tests.actors.calendar_lives import CalendarLife
from tests.actors.storage_lives import in_loop
from tests.examples_tried import tried

HOUR, DAY = 3600.0, 86_400.0
DELAYS = st.one_of(
    st.sampled_from([0.0, 0.5, 59.0, 60.001, 61.0, 90.0, 2_400.0, 2_500.0, 5_000.0, 3 * DAY, 30 * DAY, 366 * DAY]),
    st.floats(0.001, 100.0),
    st.floats(60.0, 3 * HOUR),
    st.floats(HOUR, 60 * DAY),
)
STEPS = st.one_of(
    st.sampled_from([0.01, 1.0, 20.0]), st.floats(0.0, 300.0), st.floats(0.0, 2 * HOUR), st.floats(0.0, 100 * DAY)
)
OPERATIONS = st.one_of(
    st.tuples(st.just("send"), DELAYS, st.integers(1, 4), st.integers(0, 2)),
    st.tuples(st.just("send"), DELAYS, st.integers(1, 4), st.integers(0, 2)),
    st.tuples(st.just("pass"), STEPS),
    st.tuples(st.just("wait"), st.floats(0.0, 120.0)),
    st.tuples(st.just("sync")),
    st.tuples(st.just("checkpoint")),
    st.tuples(st.just("kill"), st.booleans(), STEPS, st.sampled_from([0.0, 1.0, 57.0, 70.0])),
    st.tuples(st.just("purge")),
)


def carry_out(life: CalendarLife, operation: tuple[Any, ...]) -> None:
    match operation:
        case ("send", delay, count, priority):
            life.send(delay, count, priority)
        case ("pass", seconds):
            life.pass_time(seconds)
        case ("wait", seconds):
            life.wait(seconds)
        case ("sync",):
            life.sync()
        case ("checkpoint",):
            life.checkpoint()
        case ("kill", power, away, before):
            # What was delivered and acknowledged is done with: an acknowledgement that is lost is no matter of this test.
            life.sync()
            life.send(61.0)
            life.send(1.0)
            life.pass_time(before)
            life.kill(power=power, away=away)
        case ("purge",):
            life.sync()
            life.purge()
    life.check()


def run(operations: list[tuple[Any, ...]], levels: int | None, seed: int) -> None:
    life = CalendarLife(seed, levels=levels)
    for operation in operations:
        carry_out(life, operation)
    life.pass_time(400 * DAY)
    life.check()
    assert not life.queue.statistics(life.now).delayed
    life.storage.close()


@settings(max_examples=tried(200), deadline=None)
@given(st.lists(OPERATIONS, max_size=30), st.sampled_from([None, 3]), st.integers(0, 2**16))
def test_each_message_comes_once_and_at_its_time_through_any_history(
    operations: list[tuple[Any, ...]], levels: int | None, seed: int
) -> None:
    in_loop(run)(operations, levels, seed)


@settings(max_examples=tried(100), deadline=None)
@given(st.lists(OPERATIONS, max_size=30), st.integers(0, 2**16))
def test_it_is_so_where_everything_is_done_in_small_pieces(operations: list[tuple[Any, ...]], seed: int) -> None:
    small: dict[str, Any] = {
        "PIECE_MESSAGES": 3,
        "READ_RUNS": 2,
        "GROUPED_RUNS": 2,
        "MOVED_GROUPS": 1,
        "GROUP_MESSAGES": 2,
        "NEAR_BATCHES": 2,
        "MOVED_BATCHES": 3,
        "MANY_PIECES": 10**9,
    }
    with mock.patch.multiple(calendar, **small):
        in_loop(run)(operations, None, seed)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@settings(max_examples=3_000, deadline=None)
@given(st.lists(OPERATIONS, max_size=50), st.sampled_from([None, 3]), st.integers(0, 2**16))
def test_each_message_comes_once_and_at_its_time_through_any_long_history(
    operations: list[tuple[Any, ...]], levels: int | None, seed: int
) -> None:
    in_loop(run)(operations, levels, seed)
