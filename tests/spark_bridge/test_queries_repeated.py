"""What Spark reads more than once is the same each time: tasks that fail, actions that repeat, unions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark_bridge.queries import MARKS, Batches, failure, finish, numbers, recorded, source, start, values
from tests.spark_bridge.recorded_source import entries

pytestmark = MARKS


@pytest.mark.parametrize("after_rows", [1500, 2500])
def test_a_task_that_fails_is_repeated_with_the_same_rows(
    spark: Any, broker: Any, tmp_path: Path, after_rows: int
) -> None:
    """Amid them (each batch that was sent has 1000), and when it has read them all."""
    for first in range(0, 5000, 1000):
        broker.send("q", numbers(first, first + 1000))
    marker, diary = tmp_path / "failed", tmp_path / "diary"

    def fail_once(records: Iterator[Any]) -> Iterator[Any]:
        rows = 0
        for record in records:
            if rows >= after_rows and not marker.exists():
                marker.touch()
                raise RuntimeError(f"a task fails after {rows} rows")
            rows += record.num_rows
            yield record
        if not marker.exists():
            marker.touch()
            raise RuntimeError("a task fails after it has read all its rows")

    stream = recorded(spark, broker, diary, minPartitions=2, maxRowsPerBatch=5000).schema("value binary").load()
    batches = Batches()
    finish(start(stream.mapInArrow(fail_once, "value binary"), tmp_path, batches))
    assert marker.exists()
    assert batches.values == numbers(0, 5000)
    assert max(Counter(map(str, entries(diary, "read"))).values()) == 2


def test_a_batch_that_is_not_cached_is_read_again_for_each_action_and_is_the_same(
    spark: Any, durable_broker: Any, tmp_path: Path
) -> None:
    durable_broker.send("q", numbers(0, 300))
    diary = tmp_path / "diary"
    seen: list[tuple[int, int, list[Any], list[Any]]] = []

    def count_twice(frame: Any, number: int) -> None:
        seen.append((frame.count(), frame.count(), frame.collect(), frame.collect()))

    finish(start(recorded(spark, durable_broker, diary, maxRowsPerBatch=100).load(), tmp_path, count_twice))
    assert [counts[:2] for counts in seen] == [(100, 100)] * 3
    assert all(first == again for _, _, first, again in seen)
    assert [value for _, _, rows, _ in seen for value in values(rows)] == numbers(0, 300)
    reads = Counter((begin, end) for _, begin, end in entries(diary, "read"))
    assert reads == {(0, 100): 4, (100, 200): 4, (200, 300): 4}


def test_a_query_without_a_checkpoint_that_acknowledges_as_it_asks_shows_every_row_once_over_two_runs(
    spark: Any, broker: Any
) -> None:
    """Of a program that is tried out: without ``ackOn=poll`` the second run reads the first one's last batch again."""
    rounds = []
    for first in (0, 10):
        broker.send("q", numbers(first, first + 10))
        batches = Batches()
        frame = source(spark, broker, ackOn="poll").load()
        finish(frame.writeStream.foreachBatch(batches).trigger(availableNow=True).start())
        rounds.append(batches.values)
    assert rounds == [numbers(0, 10), numbers(10, 20)]


def test_a_frame_joined_to_itself_has_every_row_twice_and_one_place_in_the_queue(
    spark: Any, broker: Any, tmp_path: Path
) -> None:
    """Spark makes one source of it, which reserves once and is read twice."""
    broker.send("q", numbers(0, 20))
    frame = source(spark, broker, maxRowsPerBatch=10).load()
    batches = Batches()
    finish(start(frame.union(frame), tmp_path, batches))
    assert batches.sizes == [20, 20]
    assert Counter(batches.values) == dict.fromkeys(numbers(0, 20), 2)


def test_two_sources_of_one_query_with_one_subscription_end_it_and_it_says_why(
    spark: Any, broker: Any, tmp_path: Path
) -> None:
    broker.send("q", numbers(0, 20))
    one, other = (source(spark, broker, ownerWait="1s").load() for _ in range(2))
    text = failure(start(one.union(other), tmp_path, Batches()))
    assert "another query reads subscription 's' of queue 'q'" in text
    assert "or another source of this query" in text


def test_two_sources_of_one_query_with_a_queue_each_have_every_row_once_over_two_runs(
    spark: Any, durable_broker: Any, tmp_path: Path
) -> None:
    one = source(spark, durable_broker, maxRowsPerBatch=20).load()
    other = source(spark, durable_broker, queue="r", subscription="t", maxRowsPerBatch=20).load()
    batches = Batches()
    for first in (0, 50):
        durable_broker.send("q", numbers(first, first + 50))
        durable_broker.send("r", [b"r" + value for value in numbers(first, first + 30)])
        finish(start(one.union(other), tmp_path, batches))
    assert Counter(batches.values) == Counter(
        numbers(0, 100) + [b"r" + value for value in numbers(0, 30) + numbers(50, 80)]
    )
