"""A driver to be killed: copies a queue to files, one folder a batch, and stands still in the middle of one batch.

Arguments: the broker's receiving address, ackOn, the folder for checkpoint and output, the batch to stand still in.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

from pyspark.sql import SparkSession

from spark_bridge import PenstockDataSource


def end_with_the_test() -> None:
    """A test run that is broken off closes our standard input, and must not leave a driver and its JVM behind."""
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    threading.Thread(target=end_with_the_test, daemon=True).start()
    address, ack_on, folder, last = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    spark.dataSource.register(PenstockDataSource)
    reached = threading.Event()

    def write(rows: Any, batch: int) -> None:
        rows.selectExpr("string(value) AS value").write.mode("overwrite").text(f"{folder}/out/batch={batch}")
        if batch == last:
            reached.set()
            threading.Event().wait()

    stream = spark.readStream.format("penstock").option("queue", "q").option("subscription", "s")
    frame = stream.option("brokers", address).option("ackOn", ack_on).option("maxRowsPerBatch", 1000).load()
    frame.writeStream.foreachBatch(write).option("checkpointLocation", f"{folder}/checkpoint").start()
    reached.wait()
    print("standing still", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
