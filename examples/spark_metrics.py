"""What a query leaves behind, after each batch: backlog, age, rates. `python examples/spark_metrics.py [ADDRESS]`."""

import contextlib
import json
import os
import sys
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from transport import DEFAULT_RECEIVE_ADDRESS


class QueueMetrics(StreamingQueryListener):  # type: ignore[misc]  # PySpark has no type information
    """Prints a line a batch; the place for gauges of one's own."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """The source tells of its queue where Spark has a place for it: in its latest offset."""
        progress, source = event.progress, event.progress.sources[0]
        queue = json.loads(source.latestOffset or "{}")
        rate = f"{source.numInputRows} rows, {source.processedRowsPerSecond:.0f}/s"
        behind = f"{queue.get('backlog', 0)} messages behind, the oldest for {queue.get('oldestMs') or 0} ms"
        print(f"batch {progress.batchId}: {rate}; {behind}; senders may send {queue.get('senderDemand')}", flush=True)

    onQueryStarted = onQueryIdle = onQueryTerminated = lambda *_: None  # noqa: N815 - Spark wants all four


address = sys.argv[1] if len(sys.argv) > 1 else DEFAULT_RECEIVE_ADDRESS
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # for the Python processes that Spark starts
spark = SparkSession.builder.getOrCreate()
spark.streams.addListener(QueueMetrics())
source = spark.readStream.format("penstock").option("brokers", address).option("queue", "orders")
orders = source.option("subscription", "metrics").option("maxRowsPerBatch", 1000).load()
with contextlib.suppress(KeyboardInterrupt):
    orders.writeStream.format("noop").trigger(processingTime="1 second").start().awaitTermination()
