"""When Spark asks what, and how much it gets: every trigger, in the order that Spark's own documentation of a source states."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.spark_bridge.conftest import DEADLINE
from tests.spark_bridge.places import Place
from tests.spark_bridge.queries import CHECKPOINT, MARKS, Batches, finish, numbers, recorded, source, start
from tests.spark_bridge.recorded_source import entries

pytestmark = MARKS

BATCHES = 50


def at(position: int) -> Place:
    return Place(position)


def documented_calls(batches: int) -> list[list[Any]]:
    """What Spark asks of a source for so many batches of one row each, and then finds nothing more."""
    calls: list[list[Any]] = [["prepare"], ["limit"], ["initial", at(0)], ["latest", at(0), at(1)], ["initial", at(0)]]
    for end in range(1, batches + 1):
        if end > 1:
            # The offset log has the batch, so the one before is complete.
            calls += [["latest", at(end - 1), at(end)], ["commit", at(end - 1)]]
        calls += [["partitions", at(end - 1), at(end)], ["read", end - 1, end]]
    return [*calls, ["latest", at(batches), at(batches)]]


def test_fifty_batches_ask_for_offsets_partitions_and_commits_in_the_documented_order(
    spark: Any, durable_broker: Any, tmp_path: Path
) -> None:
    durable_broker.send("q", numbers(0, BATCHES))
    diary = tmp_path / "diary"
    frame = recorded(spark, durable_broker, diary, maxRowsPerBatch=1).schema("value binary").load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / CHECKPOINT))
    query = finish(writer.trigger(availableNow=True).start())
    assert sum(progress["numInputRows"] for progress in query.recentProgress) == BATCHES
    assert entries(diary, "prepare", "limit", "initial", "latest", "partitions", "commit", "read") == documented_calls(
        BATCHES
    )


def test_available_now_ends_under_a_live_sender_with_what_was_there_when_it_began(
    spark: Any, durable_broker: Any, tmp_path: Path
) -> None:
    durable_broker.send("q", numbers(0, 250))
    sent = [250]

    def send_more(number: int) -> None:
        # A query that took what is newer would get more with each batch; it is to fail here soon, not go on for ever.
        assert number < 5
        durable_broker.send("q", numbers(sent[0], sent[0] + 100))
        sent[0] += 100

    first, second = Batches(send_more), Batches()
    frame = source(spark, durable_broker, maxRowsPerBatch=100).load()
    finish(start(frame, tmp_path, first))
    # As much came in while it ran as it took, and the last batch had room for more.
    assert first.sizes == [100, 100, 50]
    assert first.values == numbers(0, 250)
    finish(start(frame, tmp_path, second))
    assert second.values == numbers(250, 550)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # Spark would rather have available-now
def test_once_drains_everything_in_one_batch_whatever_the_limits_say(
    spark: Any, durable_broker: Any, tmp_path: Path
) -> None:
    frame = source(spark, durable_broker, maxRowsPerBatch=10, maxBytesPerBatch="1k").load()
    batches = Batches()
    for first in (0, 3000):
        durable_broker.send("q", numbers(first, first + 3000))
        finish(start(frame, tmp_path, batches, once=True))
    assert batches.sizes == [3000, 3000]
    assert batches.values == numbers(0, 6000)


class Silence:
    """Tells when the broker has no subscription's connection left, having had one."""

    def __init__(self, broker: Any) -> None:
        self.came = threading.Event()
        self._connections = broker.broker._connections
        self._remove = self._connections.remove
        self._connections.remove = self._removed

    def _removed(self, connection: Any) -> None:
        self._remove(connection)
        left = [other for other in self._connections.standing.values() if other.role == "subscription"]
        if connection.role == "subscription" and not left:
            self.came.set()


def test_a_trigger_interval_longer_than_every_time_out_of_the_sockets_ends_no_query(
    spark: Any, make_broker: Any, tmp_path: Path
) -> None:
    """The broker gives a connection up that is silent for 0.3 s, the query asks every 2 s."""
    broker = make_broker(heartbeat=0.1, directory=str(tmp_path / "journal"))
    silence = Silence(broker)
    broker.send("q", numbers(0, 10))
    batches = Batches()
    query = start(source(spark, broker).load(), tmp_path, batches, processingTime="2 seconds")
    batches.wait_for(10)
    assert silence.came.wait(DEADLINE), "the broker kept the silent connection, so that the test shows nothing"
    broker.send("q", numbers(10, 20))
    batches.wait_for(20)
    query.stop()
    assert query.exception() is None
    assert batches.values == numbers(0, 20)
