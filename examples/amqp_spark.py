"""A Spark query over what pika publishes: sales by product, summed once. `python examples/amqp_spark.py`."""

import argparse
import os
import sys

import pika
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from transport import DEFAULT_RECEIVE_ADDRESS

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--port", type=int, default=5672, help="of `penstock broker --amqp` (5672)")
parser.add_argument("--address", default=DEFAULT_RECEIVE_ADDRESS, help="where it listens for receivers")
options = parser.parse_args()

with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", options.port)) as connection:
    channel = connection.channel()
    channel.queue_delete("sales")  # with what a run has left there that found no Java, or was cut off
    channel.queue_declare("sales", durable=True)
    channel.confirm_delivery()
    for number in range(1, 101):
        body = f'{{"product": "{"tea" if number % 4 else "coffee"}", "euros": {number}}}'
        channel.basic_publish("", "sales", body.encode())

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # for the Python processes that Spark starts
spark = SparkSession.builder.config("spark.sql.shuffle.partitions", 2).getOrCreate()
sales = (
    spark.readStream.format("penstock")
    .option("brokers", options.address)
    .option("queue", "sales")
    .option("subscription", "sales-by-product")
    .option("ackOn", "poll")  # there is no checkpoint below: see spark_query.py
    .load()
)
sale = f.from_json(sales.value.cast("string"), "product STRING, euros INT").alias("sale")
totals = sales.select(sale).groupBy("sale.product").agg(f.sum("sale.euros").alias("euros"))
totals.writeStream.outputMode("complete").format("console").trigger(availableNow=True).start().awaitTermination()
