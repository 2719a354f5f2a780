"""Subscriptions that nobody uses, on a broker: forgotten after a time, and a query that comes back later is told."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from actors.errors import SubscriptionNotFoundError
from spark_bridge import DataLossError, PenstockDataSource, SubscriptionTakenError
from spark_bridge.ledger import explained
from spark_bridge.options import SourceOptions
from spark_bridge.reader import PenstockStreamReader
from spark_bridge.schema import source_schema
from tests.spark_bridge.places import Place
from transport import BrokerError

DEADLINE = 30.0
MANY = ReadMaxRows(1000)
EXPIRY = 0.05
"""Seconds: a broker's grace is no longer."""


class Said(logging.Handler):
    """Waits for what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.heard = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "was forgotten" in record.getMessage():
            self.lines.append(record.getMessage())
            self.heard.set()


@pytest.fixture
def forgotten() -> Iterator[Said]:
    handler = Said()
    logger = logging.getLogger("penstock.queue")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def reader_of(broker: Any, **given: str) -> PenstockStreamReader:
    options = {"queue": "q", "subscription": "s", "brokers": broker.receiving} | given
    made = PenstockDataSource(options).streamReader(source_schema(include_headers=False))
    assert isinstance(made, PenstockStreamReader)
    return made


@pytest.mark.parametrize("acknowledged", [False, True])
def test_a_query_that_returns_after_its_subscription_was_forgotten_is_told_and_skips_nothing_silently(
    make_broker: Callable[..., Any], tmp_path: Any, forgotten: Said, acknowledged: bool
) -> None:
    """Whether its last batch was acknowledged or not: the new ledger does not begin where its checkpoint stands."""
    broker = make_broker(directory=str(tmp_path), subscription_expiry=EXPIRY)
    broker.send("q", [b"1", b"2", b"3"])
    reader = reader_of(broker)
    end = reader.latestOffset(reader.initialOffset(), MANY)
    if acknowledged:
        reader.commit(end)
    reader.stop()
    assert forgotten.heard.wait(DEADLINE)
    held = 0 if acknowledged else 3
    assert f"subscription s of queue q was forgotten: nobody used it for 0 s; {held} messages" in forgotten.lines[0]
    broker.stop()
    again = make_broker(directory=str(tmp_path))
    late = reader_of(again)
    with pytest.raises(DataLossError, match=r"forgotten .*subscription_expiry"):
        late.latestOffset(end, MANY)
    late.stop()
    tolerant = reader_of(again, failOnDataLoss="false")
    begun = tolerant.latestOffset(end, MANY)
    assert begun == Place(4)
    assert tolerant.latestOffset(begun, MANY) == (Place(4) if acknowledged else Place(7))
    tolerant.stop()


def test_a_query_that_lives_keeps_its_subscription_beyond_the_time(
    make_broker: Callable[..., Any], forgotten: Said
) -> None:
    """Another that nobody uses is the clock: it is forgotten while this one is as quiet."""
    broker = make_broker(subscription_expiry=EXPIRY)
    broker.send("q", [b"1"])
    lives, other = reader_of(broker), reader_of(broker, subscription="t")
    end = lives.latestOffset(lives.initialOffset(), MANY)
    other.initialOffset()
    other.stop()
    assert forgotten.heard.wait(DEADLINE)
    assert [line.split()[1] for line in forgotten.lines] == ["t"]
    assert [row for task in lives.partitions(Place(0), end) for batch in lives.read(task) for row in batch.column(0)]
    lives.commit(end)
    lives.stop()


def test_a_query_whose_subscription_was_deleted_is_not_told_that_its_queue_is_missing() -> None:
    options = SourceOptions.parse({"queue": "q", "subscription": "s", "missingQueue": "fail"})
    with pytest.raises(DataLossError, match="there is no subscription 's'"), explained(options, "a:1"):
        raise BrokerError("not-found", str(SubscriptionNotFoundError("s")))


@pytest.mark.parametrize("code", ["stale-epoch", "taken-over"])
def test_a_query_whose_subscription_another_one_has_now_is_told_so(code: str) -> None:
    options = SourceOptions.parse({"queue": "q", "subscription": "s"})
    with pytest.raises(SubscriptionTakenError, match="another query has taken over"), explained(options, "a:1"):
        raise BrokerError(code, "a newer connection owns this subscription")


def test_a_query_without_a_checkpoint_is_told_that_it_reads_the_last_batch_again_and_what_to_do(
    make_broker: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    broker = make_broker()
    for held in (0, 1, 2):
        reader = reader_of(broker)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "penstock.spark"):
            start = reader.initialOffset()
            reader.initialOffset()
            if held < 2:
                broker.send("q", [b"1"])
            end = reader.latestOffset(start, MANY)
            reader.latestOffset(end, MANY)
        told = [record.getMessage() for record in caplog.records if "an earlier run reserved" in record.getMessage()]
        assert len(told) == bool(held)
        if held:
            assert f"still has {'1 message' if held == 1 else '2 messages'} that" in told[0]
            assert "before its first batch was in the checkpoint: then there is nothing to do. Or " in told[0]
        reader.stop()


def test_a_first_batch_that_is_done_again_is_nothing_to_be_told_of(
    broker: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark has it in its log: the batch is planned before another is asked for."""
    broker.send("q", [b"1", b"2"])
    failed = reader_of(broker)
    start = failed.initialOffset()
    end = failed.latestOffset(start, MANY)
    failed.stop()
    again = reader_of(broker)
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        assert again.initialOffset() == start
        assert len(again.partitions(start, end)) == 1
        again.latestOffset(end, MANY)
    assert caplog.records == []
    again.stop()
