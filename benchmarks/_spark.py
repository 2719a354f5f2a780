"""The role of Spark's driver: the product's source and one that yields ready-made Arrow batches, each into a sink that does nothing."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from benchmarks._payloads import make_payloads
from benchmarks._worker import Parent
from spark_bridge import PenstockDataSource
from spark_bridge.arrow import RecordBatchBuilder
from spark_bridge.partitions import PositionRange, split
from spark_bridge.schema import arrow_schema, source_schema
from transport import MessageBatch
from transport.wire import Fetched

if TYPE_CHECKING:
    import pyarrow as pa

QUERY_TIMEOUT = 600
"""Seconds for one query."""
PROGRESS_UPDATES = 100_000
"""More micro-batches than any query here has: their rows are added up afterwards."""
PENSTOCK, READY_MADE = "penstock", "ready-made"


class ReadyMadeSource(DataSource):  # type: ignore[misc]  # PySpark has no type information
    """``rows`` rows in the columns of Penstock's source, of Arrow batches that are built once a task."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return READY_MADE

    def schema(self) -> Any:
        """As Penstock's."""
        return source_schema(include_headers=False)

    def streamReader(self, schema: Any) -> ReadyMadeReader:  # noqa: ARG002, N802 - Spark's signature
        """The reader of one query."""
        return ReadyMadeReader({name: int(self.options[name]) for name in ("rows", "perbatch", "size", "arrowrows")})


class ReadyMadeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # as above
    """Plans as Penstock's reader does, and yields the same batch again and again."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self._numbers = numbers

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Everything is available from the start."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """The first row."""
        return {"pos": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: ARG002, N802 - Spark's signature
        """The next micro-batch."""
        return {"pos": min(start["pos"] + self._numbers["perbatch"], self._numbers["rows"])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[PositionRange]:
        """Split as Penstock's are."""
        return split(start["pos"], end["pos"], 0)

    def read(self, partition: PositionRange) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        ready = ready_made(self._numbers["arrowrows"], self._numbers["size"])
        left = partition.stop - partition.start
        while left > 0:
            yield ready if left >= ready.num_rows else ready.slice(0, left)
            left -= ready.num_rows


def ready_made(rows: int, size: int) -> pa.RecordBatch:
    """One Arrow batch, built the way Penstock's are."""
    batch = MessageBatch.from_payloads(make_payloads(rows, size))
    builder = RecordBatchBuilder(arrow_schema(source_schema(include_headers=False)), READY_MADE, bytes(8))
    return builder.build([Fetched(0, 0, 0, time.time_ns() // 1000, 1, False, batch)])


def drive(parent: Parent, address: str, size: int, batch: int, rows_per_batch: int, cores: int) -> None:
    """Run one query each time the parent says which; ends when the parent is gone."""
    spark = _session(cores)
    try:
        parent.say(ready=True, spark=spark.version)
        while (asked := parent.wait()) is not None:
            rows = asked["rows"]
            if asked["source"] == PENSTOCK:
                reader = spark.readStream.format(PENSTOCK).option("brokers", address).option("queue", asked["queue"])
                # Spark's row limit is to be the one that bounds a micro-batch, here as there.
                reader = reader.option("subscription", "benchmark").option("maxRowsPerBatch", rows_per_batch)
                frame = reader.option("maxBytesPerBatch", rows_per_batch * (size + 64)).load()
            else:
                reader = spark.readStream.format(READY_MADE).option("rows", rows).option("perBatch", rows_per_batch)
                frame = reader.option("size", size).option("arrowRows", batch).load()
            parent.say(**_timed(frame))
    finally:
        spark.stop()


def _timed(frame: DataFrame) -> dict[str, Any]:
    """Run ``frame`` to the end of what is available now."""
    with tempfile.TemporaryDirectory(prefix="penstock-benchmark-") as checkpoint:
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True)
        started = time.monotonic()
        query = writer.start()
        ended = query.awaitTermination(QUERY_TIMEOUT)
        seconds = time.monotonic() - started
        if not ended:
            query.stop()
            raise TimeoutError(f"the query is not through after {QUERY_TIMEOUT} s")
        progress = [one for one in query.recentProgress if one["numInputRows"]]
    return {
        "seconds": seconds,
        "rows": sum(one["numInputRows"] for one in progress),
        "micro_batches": len(progress),
        "add_batch_s": sum(one["durationMs"].get("addBatch", 0) for one in progress) / 1000,
    }


def _session(cores: int) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session: SparkSession = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.numRecentProgressUpdates", str(PROGRESS_UPDATES))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(PenstockDataSource)
    session.dataSource.register(ReadyMadeSource)
    return session
