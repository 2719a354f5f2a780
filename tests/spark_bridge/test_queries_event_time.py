"""Windows over ``enqueued_at``: the broker's time of day is the watermark's event time."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.spark_bridge.queries import CHECKPOINT, MARKS, finish, numbers, source

pytestmark = MARKS

BEGIN = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@pytest.fixture
def time_of_day(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What the broker's clock on the wall shows, to be set; its deadlines go by another."""
    clock = SimpleNamespace(seconds=BEGIN.timestamp())
    monkeypatch.setattr("transport.broker.broker.time", SimpleNamespace(time=lambda: clock.seconds))
    return clock


def test_a_windowed_count_with_a_watermark_emits_each_window_once_and_leaves_out_what_is_late(
    spark: Any, time_of_day: SimpleNamespace, make_broker: Any, tmp_path: Path
) -> None:
    from pyspark.sql import functions

    broker = make_broker(directory=str(tmp_path / "journal"))
    emitted: list[tuple[int, int]] = []

    def keep(frame: Any, number: int) -> None:
        emitted.extend((round(row.begin - BEGIN.timestamp()), row.rows) for row in frame.collect())

    window = functions.window("enqueued_at", "10 seconds")
    frame = source(spark, broker).schema("value binary, enqueued_at timestamp").load()
    counts = frame.withWatermark("enqueued_at", "5 seconds").groupBy(window).agg(functions.count("value").alias("rows"))
    query = counts.select(functions.col("window.start").cast("double").alias("begin"), "rows")

    def send(second: float, rows: int) -> None:
        time_of_day.seconds = BEGIN.timestamp() + second
        broker.send("q", numbers(0, rows))

    def run() -> list[tuple[int, int]]:
        emitted.clear()
        writer = query.writeStream.foreachBatch(keep).outputMode("append").trigger(availableNow=True)
        finish(writer.option("checkpointLocation", str(tmp_path / CHECKPOINT)).start())
        return sorted(emitted)

    send(1.000001, 30)
    send(9.999999, 10)
    send(14.0, 7)
    assert run() == [], "the watermark is 9 s: no window has ended"
    send(16.0, 1)
    assert run() == [(0, 40)]
    # The clock was set back: these belong to a window that is out. Those of 12 s to one that is not.
    send(2.0, 5)
    send(12.0, 2)
    send(40.0, 1)
    assert run() == [(10, 10)]
