"""The roles of Spark's driver, one a benchmark; each ends when the parent is gone."""

from __future__ import annotations

import os
import tempfile
import threading
import time
import traceback
from array import array
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException

from benchmarks._paced import STAMP, spread
from benchmarks._ready_made import INSTANT, READY_MADE
from benchmarks._spark_session import QUERY_TIMEOUT, session, timed
from benchmarks._worker import Parent

PENSTOCK = "penstock"
FILES = "parquet"
SUBSCRIPTION = "benchmark"
ROW_ROOM = 64
"""Bytes of a row beside its payload that the byte limit of a micro-batch leaves room for: the row limit is to be what bounds it."""


def read(parent: Parent, address: str, size: int, batch: int, cores: int) -> None:
    """Read a queue, or as many ready-made rows, into nothing: once for each time that the parent says what."""
    with session(cores) as spark:
        parent.say(ready=True, spark=spark.version)
        while (asked := parent.wait()) is not None:
            rows_per_batch = asked["rows_per_batch"]
            if asked["kind"] == PENSTOCK:
                frame = _queue(spark, address, asked["queue"], rows_per_batch, size).load()
            else:
                frame = _ready_made(spark, asked["rows"], rows_per_batch, size, batch).load()
            parent.say(**timed(frame.writeStream.format("noop")))


def write(parent: Parent, address: str, size: int, batch: int, rows_per_batch: int, cores: int) -> None:
    """Write ready-made payloads into a queue, or into files: once for each time that the parent says where."""
    with session(cores) as spark:
        parent.say(ready=True, spark=spark.version)
        while (asked := parent.wait()) is not None:
            frame = _ready_made(spark, asked["rows"], rows_per_batch, size, batch).schema("value binary").load()
            if asked["kind"] == PENSTOCK:
                writer = frame.writeStream.format(PENSTOCK).option("brokers", address).option("queue", asked["queue"])
                parent.say(**timed(writer))
                continue
            with tempfile.TemporaryDirectory(prefix="penstock-benchmark-", dir=asked["folder"]) as folder:
                result = timed(frame.writeStream.format(FILES).option("path", folder))
                # Written is what can be read.
                parent.say(**result, stored=spark.read.parquet(folder).count())


def time_rows(parent: Parent, address: str, queue: str, count: int, skip: int, cores: int) -> None:
    """How old rows are when ``foreachBatch`` has them: those of the floor, then ``count`` of a queue but for the first ``skip``."""
    with session(cores) as spark:
        spark.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")
        instant = spark.readStream.format(INSTANT).schema("value binary").load()
        parent.say(ready=True, spark=spark.version)
        asked = parent.wait()
        if asked is None:
            return
        floor = _ages(instant, asked["floor_batches"])
        parent.say(floor_us=spread(floor[asked["floor_skip"] :]))
        frame = _queue(spark, address, queue, count, STAMP.size).schema("value binary").load()
        started = threading.Event()
        ages = _Ages(count, started)
        with tempfile.TemporaryDirectory(prefix="penstock-benchmark-") as checkpoint:
            query = frame.writeStream.foreachBatch(ages).option("checkpointLocation", checkpoint).start()
            # The first micro-batch pays for what all others find made; it is the parent's one message ahead of the schedule.
            if not started.wait(QUERY_TIMEOUT):
                raise TimeoutError("the query has had no rows")
            parent.say(started=True)
            ended = ages.complete.wait(QUERY_TIMEOUT)
            query.stop()
        if not ended:
            raise TimeoutError(f"{len(ages.found)} of {count} rows came")
        parent.say(rows=len(ages.found), batches=ages.batches, latency_us=spread(ages.found[skip:]))


class _Ages:
    """Notes how old each row of a micro-batch is once its rows are at hand."""

    def __init__(self, count: int, started: threading.Event | None = None) -> None:
        self._count = count
        self._started = started
        self.found = array("q")
        self.batches = 0
        self.complete = threading.Event()

    def __call__(self, frame: Any, _batch: int) -> None:
        stamps = frame.toArrow().column("value").to_pylist()
        now = time.monotonic_ns()
        if self._started is not None and not self._started.is_set():
            self._started.set()
            stamps = stamps[1:]
        self.batches += bool(stamps)
        self.found.extend([now - STAMP.unpack_from(stamp)[0] for stamp in stamps])
        if len(self.found) >= self._count:
            self.complete.set()


def _ages(frame: Any, count: int) -> array[int]:
    ages = _Ages(count)
    with tempfile.TemporaryDirectory(prefix="penstock-benchmark-") as checkpoint:
        query = frame.writeStream.foreachBatch(ages).option("checkpointLocation", checkpoint).start()
        ended = ages.complete.wait(QUERY_TIMEOUT)
        query.stop()
    if not ended:
        raise TimeoutError(f"{len(ages.found)} of {count} micro-batches of the floor came")
    return ages.found


def read_slowly(
    parent: Parent, address: str, queue: str, rate: int, folder: str, max_rows_per_batch: int, cores: int
) -> None:
    """Take ``rate`` rows a second from a queue, micro-batch by micro-batch, and count them; stop, go on and end when the parent says so."""
    with session(cores) as spark:
        frame = _queue(spark, address, queue, max_rows_per_batch, 1024).schema("value binary").load()
        count = _Count(rate)
        parent.say(ready=True, spark=spark.version)
        while (asked := parent.wait()) is not None:
            writer = frame.writeStream.foreachBatch(count).option(
                "checkpointLocation", str(Path(folder) / "checkpoint")
            )
            count.expect(asked.get("rows"))
            query = writer.start()
            threading.Thread(target=_end_with, args=(query,), daemon=True).start()
            if count.expected is None:
                if not count.started.wait(QUERY_TIMEOUT):
                    raise TimeoutError("the query has had no rows")
                parent.say(started=True)
                parent.wait()
            elif not count.complete.wait(QUERY_TIMEOUT):
                raise TimeoutError(f"{count.rows} of {count.expected} rows came")
            query.stop()
            parent.say(rows=count.rows, twice_or_missing=count.gaps, samples=count.samples)


def _end_with(query: Any) -> None:
    """End this process when ``query`` fails: whoever waits for its rows would wait in vain."""
    try:
        query.awaitTermination()
    except StreamingQueryException:
        traceback.print_exc()
        os._exit(1)


class _Count:
    """Counts the numbered rows of a query, notices any that is missing, out of place or there twice, and takes its time over them.

    Attributes:
        rows: those of all micro-batches that were completed; one that Spark runs again counts once.
        gaps: micro-batches that did not go on where the last one ended.
        samples: (monotonic seconds, rows so far).
        expected: how many there are to be in all, once that is known.
        started: set once there has been a micro-batch.
        complete: set once there have been as many rows as expected.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._due = 0.0
        self._last = -1
        self.rows = 0
        self.gaps = 0
        self.samples: list[tuple[float, int]] = []
        self.expected: int | None = None
        self.started = threading.Event()
        self.complete = threading.Event()

    def expect(self, rows: int | None) -> None:
        """Set ``complete`` when there have been so many rows in all; never for None."""
        self.expected = rows
        self.complete.clear()
        if self.rows == rows:
            self.complete.set()

    def __call__(self, frame: Any, batch: int) -> None:
        if batch <= self._last:
            # The query was stopped in this one and begins with it again; its rows were counted.
            return
        facts = frame.selectExpr("bigint(string(value)) AS number").selectExpr(
            "count(number) AS rows",
            "min(number) AS least",
            "max(number) AS most",
            "count(DISTINCT number) AS different",
        )
        rows, least, most, different = facts.collect()[0]
        if rows:
            self.gaps += not (least == self.rows and most - least + 1 == rows == different)
        self.rows += rows
        self._last = batch
        self.started.set()
        now = time.monotonic()
        self.samples.append((now, self.rows))
        self._due = max(self._due, now) + rows / self._rate
        time.sleep(max(0.0, self._due - now))
        if self.rows == self.expected:
            self.complete.set()


def _queue(spark: Any, address: str, queue: str, rows_per_batch: int, size: int) -> Any:
    reader = spark.readStream.format(PENSTOCK).option("brokers", address).option("queue", queue)
    reader = reader.option("subscription", SUBSCRIPTION).option("maxRowsPerBatch", rows_per_batch)
    return reader.option("maxBytesPerBatch", rows_per_batch * (size + ROW_ROOM))


def _ready_made(spark: Any, rows: int, rows_per_batch: int, size: int, batch: int) -> Any:
    reader = spark.readStream.format(READY_MADE).option("rows", rows).option("perBatch", rows_per_batch)
    return reader.option("size", size).option("arrowRows", batch)
