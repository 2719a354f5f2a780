"""How positions become tasks."""

from __future__ import annotations

import pickle
from itertools import groupby, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_bridge import OptionError
from spark_bridge.partitions import (
    BYTES_PER_TASK,
    MAX_PARTITIONS,
    PARALLELISM_VARIABLE,
    ROWS_PER_TASK,
    PositionRange,
    parallelism,
    split,
)

LIMIT = st.none() | st.integers(1, 5_000)


def whole(start: int, stop: int, broker: str = "a:1") -> PositionRange:
    return PositionRange(broker, start, stop, 3, b"id")


@given(st.integers(0, 10**12), st.integers(1, 3_000_000), LIMIT, LIMIT)
def test_partitions_cover_every_position_once_in_order_and_evenly(
    start: int, rows: int, least: int | None, most: int | None
) -> None:
    ranges = split([whole(start, start + rows)], min_partitions=least, max_records_per_partition=most)
    assert ranges[0].start == start
    assert ranges[-1].stop == start + rows
    assert all(before.stop == after.start for before, after in pairwise(ranges))
    sizes = [part.stop - part.start for part in ranges]
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1
    assert {(part.broker, part.epoch) for part in ranges} == {("a:1", 3)}
    assert len(ranges) <= MAX_PARTITIONS
    if least is not None:
        assert len(ranges) >= min(least, rows)
    if most is not None and len(ranges) < MAX_PARTITIONS:
        assert max(sizes) <= most


@given(
    st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 500_000)), min_size=2, max_size=5),
    st.none() | st.integers(1, 200),
    LIMIT,
)
def test_each_brokers_positions_are_covered_by_tasks_of_its_own(
    spans: list[tuple[int, int]], least: int | None, most: int | None
) -> None:
    given = [whole(start, start + rows, f"b{index}:1") for index, (start, rows) in enumerate(spans)]
    tasks = split(given, min_partitions=least, max_records_per_partition=most)
    joined = []
    for broker, group in groupby(tasks, key=lambda task: task.broker):
        parts = list(group)
        assert all(before.stop == after.start for before, after in pairwise(parts))
        joined.append(whole(parts[0].start, parts[-1].stop, broker))
    assert joined == [part for part in given if part.stop > part.start]
    rows = sum(part.stop - part.start for part in given)
    assert len(tasks) <= MAX_PARTITIONS
    if least is not None and all(part.stop - part.start >= least for part in given):
        assert least <= len(tasks)
        if most is None:
            assert len(tasks) <= least + len(given)
    if most is not None and rows < MAX_PARTITIONS - len(given):
        assert max((task.stop - task.start for task in tasks), default=0) <= most


def test_tasks_are_shared_out_by_rows() -> None:
    tasks = split([whole(0, 3000, "a:1"), whole(0, 1000, "b:1")], min_partitions=4)
    assert [(task.broker, task.stop - task.start) for task in tasks] == [("a:1", 1000)] * 3 + [("b:1", 1000)]


def test_nothing_and_less_than_nothing_have_no_partition() -> None:
    assert split([whole(5, 5)]) == []
    assert split([whole(5, 2), whole(3, 3)]) == []
    assert split([]) == []


@pytest.mark.parametrize(
    ("rows", "size", "cores", "tasks"),
    [
        (2 * ROWS_PER_TASK - 1, 0, 8, 1),
        (2 * ROWS_PER_TASK, 0, 8, 2),
        (100 * ROWS_PER_TASK, 0, 8, 8),
        (13, 65 * 10**6, 64, 13),
        (1000, 65 * 10**6, 64, 15),
        (1000, 65 * 10**6, 4, 4),
        (1000, 2 * BYTES_PER_TASK - 1, 64, 1),
    ],
)
def test_tasks_go_by_rows_and_bytes_up_to_what_runs_at_a_time_where_the_user_says_nothing(
    rows: int, size: int, cores: int, tasks: int
) -> None:
    assert len(split([whole(0, rows)], size=size, cores=cores)) == tasks


def test_what_the_user_asks_for_is_not_bound_to_the_cores() -> None:
    assert len(split([whole(0, 1000)], cores=2, min_partitions=7)) == 7


def test_what_runs_at_a_time_is_said_by_the_environment_or_is_this_machines_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(PARALLELISM_VARIABLE, raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(6)))
    assert parallelism() == 6
    monkeypatch.delattr("os.sched_getaffinity")
    monkeypatch.setattr("os.cpu_count", lambda: 5)
    assert parallelism() == 5, "not every system has the other"
    monkeypatch.setenv(PARALLELISM_VARIABLE, " 48 ")
    assert parallelism() == 48
    for wrong in ("0", "many", "-1"):
        monkeypatch.setenv(PARALLELISM_VARIABLE, wrong)
        with pytest.raises(OptionError, match=r"PENSTOCK_PARALLELISM is .*: expected a whole number"):
            parallelism()


def test_a_range_survives_the_way_to_an_executor() -> None:
    assert pickle.loads(pickle.dumps(whole(1, 2))) == whole(1, 2)


def test_bytes_of_a_task_have_a_limit_where_the_batchs_are_known() -> None:
    whole = [PositionRange("a:1", 0, 13, 1, b"")]
    mib = 2**20
    sizes = split(whole, size=65 * mib, cores=1, max_bytes_per_partition=10 * mib)
    assert [task.stop - task.start for task in sizes] == [1, 2, 2, 2, 2, 2, 2]
    assert len(split(whole, size=0, cores=1, max_bytes_per_partition=1)) == 1, "nobody knows"
    assert len(split(whole, size=65 * mib, cores=1, max_bytes_per_partition=1)) == 13, "a row is not cut"
    assert split([], size=0, max_bytes_per_partition=1) == []


@pytest.mark.parametrize(("cores", "tasks"), [(1, 1), (2, 2), (64, 13)])
def test_few_large_messages_are_read_by_what_runs_at_a_time(cores: int, tasks: int) -> None:
    """65 MB in 13 messages, which were one task."""
    assert len(split([PositionRange("a:1", 0, 13, 1, b"")], size=65 * 2**20, cores=cores)) == tasks


@pytest.mark.parametrize("cores", [1, 64])
def test_many_small_messages_are_read_by_what_runs_at_a_time(cores: int) -> None:
    assert len(split([PositionRange("a:1", 0, 2_000_000, 1, b"")], size=2**27, cores=cores)) == cores


def test_one_huge_message_among_small_ones_makes_no_task_without_rows() -> None:
    """Nobody knows which is huge: rows are shared out evenly, and each task has some."""
    tasks = split([PositionRange("a:1", 5, 8, 1, b"")], size=2**30, cores=64, max_bytes_per_partition=2**20)
    assert [(task.start, task.stop) for task in tasks] == [(5, 6), (6, 7), (7, 8)]
