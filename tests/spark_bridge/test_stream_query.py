"""Structured Streaming queries on a real broker: what goes into the queue comes out of the query, once.

What a query must stand beyond that is in the modules test_queries_*.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark_bridge.queries import MARKS, Batches, finish, numbers, source, start
from transport import Message

pytestmark = MARKS

DRIVER = Path(__file__).with_name("killed_driver.py")
DRIVER_SECONDS = 150.0


def test_a_query_counts_exactly_in_bounded_batches_and_reports_what_lies_behind(
    spark: Any, broker: Any, tmp_path: Path
) -> None:
    broker.send("q", numbers(0, 2500))
    batches = Batches()
    query = finish(start(source(spark, broker, maxRowsPerBatch=1000, minPartitions=2).load(), tmp_path, batches))
    assert batches.sizes == [1000, 1000, 500]
    assert batches.values == numbers(0, 2500)
    rows = [row for batch in batches.rows.values() for row in batch]
    assert [row.position for row in rows] == list(range(2500))
    assert {(row.queue, row.delivery_count, row.key) for row in rows} == {("q", 1, None)}
    assert len({bytes(row.message_id) for row in rows}) == 2500
    reports = [json.loads(progress["sources"][0]["latestOffset"]) for progress in query.recentProgress]
    assert [report["backlog"] for report in reports if "backlog" in report][:3] == [1500, 500, 0]


def test_the_next_run_of_a_query_begins_where_the_last_one_ended(spark: Any, broker: Any, tmp_path: Path) -> None:
    batches = Batches()
    for first in (0, 30):
        broker.send("q", numbers(first, first + 30))
        finish(start(source(spark, broker).load(), tmp_path, batches))
    assert batches.sizes == [30, 30]
    assert batches.values == numbers(0, 60)


def test_a_query_reads_only_the_columns_of_its_schema(spark: Any, broker: Any, tmp_path: Path) -> None:
    broker.send("q", [Message(b"a", key=b"k", headers={"h": "v"}), Message(b"b")])
    schema = "headers array<struct<key: string, value: binary>>, value binary, enqueued_at timestamp"
    batches = Batches()
    finish(start(source(spark, broker).schema(schema).load(), tmp_path, batches))
    first, second = batches.rows[0]
    assert first.asDict(recursive=True).keys() == {"headers", "value", "enqueued_at"}
    assert [(header.key, bytes(header.value)) for header in first.headers] == [("h", b"v")]
    assert second.headers is None
    assert first.enqueued_at == second.enqueued_at


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


@pytest.mark.parametrize(("batch", "ack_on"), [pytest.param(0, "commit", marks=pytest.mark.soak), (2, "poll")])
def test_a_driver_killed_in_the_middle_of_a_batch_loses_and_repeats_nothing(
    spark: Any, broker: Any, tmp_path: Path, batch: int, ack_on: str
) -> None:
    broker.send("q", numbers(0, 5500))
    kill_in_batch(batch, ack_on, broker, tmp_path)
    broker.send("q", numbers(5500, 6000))

    def write(rows: Any, number: int) -> None:
        rows.selectExpr("string(value) AS value").write.mode("overwrite").text(f"{tmp_path}/out/batch={number}")

    finish(start(source(spark, broker, ackOn=ack_on, maxRowsPerBatch=1000).load(), tmp_path, write))
    written = [line.encode() for part in tmp_path.glob("out/batch=*/part-*") for line in part.read_text().splitlines()]
    assert sorted(written, key=int) == numbers(0, 6000)
    assert len(list(tmp_path.glob("out/batch=*"))) == 6
