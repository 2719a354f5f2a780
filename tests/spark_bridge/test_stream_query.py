"""Structured Streaming queries on a real broker: what goes into the queue comes out of the query, once."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from transport import Message

pytestmark = [
    pytest.mark.spark,
    # Two JVMs start in one test, on a machine that may be busy with others.
    pytest.mark.timeout(300),
    # py4j leaves the sockets of its callback threads to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

DRIVER = Path(__file__).with_name("killed_driver.py")
QUERY_SECONDS = 120
DRIVER_SECONDS = 150.0


def numbers(start: int, stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, stop)]


def source(spark: Any, broker: Any, **options: Any) -> Any:
    reader = spark.readStream.format("penstock")
    given = {"queue": "q", "subscription": "s", "brokers": broker.receiving} | options
    return reader.options(**given)


def finish(query: Any) -> None:
    assert query.awaitTermination(QUERY_SECONDS), "the query did not end in time"


def available_now(frame: Any, folder: Path, write: Any) -> Any:
    writer = frame.writeStream.foreachBatch(write).trigger(availableNow=True)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


@pytest.fixture
def batches() -> list[list[Any]]:
    """The rows of every batch that `collect` was given."""
    return []


@pytest.fixture
def collect(batches: list[list[Any]]) -> Any:
    return lambda frame, _: batches.append(frame.collect())


def test_a_query_counts_exactly_in_bounded_batches_and_reports_what_lies_behind(
    spark: Any, broker: Any, tmp_path: Path, batches: list[list[Any]], collect: Any
) -> None:
    broker.send("q", numbers(0, 2500))
    query = available_now(source(spark, broker, maxRowsPerBatch=1000, minPartitions=2).load(), tmp_path, collect)
    finish(query)
    assert [len(rows) for rows in batches] == [1000, 1000, 500]
    rows = [row for batch in batches for row in batch]
    assert [bytes(row.value) for row in rows] == numbers(0, 2500)
    assert [row.position for row in rows] == list(range(2500))
    assert {(row.queue, row.delivery_count, row.key) for row in rows} == {("q", 1, None)}
    assert len({bytes(row.message_id) for row in rows}) == 2500
    reports = [json.loads(progress["sources"][0]["latestOffset"]) for progress in query.recentProgress]
    assert [report["backlog"] for report in reports if "backlog" in report][:3] == [1500, 500, 0]


def test_the_next_run_of_a_query_begins_where_the_last_one_ended(
    spark: Any, broker: Any, tmp_path: Path, batches: list[list[Any]], collect: Any
) -> None:
    for start in (0, 30):
        broker.send("q", numbers(start, start + 30))
        finish(available_now(source(spark, broker).load(), tmp_path, collect))
    assert [[bytes(row.value) for row in rows] for rows in batches] == [numbers(0, 30), numbers(30, 60)]


def test_a_query_reads_only_the_columns_of_its_schema(
    spark: Any, broker: Any, tmp_path: Path, batches: list[list[Any]], collect: Any
) -> None:
    broker.send("q", [Message(b"a", key=b"k", headers={"h": "v"}), Message(b"b")])
    schema = "headers array<struct<key: string, value: binary>>, value binary, enqueued_at timestamp"
    finish(available_now(source(spark, broker).schema(schema).load(), tmp_path, collect))
    first, second = batches[0]
    assert first.asDict(recursive=True).keys() == {"headers", "value", "enqueued_at"}
    assert [(header.key, bytes(header.value)) for header in first.headers] == [("h", b"v")]
    assert second.headers is None
    assert first.enqueued_at == second.enqueued_at


def test_an_unknown_option_ends_the_plan_and_names_the_known_ones(spark: Any, broker: Any) -> None:
    with pytest.raises(Exception, match=r"unknown option 'maxrowperbatch'; known are queue or subscribe, brokers"):
        source(spark, broker, maxRowPerBatch=5).load()


def test_a_task_that_fails_is_repeated_with_the_same_rows(
    spark: Any, broker: Any, tmp_path: Path, batches: list[list[Any]], collect: Any
) -> None:
    broker.send("q", numbers(0, 5000))
    marker = tmp_path / "failed"

    def fail_once(records: Iterator[Any]) -> Iterator[Any]:
        yield from records
        if not marker.exists():
            marker.touch()
            raise RuntimeError("a task fails after it has read all its rows")

    frame = source(spark, broker).schema("value binary").load().mapInArrow(fail_once, "value binary")
    finish(available_now(frame, tmp_path, collect))
    assert marker.exists()
    assert [bytes(row.value) for rows in batches for row in rows] == numbers(0, 5000)


def test_a_query_whose_subscription_another_takes_ends_and_the_other_goes_on(
    spark: Any, broker: Any, tmp_path: Path, batches: list[list[Any]], collect: Any
) -> None:
    broker.send("q", numbers(0, 10))
    writer = source(spark, broker).load().writeStream.format("noop")
    first = writer.option("checkpointLocation", str(tmp_path / "first")).start()
    first.processAllAvailable()
    finish(available_now(source(spark, broker).load(), tmp_path, collect))
    with pytest.raises(Exception, match="another query reads subscription 's' of queue 'q'"):
        first.awaitTermination(QUERY_SECONDS)
    broker.send("q", numbers(10, 20))
    finish(available_now(source(spark, broker).load(), tmp_path, collect))
    assert [bytes(row.value) for row in batches[-1]] == numbers(10, 20)


def kill_in_batch(number: int, ack_on: str, broker: Any, folder: Path) -> None:
    """Runs a driver up to the middle of a batch and kills its processes with SIGKILL."""
    process = subprocess.Popen(
        [sys.executable, str(DRIVER), broker.receiving, ack_on, str(folder), str(number)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(folder / "stderr").open("wb"),
        start_new_session=True,
    )
    with process:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], DRIVER_SECONDS)
        said = process.stdout.readline() if ready else b""
        os.killpg(process.pid, signal.SIGKILL)
    assert said == b"standing still\n", (folder / "stderr").read_text()[-2000:]


@pytest.mark.parametrize(("batch", "ack_on"), [(0, "commit"), (2, "poll")])
def test_a_driver_killed_in_the_middle_of_a_batch_loses_and_repeats_nothing(
    spark: Any, broker: Any, tmp_path: Path, batch: int, ack_on: str
) -> None:
    broker.send("q", numbers(0, 5500))
    kill_in_batch(batch, ack_on, broker, tmp_path)
    broker.send("q", numbers(5500, 6000))

    def write(rows: Any, number: int) -> None:
        rows.selectExpr("string(value) AS value").write.mode("overwrite").text(f"{tmp_path}/out/batch={number}")

    finish(available_now(source(spark, broker, ackOn=ack_on, maxRowsPerBatch=1000).load(), tmp_path, write))
    written = [line.encode() for part in tmp_path.glob("out/batch=*/part-*") for line in part.read_text().splitlines()]
    assert sorted(written, key=int) == numbers(0, 6000)
    assert len(list(tmp_path.glob("out/batch=*"))) == 6
