"""A Spark query over the queue: messages by sender, anew with each batch. `python examples/spark_query.py [--now]`."""

import argparse
import contextlib
import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from transport import DEFAULT_RECEIVE_ADDRESS

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--address", default=DEFAULT_RECEIVE_ADDRESS)
parser.add_argument("--now", action="store_true", help="take what is in the queue, then end")
options = parser.parse_args()

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # for the Python processes that Spark starts
# Without .master() the same program runs as it is, under spark-submit, and with SPARK_REMOTE=sc://... through Spark Connect.
spark = SparkSession.builder.config("spark.sql.shuffle.partitions", 2).getOrCreate()

orders = (
    spark.readStream.format("penstock")
    .option("brokers", options.address)
    .option("queue", "orders")
    .option("subscription", "messages-by-sender")
    .option("ackOn", "poll")  # there is no checkpoint below: without this the next run reads the last batch again
    .load()
)
sender = f.regexp_extract(orders.value.cast("string"), "from (.*)", 1).alias("sender")

# To go on after a restart where it stopped, a query needs .option("checkpointLocation", "a folder").
output = orders.groupBy(sender).count().writeStream.outputMode("complete").format("console")
query = (output.trigger(availableNow=True) if options.now else output).start()

with contextlib.suppress(KeyboardInterrupt):
    query.awaitTermination()
