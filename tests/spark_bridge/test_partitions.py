"""How positions become tasks."""

from __future__ import annotations

import pickle
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from spark_bridge.partitions import DEFAULT_SPLIT_ROWS, MAX_PARTITIONS, PositionRange, split

LIMIT = st.none() | st.integers(1, 5_000)


@given(st.integers(0, 10**12), st.integers(1, 3_000_000), LIMIT, LIMIT)
def test_partitions_cover_every_position_once_in_order_and_evenly(
    start: int, rows: int, least: int | None, most: int | None
) -> None:
    ranges = split(start, start + rows, 3, min_partitions=least, max_records_per_partition=most)
    assert ranges[0].start == start
    assert ranges[-1].stop == start + rows
    assert all(before.stop == after.start for before, after in pairwise(ranges))
    sizes = [part.stop - part.start for part in ranges]
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1
    assert {part.epoch for part in ranges} == {3}
    assert len(ranges) <= MAX_PARTITIONS
    if least is not None:
        assert len(ranges) >= min(least, rows)
    if most is not None and len(ranges) < MAX_PARTITIONS:
        assert max(sizes) <= most


def test_nothing_and_less_than_nothing_have_no_partition() -> None:
    assert split(5, 5, 1) == []
    assert split(5, 2, 1) == []


def test_few_rows_are_one_task_and_many_are_two_where_the_user_says_nothing() -> None:
    assert len(split(0, DEFAULT_SPLIT_ROWS - 1, 1)) == 1
    assert len(split(0, DEFAULT_SPLIT_ROWS, 1)) == 2


def test_a_range_survives_the_way_to_an_executor() -> None:
    assert pickle.loads(pickle.dumps(PositionRange(1, 2, 3))) == PositionRange(1, 2, 3)
