"""Frames of a queue: ``spark.read.format("penstock")`` on real brokers."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from spark_bridge.acknowledging import acknowledge
from streams import Sink
from tests.spark_bridge.queries import MARKS, numbers
from transport import Message, MessageBatch, Receiver

pytestmark = MARKS
DEADLINE = 60.0


def frame(spark: Any, *brokers: Any, **options: Any) -> Any:
    given = {"queue": "q", "brokers": ",".join(broker.receiving for broker in brokers)} | options
    return spark.read.format("penstock").options(**given).load()


def receive(broker: Any, count: int) -> None:
    """Takes and acknowledges the next ``count`` messages."""

    async def run() -> None:
        await Receiver(broker.receiving, queue="q", limit=count).to(Sink.acknowledge()).run()

    asyncio.run(run())


def stored(broker: Any) -> int:
    from actors import GetStatistics

    async def ask() -> Any:
        return await broker.broker.queues.get("q").ask(GetStatistics(), block=False)

    facts = asyncio.run_coroutine_threadsafe(ask(), broker._loop).result(DEADLINE)
    assert (facts.in_flight, facts.reserved) == (0, 0)
    return int(facts.ready)


def test_a_frame_is_planned_once_and_leaves_the_queue_as_it_was(spark: Any, broker: Any) -> None:
    broker.send("q", numbers(0, 5000))
    read = frame(spark, broker, minPartitions=3)
    assert read.count() == 5000
    broker.send("q", numbers(5000, 5010))
    both = read.union(read).selectExpr("count(*) AS rows", "count(DISTINCT position) AS messages").first()
    assert (both.rows, both.messages) == (10_000, 5000), "of the frame as it was first read"
    assert stored(broker) == 5010
    receive(broker, 1000)
    assert read.count() == 4000, "what is acknowledged is gone from every frame"
    assert frame(spark, broker).count() == 4010


def test_a_frame_has_the_columns_of_the_messages_or_those_of_the_users_schema(spark: Any, broker: Any) -> None:
    broker.send("q", [Message(b"a", key=b"k", headers={"h": "v"}), Message(b"b")])
    first, second = frame(spark, broker, includeHeaders="true").orderBy("position").collect()
    assert (bytes(first.value), bytes(first.key), first.queue, first.position) == (b"a", b"k", "q", 0)
    assert [(header.key, bytes(header.value)) for header in first.headers] == [("h", b"v")]
    assert (second.key, second.headers, second.delivery_count, second.possibly_replayed) == (None, None, 0, False)
    chosen = spark.read.format("penstock").schema("position bigint, value binary")
    rows = chosen.options(queue="q", brokers=broker.receiving, startingPosition=1).load().collect()
    assert [row.asDict() for row in rows] == [{"position": 1, "value": bytearray(b"b")}]


def test_a_frame_read_while_receivers_acknowledge_has_nothing_twice_and_all_that_nobody_took(
    spark: Any, durable_broker: Any
) -> None:
    durable_broker.send("q", [MessageBatch.from_payloads(numbers(at, at + 500)) for at in range(0, 200_000, 500)])
    reading = threading.Event()

    def acknowledge_half() -> None:
        assert reading.wait(DEADLINE)
        receive(durable_broker, 100_000)

    taker = threading.Thread(target=acknowledge_half)
    taker.start()
    read = frame(spark, durable_broker, minPartitions=8)
    reading.set()
    facts = read.selectExpr(
        "count(*) AS rows",
        "count(DISTINCT position) AS messages",
        "count_if(position >= 100000) AS kept",
        "count_if(string(value) != string(position)) AS wrong",
    ).first()
    taker.join(DEADLINE)
    assert not taker.is_alive()
    assert (facts.rows, facts.kept, facts.wrong) == (facts.messages, 100_000, 0)
    assert read.count() == 100_000, "what was left when they were done"


def test_a_subscription_is_read_again_and_again_until_it_is_acknowledged(spark: Any, durable_broker: Any) -> None:
    durable_broker.send("q", numbers(0, 3000))
    read = frame(spark, durable_broker, subscription="s", minPartitions=2)
    assert read.count() == 3000
    assert sorted(int(bytes(row.value)) for row in read.union(read).collect()) == sorted([*range(3000), *range(3000)])
    durable_broker.send("q", numbers(3000, 3010))
    receive(durable_broker, 10)
    assert acknowledge(queue="q", subscription="s", brokers=durable_broker.receiving) == 3000
    assert stored(durable_broker) == 0
    with pytest.raises(Exception, match=r"PlanOutdatedError: .* an acknowledgement has taken subscription 's' since"):
        read.count()


def test_a_queue_that_does_not_exist_and_a_bad_option_end_the_action_with_words(spark: Any, broker: Any) -> None:
    with pytest.raises(Exception, match=r"QueueMissingError: there is no queue 'q' \(brokers 127\.0\.0\.1"):
        frame(spark, broker).count()
    with pytest.raises(Exception, match="endingPosition 1 is before startingPosition 2"):
        frame(spark, broker, startingPosition=2, endingPosition=1).count()
    assert broker.on_loop(lambda: list(broker.broker.queues)) == []
