"""The query's process: Spark counts what comes out of the queue, a micro-batch at a time, and is made slow in its middle.

On its standard output it tells what happens, a line of JSON each; when its standard input ends it finishes what is in the queue, tells the
counts and stops.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_bridge import PenstockDataSource

IMPORT = (
    r"^[ \t]*(?:from(?=[ \t]+[A-Za-z0-9_.]+[ \t]+import[ \t(*\\])"
    r"|import(?=[ \t]+[A-Za-z0-9_.]+(?:[ \t]*(?:[,;#\r]|\z)|[ \t]+as[ \t])))"
    r"[ \t]+([A-Za-z_][A-Za-z0-9_]*)"
)
"""What counts as an import: the docstring of `examples.demo.counting` states it. Group 1 is the module."""

Told = dict[str, Any]


def counted(lines: DataFrame) -> DataFrame:
    """How often each (kind, name) is in ``lines``: each line counts for its package, and for the module it imports."""
    # Every byte is a character in this encoding, so no line is undecodable; what is looked for is ASCII.
    module: Column = f.regexp_extract(f.decode("value", "ISO-8859-1"), IMPORT, 1)
    package = f.struct(f.lit("lines").alias("kind"), f.col("key").alias("name"))
    imported = f.struct(f.lit("imports").alias("kind"), f.nullif(module, f.lit("")).cast("binary").alias("name"))
    each = lines.select(f.explode(f.array(package, imported)).alias("counted")).select("counted.*")
    return each.where("name is not null").groupBy("kind", "name").count()


class Tally:
    """The counts so far, added to a micro-batch at a time, and the slow middle.

    Args:
        slow_from: lines counted from which on batches are slow.
        slow_batches: how many of them.
        slow_seconds: what a slow batch takes at least.
    """

    def __init__(self, slow_from: int, slow_batches: int, slow_seconds: float) -> None:
        self.counts: dict[str, Counter[str]] = {"lines": Counter(), "imports": Counter()}
        self.next_batch = 0
        self._slow_from = slow_from
        self._slow_batches = slow_batches
        self._slow_seconds = slow_seconds
        self._is_slow = False
        self._never = threading.Event()

    def add(self, batch: DataFrame, number: int) -> None:
        """Add one micro-batch; called by Spark, which after a failure may call again with the same."""
        if number < self.next_batch:
            return
        self._change_pace()
        began = time.monotonic()
        rows = counted(batch).collect()
        for kind, name, n in rows:
            self.counts[kind][os.fsdecode(bytes(name))] += n
        self.next_batch = number + 1
        if self._is_slow:
            self._never.wait(max(0.0, began + self._slow_seconds - time.monotonic()))
        tell({"batch": number, "lines": self.counts["lines"].total()})

    def _change_pace(self) -> None:
        """Be slow for so many batches from so many lines on."""
        slow = self._slow_batches > 0 and self.counts["lines"].total() >= self._slow_from
        if slow:
            self._slow_batches -= 1
        if slow != self._is_slow:
            self._is_slow = slow
            tell({"slow": slow})


def tell(what: Told) -> None:
    """One line of JSON for the process that started this one."""
    print(json.dumps(what), flush=True)


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """Spark on this machine, as quiet and as quick to start as it can be."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.log.level": "ERROR",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.master("local[2]").appName("penstock demo").getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def run(options: argparse.Namespace) -> None:
    """Query the queue until the standard input ends and the queue is empty."""
    tally = Tally(options.slow_from, options.slow_batches, options.slow_seconds)
    with spark_session() as spark:
        spark.dataSource.register(PenstockDataSource)
        lines = (
            spark.readStream.format("penstock")
            .option("brokers", options.address)
            .option("queue", options.queue)
            .option("subscription", "demo")
            .option("maxRowsPerBatch", options.batch_rows)
            .load()
            .select("key", "value")
        )
        query = lines.writeStream.foreachBatch(tally.add).option("checkpointLocation", options.checkpoint).start()
        watch_input(query)
        query.awaitTermination()
    tell({"counts": tally.counts})


def watch_input(query: Any) -> None:
    """Stop the query when the standard input has ended and everything in the queue is counted."""

    def finish() -> None:
        # Not through sys.stdin: a thread that reads there holds a lock that the interpreter wants when it ends.
        while os.read(sys.stdin.fileno(), 4096):
            pass
        query.processAllAvailable()
        query.stop()

    threading.Thread(target=finish, name="end of input", daemon=True).start()


def end_together() -> None:
    """Have SIGTERM end all of this process's group: a worker of Spark's that looks for its broker would go on for a while."""

    def end(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        os.killpg(0, number)

    if os.getpgrp() == os.getpid():
        signal.signal(signal.SIGTERM, end)


def main() -> None:
    """Read the options and run."""
    end_together()
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("queue")
    parser.add_argument("checkpoint")
    parser.add_argument("--batch-rows", type=int, required=True)
    parser.add_argument("--slow-from", type=int, required=True)
    parser.add_argument("--slow-batches", type=int, required=True)
    parser.add_argument("--slow-seconds", type=float, required=True)
    run(parser.parse_args())


if __name__ == "__main__":
    main()
