"""Queries that read an exchange: each has a queue of its own, which is bound before it reads, and gets everything."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from spark_bridge import OptionError
from spark_bridge.options import SourceOptions
from streams import Source
from tests.spark_bridge.queries import MARKS, Batches, failure, finish, start
from transport import Administration, Message, Sender


def parse(**given: str) -> SourceOptions:
    return SourceOptions.parse(given)


def test_an_exchange_and_a_subscription_name_the_subscriptions_own_queue() -> None:
    options = parse(exchange="orders", subscription="lake")
    assert (options.queue, options.exchange, options.binding_keys) == ("orders.lake", "orders", ("#",))
    named = parse(exchange="orders", subscription="lake", queue="mine", bindingKey='["eu.*", "us.[a]"]')
    assert (named.queue, named.binding_keys) == ("mine", ("eu.*", "us.[a]"))
    assert parse(exchange="orders", subscription="lake", bindingkey="eu.*").binding_keys == ("eu.*",)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"exchange": "orders"}, "needs a subscription"),
        ({"exchange": "a b", "subscription": "s"}, "without white space"),
        ({"queue": "q", "bindingKey": "k"}, "belongs to an exchange"),
        ({"exchange": "e", "subscription": "s", "bindingKey": "k" * 256}, "256 bytes exceeds 255"),
        ({"exchange": "e", "subscription": "s", "bindingKey": "[7]"}, "a JSON array of keys"),
        ({"exchange": "e", "subscription": "s", "bindingKey": "[]"}, "a JSON array of keys"),
        ({"exchange": "e", "subscription": "s", "bindingKey": "[x"}, "a JSON array of keys"),
        ({"exchange": "e" * 200, "subscription": "s" * 200}, "name it by option queue"),
    ],
)
def test_options_that_cannot_be_are_told(given: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        SourceOptions.parse(given)


class TestQueries:
    pytestmark = MARKS

    def test_two_queries_that_name_one_exchange_each_get_everything(
        self, spark: Any, make_broker: Any, tmp_path: Path
    ) -> None:
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

    def test_the_queries_of_the_page_have_a_queue_each(self, spark: Any, make_broker: Any, tmp_path: Path) -> None:
        page = (Path(__file__).parents[2] / "docs" / "exchanges.md").read_text("utf-8")
        (block,) = (each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if 'option("exchange"' in each)
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
        self, spark: Any, make_broker: Any, tmp_path: Path
    ) -> None:
        broker = make_broker()
        options = {"exchange": "none", "subscription": "s", "brokers": broker.receiving}
        frame = spark.readStream.format("penstock").options(**options).load()
        assert "there is no exchange 'none'" in failure(start(frame, tmp_path, Batches()))
