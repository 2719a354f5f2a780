"""Messages that fit no frame, as AMQP lets them be: a query fails at one and names it, or leaves it out."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from spark_bridge import OptionError, OversizedMessageError, PenstockDataSource
from spark_bridge.options import SourceOptions
from spark_bridge.schema import source_schema
from tests.spark_bridge.places import Place
from tests.spark_bridge.read_as_tasks import values

MOST = 1_000


@pytest.fixture(autouse=True)
def _little_is_oversized() -> Iterator[None]:
    with mock.patch("transport.broker.oversized.MAX_BODY_BYTES", MOST):
        yield


@pytest.fixture
def options(broker: Any) -> dict[str, str]:
    """Of a queue in which the second of three messages is such a one."""
    for body in (b"1", bytes(2 * MOST), b"3"):
        broker.send("q", [body])
    return {"queue": "q", "brokers": broker.receiving}


def test_a_query_fails_at_one_and_names_it_and_it_stays(broker: Any, options: dict[str, str]) -> None:
    reader = PenstockDataSource(options | {"subscription": "s"}).streamReader(source_schema(include_headers=False))
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(10))
    for _ in range(2):
        with pytest.raises(OversizedMessageError) as caught:
            values(reader, Place(0), end)
        text = f"broker {broker.receiving}: message 1 of queue 'q' has 2008 bytes, more than the {MOST} that fit a frame: it stays"
        assert str(caught.value).startswith(text)
        assert "set option oversized to skip" in str(caught.value)
    reader.stop()


def test_one_that_skips_reads_what_is_beside_it_says_so_and_acknowledges_all(
    broker: Any, options: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    given = options | {"subscription": "s", "oversized": "skip"}
    reader = PenstockDataSource(given).streamReader(source_schema(include_headers=False))
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(10))
    with caplog.at_level(logging.WARNING, "penstock"):
        assert values(reader, Place(0), end) == [b"1", b"3"]
    assert "ledger positions 0-3: 1 of them are messages that fit no frame, and skipped" in caplog.text
    reader.commit(end)
    reader.stop()
    with broker.client() as client:
        assert client.open().base == 3


@pytest.mark.parametrize("subscription", ["", "s"])
def test_so_does_a_batch_read(options: dict[str, str], subscription: str) -> None:
    given = options | ({"subscription": subscription} if subscription else {})
    made = PenstockDataSource(given).reader(source_schema(include_headers=False))
    with pytest.raises(OversizedMessageError, match="message 1 of queue 'q'"):
        [batch for task in made.partitions() for batch in made.read(task)]
    made = PenstockDataSource(given | {"oversized": "skip"}).reader(source_schema(include_headers=False))
    found = [
        row for task in made.partitions() for batch in made.read(task) for row in batch.column("value").to_pylist()
    ]
    assert found == [b"1", b"3"]


def test_another_word_is_refused() -> None:
    with pytest.raises(OptionError, match="option oversized has 'cut': expected fail or skip"):
        SourceOptions.parse({"queue": "q", "oversized": "cut"})
