"""Asynchronous progress tracking: Spark plans batches before its log of the ones before is durable.

Spark 4.3 allows it with the sinks noop, console, memory, foreach and Kafka, with processing-time triggers and without state; not with
foreachBatch, files or Python sinks. It writes its log once an interval, so a query that dies begins again at what the log last had. These
tests make the interval longer than they run: only the first batch gets into the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.spark_bridge.queries import CHECKPOINT, MARKS, failure, numbers, source

pytestmark = MARKS

LONGER_THAN_A_TEST_MS = 3_600_000


class ToFiles:
    """A `foreach` sink: the payloads of a task's rows become a file when the task is complete."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)

    def open(self, partition: int, epoch: int) -> bool:
        self._name = f"{epoch}-{partition}"
        self._rows: list[str] = []
        return True

    def process(self, row: Any) -> None:
        self._rows.append(bytes(row.value).decode())

    def close(self, error: Any) -> None:
        if error is None:
            Path(self._folder, self._name).write_text("\n".join(self._rows))


def run(spark: Any, broker: Any, folder: Path, **options: Any) -> Any:
    written = folder / "written"
    written.mkdir(exist_ok=True)
    writer = source(spark, broker, maxRowsPerBatch=10, **options).load().writeStream.foreach(ToFiles(written))
    return writer.options(
        checkpointLocation=str(folder / CHECKPOINT),
        asyncProgressTrackingEnabled="true",
        asyncProgressTrackingCheckpointIntervalMs=str(LONGER_THAN_A_TEST_MS),
    ).start()


def written(folder: Path) -> Iterator[bytes]:
    for file in (folder / "written").iterdir():
        yield from file.read_bytes().split()


def logged_batches(folder: Path) -> list[str]:
    return sorted(file.name for file in (folder / CHECKPOINT / "offsets").iterdir() if file.name.isdigit())


def die_behind_the_log(spark: Any, broker: Any, folder: Path, ack_on: str) -> None:
    """A query that has read five batches and whose log has the first."""
    broker.send("q", numbers(0, 50))
    query = run(spark, broker, folder, ackOn=ack_on)
    query.processAllAvailable()
    query.stop()
    assert sorted(written(folder), key=int) == numbers(0, 50), "it has every row once as long as it lives"
    assert logged_batches(folder) == ["0"]


def test_acknowledging_on_commit_loses_nothing(spark: Any, durable_broker: Any, tmp_path: Path) -> None:
    die_behind_the_log(spark, durable_broker, tmp_path, "commit")
    for file in (tmp_path / "written").iterdir():
        file.unlink()
    durable_broker.send("q", numbers(50, 60))
    query = run(spark, durable_broker, tmp_path, ackOn="commit")
    query.processAllAvailable()
    query.stop()
    assert query.exception() is None
    # Spark goes on behind what its log has; how often a row is written is the sink's business then.
    assert sorted(set(written(tmp_path)), key=int) == numbers(10, 60)


def test_acknowledging_on_poll_is_found_out_by_the_next_run_which_says_what_to_do(
    spark: Any, durable_broker: Any, tmp_path: Path
) -> None:
    die_behind_the_log(spark, durable_broker, tmp_path, "poll")
    text = failure(run(spark, durable_broker, tmp_path, ackOn="poll"))
    assert (
        "subscription 's' of queue 'q' no longer holds ledger position 10, which the query's checkpoint refers to"
        in text
    )
    assert "With asynchronous progress tracking use ackOn=commit." in text


def test_a_full_queue_acknowledged_ahead_of_the_log_is_found_out_and_says_what_to_do(
    spark: Any, make_broker: Any, tmp_path: Path
) -> None:
    broker = make_broker(directory=str(tmp_path / "journal"), max_queue_messages=10)
    query = run(spark, broker, tmp_path, ackOn="commit")
    for first in range(0, 40, 10):
        broker.send("q", numbers(first, first + 10))
        query.processAllAvailable()
    query.stop()
    assert sorted(written(tmp_path), key=int) == numbers(0, 40)
    text = failure(run(spark, broker, tmp_path, ackOn="commit"))
    assert (
        "With asynchronous progress tracking the queue needs more room: a full one is acknowledged before Spark's log is durable"
        in text
    )
