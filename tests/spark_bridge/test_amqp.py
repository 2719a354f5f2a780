"""What a client of AMQP publishes Spark reads with its properties, and what Spark writes as properties that client gets (docs/amqp.md)."""

from __future__ import annotations

from typing import Any

import pika

from tests.spark_bridge.queries import MARKS
from tests.spark_bridge.sinks import write_frame

pytestmark = MARKS

PROPERTIES = {"content_type": "text/plain", "priority": 3, "timestamp": 1_700_000_000, "app_id": "shop"}


def test_properties_of_amqp_are_headers_of_a_frame_and_headers_of_a_frame_are_properties(
    spark: Any, make_broker: Any
) -> None:
    broker = make_broker(amqp="127.0.0.1:0")
    host, _, port = str(broker.broker.addresses("amqp")[0]).rpartition(":")
    with pika.BlockingConnection(pika.ConnectionParameters(host, int(port))) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for queue in ("q", "out"):
            channel.queue_declare(queue)
        for number in range(3):
            sent = pika.BasicProperties(headers={"n": number, "own": "é"}, **PROPERTIES)
            channel.basic_publish("", "q", b"%d" % number, sent)
        reader = spark.read.format("penstock").options(queue="q", brokers=broker.receiving, includeHeaders="true")
        frame = reader.load()
        rows = frame.orderBy("position").collect()
        assert [{each.key: bytes(each.value) for each in row.headers} for row in rows] == [
            {
                "amqp.content_type": b"text/plain",
                "amqp.priority": b"3",
                "amqp.timestamp": b"1700000000",
                "amqp.app_id": b"shop",
                "n": b"%d" % number,
                "own": "é".encode(),
            }
            for number in range(3)
        ]
        write_frame(frame.where("position = 1").selectExpr("value", "headers"), broker)
        _, properties, body = channel.basic_get("out", auto_ack=True)
    assert body == b"1"
    # Spark's headers are bytes.
    assert properties == pika.BasicProperties(headers={"n": b"1", "own": "é".encode()}, **PROPERTIES)
