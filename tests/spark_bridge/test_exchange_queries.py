"""Queries that read an exchange, each through a queue of its own and each everything, and queries that write to one."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from streams import Source
from tests.spark_bridge.queries import MARKS, Batches, failure, finish, start
from tests.spark_bridge.sinks import payloads
from transport import Administration, Message, Sender

pytestmark = MARKS


def test_a_frame_is_published_to_an_exchange_all_of_it_at_once_and_once(
    spark: Any, make_broker: Any, tmp_path: Path
) -> None:
    broker = make_broker(directory=str(tmp_path / "data"))

    async def declare() -> None:
        async with Administration(broker.sending) as administration:
            for queue, key in (("eu", "eu.*"), ("all", "#")):
                await administration.create_queue(queue)
                await administration.bind("amq.topic", queue, key)

    asyncio.run(declare())
    rows = [(b"%d" % number, "eu.tea" if number % 2 else None) for number in range(100)]
    frame = spark.createDataFrame(rows, "value binary, routingKey string").repartition(3)
    options = {
        "exchange": "amq.topic",
        "routingKey": "us.tea",
        "brokers": broker.sending,
        "writer": "w",
        "version": "1",
    }
    for _ in range(2):
        frame.write.format("penstock").mode("append").options(**options).save()

    async def stored() -> dict[str, int]:
        async with Administration(broker.sending) as administration:
            return {row["name"]: row["ready"] for row in await administration.queues()}

    assert asyncio.run(stored()) == {"eu": 50, "all": 100}


def test_a_query_publishes_each_batch_to_an_exchange_once(spark: Any, make_broker: Any, tmp_path: Path) -> None:
    broker = make_broker(directory=str(tmp_path / "data"))

    async def declare() -> None:
        async with Administration(broker.sending) as administration:
            for queue in ("one", "two"):
                await administration.create_queue(queue)
                await administration.bind("amq.fanout", queue)

    asyncio.run(declare())
    broker.send("q", [b"1", b"2", b"3"])
    frame = spark.readStream.format("penstock").options(queue="q", subscription="s", brokers=broker.receiving).load()
    writer = frame.select("value").writeStream.format("penstock").trigger(availableNow=True)
    writer = writer.options(exchange="amq.fanout", brokers=broker.sending)
    finish(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start())
    for queue in ("one", "two"):
        assert sorted(payloads(broker, queue)) == [b"1", b"2", b"3"]


def test_two_queries_that_name_one_exchange_each_get_everything(spark: Any, make_broker: Any, tmp_path: Path) -> None:
    broker = make_broker(directory=str(tmp_path / "data"))
    batches = {name: Batches() for name in ("lake", "alarm")}

    def run(name: str) -> None:
        options = {"exchange": "amq.topic", "subscription": name, "brokers": broker.receiving}
        if name == "alarm":
            options["bindingKey"] = '["order.late", "order.lost"]'
        frame = spark.readStream.format("penstock").options(**options).load()
        finish(start(frame, tmp_path / name, batches[name]))

    def publish(*keys: str) -> None:
        messages = [Message(key.encode(), routing_key=f"order.{key}") for key in keys]
        sender = Sender(broker.sending, exchange="amq.topic", mandatory=True)
        Source.from_iterable(messages).to(sender).run_blocking()

    run("lake")
    run("alarm")
    publish("new", "late")
    run("lake")
    publish("lost", "new")
    run("lake")
    run("alarm")
    assert batches["lake"].values == [b"new", b"late", b"lost", b"new"]
    assert batches["alarm"].values == [b"late", b"lost"]


def test_a_query_that_comes_back_with_another_key_gets_what_that_one_takes_and_nothing_by_the_one_of_before(
    spark: Any, make_broker: Any, tmp_path: Path
) -> None:
    broker = make_broker(directory=str(tmp_path / "data"))
    batches = Batches()

    def run(key: str) -> None:
        options = {"exchange": "amq.topic", "subscription": "s", "bindingKey": key, "brokers": broker.receiving}
        finish(start(spark.readStream.format("penstock").options(**options).load(), tmp_path / "query", batches))

    def publish(*messages: tuple[bytes, str]) -> None:
        rows = [Message(payload, routing_key=key) for payload, key in messages]
        Source.from_iterable(rows).to(Sender(broker.sending, exchange="amq.topic")).run_blocking()

    run('["eu.*", "all"]')
    publish((b"1", "eu.tea"), (b"2", "us.tea"))
    run('["us.*", "all"]')
    publish((b"3", "eu.tea"), (b"4", "us.tea"), (b"5", "all"))
    run('["us.*", "all"]')
    assert batches.values == [b"1", b"4", b"5"], "what was in the queue stays in it"


def test_the_queries_of_the_page_have_a_queue_each(spark: Any, make_broker: Any, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "exchanges.md").read_text("utf-8")
    (block,) = (each for each in re.findall(r"```py\n(.*?)```", page, re.DOTALL) if 'option("exchange"' in each)
    broker = make_broker()

    async def declare() -> None:
        async with Administration(broker.sending) as administration:
            await administration.declare_exchange("orders", "topic")

    asyncio.run(declare())
    placed = block.replace('format("penstock")', f'format("penstock").option("brokers", "{broker.receiving}")')
    names: dict[str, Any] = {"spark": spark}
    for name in ("lake", "alarm"):
        exec(placed.replace('("lake", "alarm")', f'("{name}",)'), names)
        finish(start(names["orders"], tmp_path / name, Batches()))

    async def queues() -> list[str]:
        async with Administration(broker.sending) as administration:
            return [row["destination"] for row in await administration.bindings("orders")]

    assert asyncio.run(queues()) == ["orders.lake", "orders.alarm"]


def test_an_exchange_that_is_not_there_ends_the_query_with_its_name(
    spark: Any, make_broker: Any, tmp_path: Path
) -> None:
    broker = make_broker()
    options = {"exchange": "none", "subscription": "s", "brokers": broker.receiving}
    frame = spark.readStream.format("penstock").options(**options).load()
    assert "there is no exchange 'none'" in failure(start(frame, tmp_path, Batches()))
