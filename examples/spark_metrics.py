"""What a query leaves behind, after each batch: backlog, age, rates. `python examples/spark_metrics.py`."""

import argparse
import contextlib
import os
import sys

from pyspark.sql import SparkSession

from spark_bridge import QueueListener, QueueProgress
from transport import DEFAULT_RECEIVE_ADDRESS


def show(queue: QueueProgress) -> None:
    """Prints a line a batch; the place for gauges of one's own."""
    rate = f"{queue.rows} rows, {queue.rows_per_second:.0f}/s"
    behind = f"{queue.backlog} messages behind, the oldest for {queue.oldest_ms or 0} ms"
    print(f"batch {queue.batch_id}: {rate}; {behind}; senders may send {queue.sender_demand}", flush=True)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--address", default=DEFAULT_RECEIVE_ADDRESS)
options = parser.parse_args()

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # for the Python processes that Spark starts
spark = SparkSession.builder.getOrCreate()
spark.streams.addListener(QueueListener(show))
source = spark.readStream.format("penstock").option("brokers", options.address).option("queue", "orders")
orders = source.option("subscription", "metrics").option("maxRowsPerBatch", 1000).option("ackOn", "poll").load()
with contextlib.suppress(KeyboardInterrupt):
    orders.writeStream.format("noop").trigger(processingTime="1 second").start().awaitTermination()
