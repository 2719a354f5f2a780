"""A look into a queue that takes nothing from it: messages by sender, counted once. `python examples/spark_batch.py`."""

import argparse
import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from transport import DEFAULT_RECEIVE_ADDRESS

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--address", default=DEFAULT_RECEIVE_ADDRESS)
options = parser.parse_args()

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # for the Python processes that Spark starts
spark = SparkSession.builder.config("spark.sql.shuffle.partitions", 2).getOrCreate()

# Everything that is stored now, received or not. With option subscription it reads what that has reserved.
orders = spark.read.format("penstock").option("brokers", options.address).option("queue", "orders").load()
sender = f.regexp_extract(orders.value.cast("string"), "from (.*)", 1).alias("sender")
orders.groupBy(sender).agg(f.count("*").alias("count"), f.max("position").alias("latest")).show()
