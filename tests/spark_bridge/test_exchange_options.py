"""The options and columns with which Spark reads an exchange, and writes to one."""

from __future__ import annotations

import pytest

from spark_bridge import OptionError
from spark_bridge.errors import SchemaError
from spark_bridge.options import SourceOptions
from spark_bridge.sink_options import SinkOptions
from spark_bridge.sink_schema import check_sink_schema


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


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"exchange": "e", "queue": "q"}, "rows go to one of them"),
        ({"routingKey": "k"}, "belongs to an exchange"),
        ({"exchange": "e", "routingKey": "k" * 256}, "256 bytes exceeds 255"),
    ],
)
def test_options_of_a_sink_that_cannot_be_are_told(given: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        SinkOptions.parse(given)


@pytest.mark.parametrize(
    ("columns", "exchange", "text"),
    [
        (("value", "key", "routingKey"), "e", "a message has one key"),
        (("value", "queue"), "e", "rows go to the exchange"),
        (("value", "routingKey"), None, "belongs to an exchange"),
    ],
)
def test_columns_of_a_sink_that_cannot_be_are_told(columns: tuple[str, ...], exchange: str | None, text: str) -> None:
    types = pytest.importorskip("pyspark.sql.types")
    schema = types.StructType([types.StructField(name, types.StringType()) for name in columns])
    with pytest.raises(SchemaError, match=text):
        check_sink_schema(schema, None if exchange else "q", exchange)
