"""What a user sees of an error: the text that says everything, and none of the stacks that led to it."""

from __future__ import annotations

import inspect
import pickle
import traceback
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow

from spark_bridge import DataLossError, OptionError, PenstockDataSource, SchemaError
from spark_bridge.plain import FailedReader, plainly
from spark_bridge.reader import PenstockStreamReader
from spark_bridge.schema import source_schema
from tests.spark_bridge.places import Place
from transport import BrokerError

MOST_LINES = 12
"""Of a traceback, which has one or two frames of ours and the error's text."""


def told(error: BaseException) -> list[str]:
    """The lines that Spark's worker makes of an error."""
    return "".join(traceback.format_exception(error)).splitlines()


def test_an_error_that_says_everything_leaves_its_stack_and_its_causes_behind(broker: Any) -> None:
    """Three chained tracebacks of 68 lines and more before."""
    broker.send("q", [b"1"])
    options = {"queue": "q", "subscription": "s", "brokers": broker.receiving}
    reader = PenstockDataSource(options).streamReader(source_schema(include_headers=False))
    with pytest.raises(DataLossError) as caught:
        reader.latestOffset(Place(7), ReadMaxRows(1))
    lines = told(caught.value)
    assert len(lines) <= MOST_LINES
    assert "During handling" not in "\n".join(lines)
    assert "direct cause" not in "\n".join(lines)
    assert lines[-1].startswith("spark_bridge.errors.DataLossError: subscription 's' of queue 'q' no longer holds")
    reader.stop()


def test_the_commonest_causes_come_first(broker: Any) -> None:
    for ack_on in ("commit", "poll"):
        options = {"queue": "q", "subscription": ack_on, "brokers": broker.receiving, "ackOn": ack_on}
        reader = PenstockDataSource(options).streamReader(source_schema(include_headers=False))
        with pytest.raises(DataLossError) as caught:
            reader.latestOffset({"s": ack_on, "pos": 7}, ReadMaxRows(1))
        text = str(caught.value)
        order = [
            text.index(part) for part in ("released", "made anew", "older state", "asynchronous progress tracking")
        ]
        assert order == sorted(order)
        reader.stop()


def test_what_nobody_expected_keeps_its_stack() -> None:
    @plainly
    def defect() -> None:
        raise_deep()

    def raise_deep() -> None:
        raise KeyError("a defect")

    with pytest.raises(KeyError) as caught:
        defect()
    assert "raise_deep" in "\n".join(told(caught.value))


def test_rows_are_handed_on_until_the_error_which_has_no_cause() -> None:
    @plainly
    def rows() -> Any:
        yield 1
        try:
            raise OSError("the socket")
        except OSError as error:
            raise BrokerError("data-loss", "gone") from error

    reading = rows()
    assert next(reading) == 1
    with pytest.raises(BrokerError) as caught:
        next(reading)
    assert len(told(caught.value)) <= MOST_LINES
    assert "the socket" not in "\n".join(told(caught.value))


@pytest.mark.parametrize(
    ("options", "schema", "kind", "text"),
    [
        ({"queue": "q"}, None, OptionError, "option subscription is missing"),
        (
            {"queue": "q", "subscription": "s", "maxrowperbatch": "1"},
            None,
            OptionError,
            "unknown option 'maxrowperbatch'",
        ),
        ({"queue": "q", "subscription": "s"}, "string", SchemaError, "column value is binary, not string"),
    ],
)
def test_a_reader_that_cannot_be_made_says_why_when_it_is_first_asked(
    options: dict[str, str], schema: str | None, kind: type[Exception], text: str
) -> None:
    """`streamReader()` may not raise: Spark's worker then fails at its clean-up, and shows that."""
    from pyspark.sql.types import StringType, StructField, StructType

    columns = (
        source_schema(include_headers=False) if schema is None else StructType([StructField("value", StringType())])
    )
    reader = PenstockDataSource(options).streamReader(columns)
    for asked in (
        lambda made: made.initialOffset(),
        lambda made: made.prepareForTriggerAvailableNow(),
        lambda made: made.getDefaultReadLimit(),
        lambda made: made.latestOffset({}, None),
        lambda made: made.latestOffset(),
        lambda made: made.reportLatestOffset(),
        lambda made: made.partitions({}, {}),
        lambda made: made.commit({}),
        lambda made: made.read(None),
    ):
        with pytest.raises(kind, match=text):
            asked(pickle.loads(pickle.dumps(reader)))
    reader.stop()


def test_spark_finds_in_either_reader_what_it_looks_for() -> None:
    for reader in (FailedReader, PenstockStreamReader):
        assert issubclass(reader, SupportsTriggerAvailableNow)
        assert len(inspect.signature(reader.latestOffset).parameters) > 1, "with self: it takes a start and a limit"
