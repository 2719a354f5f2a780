"""Batches that are put off until there is enough for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from spark_bridge import OptionError, PenstockDataSource
from spark_bridge.ledger import Ledger
from spark_bridge.options import SourceOptions
from spark_bridge.reader import PenstockStreamReader
from spark_bridge.schema import source_schema
from spark_bridge.trigger_delay import TriggerDelay
from tests.spark_bridge.places import Place
from tests.spark_bridge.restartable import numbers

MANY = ReadMaxRows(1000)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Of every `TriggerDelay` that is made."""
    clock = Clock()
    monkeypatch.setattr("spark_bridge.reader.TriggerDelay", lambda rows, seconds: TriggerDelay(rows, seconds, clock))
    return clock


@pytest.fixture
def make_reader(clock: Clock) -> Iterator[Callable[..., PenstockStreamReader]]:
    made = []

    def make(*brokers: Any, **given: str) -> PenstockStreamReader:
        addresses = ",".join(broker.receiving for broker in brokers)
        options = {"queue": "q", "subscription": "s", "brokers": addresses, "minRowsPerBatch": "5"} | given
        made.append(PenstockDataSource(options).streamReader(source_schema(include_headers=False)))
        return made[-1]

    yield make
    for reader in made:
        reader.stop()


def test_a_small_batch_waits_for_more_or_for_its_time_and_the_first_does_not(
    broker: Any, make_reader: Any, clock: Clock
) -> None:
    reader = make_reader(broker, maxTriggerDelay="60s")
    broker.send("q", numbers(0, 1))
    end = reader.latestOffset(reader.initialOffset(), MANY)
    assert end == Place(1)
    broker.send("q", numbers(1, 4))
    assert reader.latestOffset(end, MANY) == end
    broker.send("q", numbers(4, 6))
    end = reader.latestOffset(end, MANY)
    assert end == Place(6)
    broker.send("q", numbers(6, 7))
    clock.now += 59.0
    assert reader.latestOffset(end, MANY) == end
    clock.now += 1.0
    assert reader.latestOffset(end, MANY) == Place(7)


def test_what_is_put_off_is_not_reserved(broker: Any, make_reader: Any) -> None:
    reader = make_reader(broker)
    broker.send("q", numbers(0, 1))
    end = reader.latestOffset(reader.initialOffset(), MANY)
    broker.send("q", numbers(1, 4))
    assert reader.latestOffset(end, MANY) == end
    report = reader.reportLatestOffset()
    assert report is not None
    assert (report["pos"], report["backlog"]) == (1, 3)


def test_what_is_done_with_is_acknowledged_while_a_batch_is_put_off(broker: Any, make_reader: Any) -> None:
    reader = make_reader(broker, ackOn="poll")
    broker.send("q", numbers(0, 1))
    end = reader.latestOffset(reader.initialOffset(), MANY)
    assert reader.latestOffset(end, MANY) == end
    reader.stop()
    with broker.client(owner_wait=30.0) as after:
        assert after.open().base == 1


def test_what_an_earlier_query_reserved_counts(broker: Any, make_reader: Any) -> None:
    with broker.client() as killed:
        broker.send("q", numbers(0, 6))
        killed.reserve(0, 6, 10**6)
    reader = make_reader(broker)
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(1))
    assert end == Place(1)
    assert reader.latestOffset(end, MANY) == Place(6)


def test_several_brokers_count_together(make_broker: Any, make_reader: Any) -> None:
    one, other = make_broker(), make_broker()
    reader = make_reader(one, other)
    one.send("q", numbers(0, 1))
    end = reader.latestOffset(reader.initialOffset(), MANY)
    one.send("q", numbers(1, 3))
    other.send("q", numbers(3, 5))
    assert reader.latestOffset(end, MANY)["pos"] == end["pos"]
    one.send("q", numbers(5, 6))
    assert sum(reader.latestOffset(end, MANY)["pos"].values()) == 6


def test_a_full_queue_is_not_put_off_since_nothing_more_could_come_in(make_broker: Any, make_reader: Any) -> None:
    broker = make_broker(max_queue_messages=4)
    reader = make_reader(broker)
    broker.send("q", numbers(0, 1))
    end = reader.latestOffset(reader.initialOffset(), MANY)
    reader.commit(end)
    broker.send("q", numbers(1, 5))
    assert reader.latestOffset(end, MANY) == Place(5)


def test_runs_that_take_what_is_there_put_nothing_off(broker: Any, make_reader: Any) -> None:
    reader = make_reader(broker)
    broker.send("q", numbers(0, 1))
    end = reader.latestOffset(reader.initialOffset(), MANY)
    broker.send("q", numbers(1, 2))
    end = reader.latestOffset(end, ReadAllAvailable())
    assert end == Place(2)
    reader.stop()
    broker.send("q", numbers(2, 4))
    reader = make_reader(broker)
    reader.prepareForTriggerAvailableNow()
    for position in (3, 4):
        end = reader.latestOffset(end, ReadMaxRows(1))
        assert end == Place(position)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"maxTriggerDelay": "1m"}, "give that one as well"),
        ({"minOffsetsPerTrigger": "11", "maxOffsetsPerTrigger": "10"}, "minRowsPerBatch 11 exceeds maxRowsPerBatch 10"),
    ],
)
def test_options_that_cannot_be_met_are_refused(given: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        SourceOptions.parse({"queue": "q", "subscription": "s"} | given).for_streaming()


def test_a_delay_of_nothing_is_refused_when_the_source_is_loaded_by_a_batch_read_too() -> None:
    with pytest.raises(OptionError, match="option maxTriggerDelay does nothing without minRowsPerBatch"):
        PenstockDataSource({"queue": "q", "maxTriggerDelay": "1m"}).schema()


def test_a_batch_comes_when_its_time_is_over_and_not_at_the_end_of_a_wait(
    broker: Any, make_reader: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = make_reader(broker, maxTriggerDelay="60s")
    broker.send("q", numbers(0, 1))
    end = reader.latestOffset(reader.initialOffset(), MANY)
    broker.send("q", numbers(1, 2))
    clock.now += 59.9995
    waits = []
    request = Ledger.request

    def waiting(ledger: Ledger, order: Any = None) -> None:
        waits.append(order.wait_ms)
        clock.now += order.wait_ms / 1000
        request(ledger, order)

    monkeypatch.setattr(Ledger, "request", waiting)
    assert reader.latestOffset(end, MANY) == Place(2)
    assert waits[:2] == [0, 1]


def test_a_driver_that_is_killed_while_a_batch_is_put_off_leaves_nothing_reserved_and_the_next_one_goes_on(
    broker: Any, make_reader: Any, clock: Clock
) -> None:
    """Neither acknowledges nor says farewell: its connection breaks, and the next is asked for what Spark's log has."""
    killed = make_reader(broker)
    broker.send("q", numbers(0, 1))
    end = killed.latestOffset(killed.initialOffset(), MANY)
    broker.send("q", numbers(1, 4))
    assert killed.latestOffset(end, MANY) == end
    broker.close_connections()
    again = make_reader(broker, takeOver="true")
    [task] = again.partitions(Place(0), end)
    assert [row for batch in again.read(task) for row in batch.column("value").to_pylist()] == [b"0"]
    again.commit(end)
    end = again.latestOffset(end, MANY)
    assert end == Place(4), "the first batch of a run does not wait"
    [task] = again.partitions(Place(1), end)
    assert [row for batch in again.read(task) for row in batch.column("value").to_pylist()] == [b"1", b"2", b"3"]
