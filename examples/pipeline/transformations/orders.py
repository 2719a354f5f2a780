"""A queue into a table, and what is in the table into another queue, each order once."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()


@dp.table  # type: ignore[untyped-decorator]  # PySpark has no type information
def orders() -> DataFrame:
    """Every message of queue `orders`, and who sent it."""
    messages = (
        spark.readStream.format("penstock")
        .option("brokers", spark.conf.get("spark.penstock.receiving"))
        .option("queue", "orders")
        .option("subscription", "orders-pipeline")
        .load()
    )
    text = messages.value.cast("string")
    sender = f.regexp_extract(text, "from (.*)", 1)
    return messages.select("position", "enqueued_at", text.alias("text"), sender.alias("sender"))


dp.create_sink(
    "confirmations", "penstock", {"queue": "confirmations", "brokers": spark.conf.get("spark.penstock.sending")}
)


@dp.append_flow(target="confirmations")  # type: ignore[untyped-decorator]  # PySpark has no type information
def confirm() -> DataFrame:
    """A message to each sender for each row of the table."""
    return spark.readStream.table("orders").selectExpr("concat('thanks for ', text) AS value", "sender AS key")
