"""Orders counted by the second, each exactly once: sender -> queue -> Spark -> queue -> receiver.

Beside `penstock broker`, in three shells: `python examples/spark_exactly_once.py receive`, `... query`, `... send`. Kill the query,
the broker or both with `kill -9` as often as you like, and start them again: the receiver tells of an order lost or counted twice.
"""

import argparse
import asyncio
import json
import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from streams import Source
from transport import DEFAULT_RECEIVE_ADDRESS, DEFAULT_SEND_ADDRESS, Receiver, Sender

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("part", choices=("send", "query", "receive"))
parser.add_argument("--sending", default=DEFAULT_SEND_ADDRESS)
parser.add_argument("--receiving", default=DEFAULT_RECEIVE_ADDRESS)
parser.add_argument("--checkpoint", default="orders-checkpoint", help="query: where Spark keeps its state")
parser.add_argument("--orders", type=float, default=float("inf"), help="receive: how many to account for (no end)")
options = parser.parse_args()


async def receive(latest: int = -1, accounted: int = 0) -> None:
    """Print each window once every order before it is accounted for; those of one batch come in any order."""
    waiting = {}
    async for delivery in Receiver(options.receiving, queue="orders-by-second", max_in_flight=100):
        if delivery.sequence > latest:  # otherwise it comes again: a broker was killed before it stored that we have it
            latest, window = delivery.sequence, json.loads(delivery.payload)
            waiting[window["first"]] = window
            gaps = window["orders"] != window["last"] - window["first"] + 1
            if gaps or window["first"] < accounted or len(waiting) > 1000:
                sys.exit(f"NOT exactly once: orders below {accounted} are accounted for, and now comes {window}")
        delivery.acknowledge()
        while window := waiting.pop(accounted, None):
            print("{start}: {orders} orders, {first} to {last}".format(**window), flush=True)
            accounted = window["last"] + 1
        if accounted >= options.orders:
            break


if options.part == "send":  # a hundred a second, numbered from 0
    Source.tick(0.01).map(lambda n: b"%d" % n).to(Sender(options.sending, queue="orders")).run_blocking()
elif options.part == "receive":
    asyncio.run(receive())
else:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # for the Python processes that Spark starts
    spark = SparkSession.builder.config("spark.sql.shuffle.partitions", 1).getOrCreate()
    source = spark.readStream.format("penstock").option("brokers", options.receiving)
    orders = source.option("queue", "orders").option("subscription", "orders-by-second").load()
    number = orders.value.cast("string").cast("long")
    windows = orders.withWatermark("enqueued_at", "1 second").groupBy(f.window("enqueued_at", "1 second"))
    counts = windows.agg(f.count("*").alias("orders"), f.min(number).alias("first"), f.max(number).alias("last"))
    results = counts.select(f.to_json(f.struct("window.start", "orders", "first", "last")).alias("value"))
    sink = results.writeStream.format("penstock").option("brokers", options.sending).option("queue", "orders-by-second")
    sink.option("checkpointLocation", options.checkpoint).start().awaitTermination()
