"""What a user sees of an error: the text that says everything, and none of the stacks that led to it."""

from __future__ import annotations

import inspect
import io
import os
import pickle
import re
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from pyspark import util
from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow

from actors.errors import DataLossError as Missing
from spark_bridge import DataLossError, OptionError, PenstockDataSource, SchemaError
from spark_bridge.data_loss import lost
from spark_bridge.options import SourceOptions
from spark_bridge.plain import FailedReader, plainly
from spark_bridge.reader import PenstockStreamReader
from spark_bridge.schema import source_schema
from tests.spark_bridge.places import Place
from transport import BrokerError

MOST_LINES = 12
"""Of a traceback, which has one or two frames of ours and the error's text."""
MOST_CHARACTERS = 500
"""Of an error about what is gone."""


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
    assert lines[-1].startswith("spark_bridge.errors.DataLossError: find out why, then set failOnDataLoss=false")
    reader.stop()


@pytest.mark.parametrize(
    ("position", "stop", "base", "high", "likely"),
    [
        (7, 500_007, 0, 0, "the broker was started without its data directory"),
        (7, 500_007, 0, 5, "the broker was started without its data directory"),
        (5, 500_005, 6, 6, "the subscription was deleted .* and made anew since"),
        (2, 5, 6, 9, "the subscription was deleted .* and made anew since"),
        (2, 5, 5, 5, "they were released .* ackOn=commit"),
        (2, 5, 20, 30, "they were released .* ackOn=commit"),
    ],
)
def test_what_is_gone_is_told_shortly_with_the_likely_cause(
    position: int, stop: int, base: int, high: int, likely: str
) -> None:
    """1,100 characters and seven causes before."""
    given = {"queue": "q", "subscription": "orders-to-lake", "brokers": "10.0.0.5:9183", "ackOn": "poll"}
    text = str(Missing("orders-to-lake", position, stop, base, high))
    strict = str(lost(SourceOptions.parse(given), "10.0.0.5:9183", text, position))
    assert strict.startswith("find out why, then set failOnDataLoss=false to go on without what is gone: subscription ")
    assert f"ledger position {position}, which" in strict
    assert (f"{base} to {high}" in strict) is (high > base)
    assert re.search(f"Most likely {likely}", strict)
    assert len(strict) <= MOST_CHARACTERS
    lenient = str(lost(SourceOptions.parse(given | {"failOnDataLoss": "false"}), "10.0.0.5:9183", text, position))
    assert "failOnDataLoss" not in lenient


@pytest.mark.parametrize("call", ["latestOffset", "read"])
def test_the_number_of_a_request_is_told_nobody(broker: Any, call: str) -> None:
    broker.send("q", [b"1"])
    calls = {"read": lambda client: list(client.fetch(5, 6)), "latestOffset": lambda client: client.reserve(5, 1, 1000)}
    with broker.client() as client, pytest.raises(BrokerError) as refused:
        calls[call](client)
    assert refused.value.text.startswith("ledger positions 5 to 6 of subscription 's' are asked for, it holds 0 to 0")


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
            "unknown option 'maxrowperbatch': did you mean maxRowsPerBatch?",
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


def shown_by_spark(call: Callable[[], object]) -> str:
    """What a worker of Spark's sends to the JVM for an error, which shows it behind words of its own."""
    sent = io.BytesIO()
    try:
        call()
    except Exception as error:  # noqa: BLE001 - as there
        util.handle_worker_exception(error, sent)
    return sent.getvalue()[8:].decode()


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A process that plans and reads for Spark."""
    monkeypatch.setenv("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER")
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")  # so that what is set is taken back
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK")
    return monkeypatch


def test_what_spark_shows_of_our_errors_begins_with_their_text(worker: pytest.MonkeyPatch) -> None:
    """It was the last of 68 lines, then of seven; now there is one."""
    wrong = PenstockDataSource({"queue": "q", "topic": "q"})
    calls: tuple[Callable[[], object], ...] = (
        wrong.schema,
        lambda: wrong.reader(source_schema(include_headers=False)),
        lambda: wrong.streamReader(source_schema(include_headers=False)).initialOffset(),
    )
    for call in calls:
        worker.delenv("SPARK_HIDE_TRACEBACK", raising=False)
        text = shown_by_spark(call)
        assert text.startswith("spark_bridge.errors.OptionError: option topic is an option of Kafka's: say queue")
        assert len(text.splitlines()) == 1


def test_who_asks_spark_for_stacks_gets_them(worker: pytest.MonkeyPatch) -> None:
    worker.setenv("SPARK_HIDE_TRACEBACK", "")
    assert shown_by_spark(PenstockDataSource({"topic": "q"}).schema).startswith("Traceback")


def test_a_defect_is_shown_with_its_stack(worker: pytest.MonkeyPatch) -> None:
    @plainly
    def defect() -> None:
        raise RuntimeError("a defect")

    text = shown_by_spark(defect)
    assert text.startswith("Traceback")
    assert ", in defect" in text


def test_nothing_is_set_outside_sparks_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_PYTHON_RUNTIME", raising=False)
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
    with pytest.raises(OptionError):
        PenstockDataSource({"topic": "q"}).schema()
    assert "SPARK_HIDE_TRACEBACK" not in os.environ
