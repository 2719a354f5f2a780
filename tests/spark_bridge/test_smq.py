"""What a source of the simple message queue sends, Spark reads: in streams, and in frames where sinks have the queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.spark_bridge.queries import MARKS, finish, numbers, source, start, values
from tests.transport.gateways.smq_client import Sink, Source

pytestmark = MARKS
FREE = "127.0.0.1:0"


def send(broker: Any, payloads: list[bytes]) -> None:
    """As a source does, each with an id of its own but the first."""

    async def run() -> None:
        client = await Source.connect(broker.broker.addresses("smq-source")[0])
        for number, payload in enumerate(payloads):
            client.say(payload, number.to_bytes(16, "big") if number else None)
        await client.accepted(len(payloads))
        client.end()
        await client.rest()
        await client.close()

    asyncio.run(run())


def test_a_streaming_query_reads_what_a_source_sends(
    spark: Any, make_broker: Callable[..., Any], tmp_path: Path
) -> None:
    broker = make_broker(smq_source=FREE, smq_queue="q", directory=str(tmp_path / "journal"))
    send(broker, numbers(0, 500))
    rows: list[Any] = []
    finish(start(source(spark, broker).load(), tmp_path, lambda frame, _batch: rows.extend(frame.collect())))
    assert sorted(values(rows)) == sorted(numbers(0, 500))
    by_value = {bytes(row.value): bytes(row.message_id) for row in rows}
    assert by_value[b"7"] == (7).to_bytes(16, "big")


def test_a_frame_reads_what_waits_for_sinks_and_takes_nothing_from_them(
    spark: Any, make_broker: Callable[..., Any]
) -> None:
    broker = make_broker(smq_source=FREE, smq_sink=FREE, smq_queue="q")
    send(broker, numbers(0, 50))
    frame = spark.read.format("penstock").options(queue="q", brokers=broker.receiving).load()
    assert values(frame.orderBy("position").collect()) == numbers(0, 50)

    async def receive() -> list[bytes]:
        sink = await Sink.connect(broker.broker.addresses("smq-sink")[0])
        found = [(await sink.receive()).payload for _ in range(50)]
        await sink.close()
        return found

    assert asyncio.run(receive()) == numbers(0, 50)
