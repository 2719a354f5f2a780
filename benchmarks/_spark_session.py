"""A Spark session on this machine, for the roles that drive one, and the way to run a query to its end."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from benchmarks._ready_made import InstantSource, ReadyMadeSource
from spark_bridge import PenstockDataSource

QUERY_TIMEOUT = 600
"""Seconds for one query."""
PROGRESS_UPDATES = 100_000
"""More micro-batches than any query here has: their rows are added up afterwards."""


@contextmanager
def session(cores: int) -> Iterator[SparkSession]:
    """Spark with ``cores`` local cores and the sources of the benchmarks."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark: SparkSession = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.streaming.numRecentProgressUpdates", str(PROGRESS_UPDATES))
        .getOrCreate()
    )
    try:
        spark.sparkContext.setLogLevel("ERROR")
        for source in (PenstockDataSource, ReadyMadeSource, InstantSource):
            spark.dataSource.register(source)
        yield spark
    finally:
        spark.stop()


def timed(writer: Any) -> dict[str, Any]:
    """Run what ``writer`` writes to the end of what is available now."""
    with tempfile.TemporaryDirectory(prefix="penstock-benchmark-") as checkpoint:
        started = time.monotonic()
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
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
