"""What a user reads who has made a mistake: the reason, and what to do, in ``query.exception()`` or where the frame is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark_bridge.queries import MARKS, Batches, failure, finish, numbers, release, source, start

pytestmark = MARKS

MOST_LINES = 40
"""Of what a query's exception says, Spark's own frames included: 68 and more, when errors still came with their causes."""


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"maxRowPerBatch": 5},
            r"unknown option 'maxrowperbatch': did you mean maxRowsPerBatch\? Known are queue or subscribe, exchange, bindingKey, ",
        ),
        ({"maxRowsPerBatch": "many"}, "option maxRowsPerBatch has 'many': expected a whole number of at least 1"),
        ({"queue": "a queue"}, "option queue has 'a queue': a name is printable and without white space"),
        ({"brokers": "nowhere"}, "option brokers has 'nowhere'"),
    ],
    ids=["unknown", "no number", "bad queue", "no address"],
)
def test_a_wrong_option_is_refused_where_the_frame_is_loaded(
    spark: Any, broker: Any, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(Exception, match=told):
        source(spark, broker, **options).load()


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ("value string", "SchemaError: column value is binary, not string; read it as it is and cast afterwards"),
        (
            "value binary, offset bigint",
            "SchemaError: there is no column 'offset'; the columns are value binary, key binary",
        ),
    ],
    ids=["type", "name"],
)
def test_a_schema_that_does_not_match_ends_the_query(
    spark: Any, broker: Any, tmp_path: Path, schema: str, told: str
) -> None:
    assert told in failure(start(source(spark, broker).schema(schema).load(), tmp_path, Batches()))


def test_an_error_in_making_the_reader_is_in_the_exception_of_the_query(
    spark: Any, broker: Any, tmp_path: Path
) -> None:
    reader = spark.readStream.format("penstock").option("queue", "q").option("brokers", broker.receiving)
    text = failure(start(reader.load(), tmp_path, Batches()))
    assert "OptionError: option subscription is missing: name what this query's progress is kept under" in text
    assert '.option("subscription", "orders-to-lake")' in text
    assert "UnboundLocalError" not in text
    assert len(text.splitlines()) <= MOST_LINES


def test_an_error_in_reading_is_in_the_exception_of_the_query(spark: Any, broker: Any, tmp_path: Path) -> None:
    broker.send("q", numbers(0, 10))

    def release_first(number: int) -> None:
        assert release(broker) == 10

    batches = Batches(first=release_first)
    text = failure(start(source(spark, broker).load(), tmp_path, batches))
    assert (
        "DataLossError: find out why, then set failOnDataLoss=false to go on without what is gone: subscription 's' of queue 'q' "
        f"no longer holds ledger position 0, which the query's checkpoint refers to: at broker {broker.receiving} it stands at 10 and "
        "holds none. Most likely they were released"
    ) in text
    assert len(text.splitlines()) <= MOST_LINES
    assert batches.rows == {}


def test_a_queue_that_does_not_exist_is_made_and_waits_for_its_messages(
    spark: Any, durable_broker: Any, tmp_path: Path
) -> None:
    """As for any receiver: a query may start before its first sender."""
    batches = Batches()
    finish(start(source(spark, durable_broker, queue="later").load(), tmp_path, batches))
    assert batches.values == []
    durable_broker.send("later", numbers(0, 10))
    finish(start(source(spark, durable_broker, queue="later").load(), tmp_path, batches))
    assert batches.values == numbers(0, 10)


def test_a_queue_that_takes_no_subscription_ends_the_query_and_says_what_to_use(
    spark: Any, make_broker: Any, tmp_path: Path
) -> None:
    broker = make_broker(exclusive=True)
    text = failure(start(source(spark, broker).load(), tmp_path, Batches()))
    assert "queue 'q' is exclusive: one receiver has it, in strict order" in text


def test_the_address_for_senders_ends_the_query_and_says_what_it_is(spark: Any, broker: Any, tmp_path: Path) -> None:
    """9182 for 9183: the two are easily confused."""
    text = failure(start(source(spark, broker, brokers=broker.sending).load(), tmp_path, Batches()))
    assert f"OptionError: {broker.sending} serves no subscriptions: option brokers of a source takes receiving" in text
