"""The reader, called as Spark calls it, on a real broker."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from spark_bridge import CheckpointError, DataLossError, OptionError, PenstockDataSource, SubscriptionTakenError
from spark_bridge.options import SourceOptions
from spark_bridge.partitions import BYTES_PER_TASK, PARALLELISM_VARIABLE
from spark_bridge.reader import PenstockStreamReader
from spark_bridge.schema import arrow_schema, source_schema
from tests.spark_bridge.places import Place
from tests.spark_bridge.read_as_tasks import values

Make = Callable[..., PenstockStreamReader]


@pytest.fixture
def make_reader(broker: Any) -> Iterator[Make]:
    """``make_reader(**options)``: a reader as a query's driver has it."""
    made = []

    def make(**given: str) -> PenstockStreamReader:
        options = {"queue": "q", "subscription": "s", "brokers": broker.receiving} | given
        made.append(PenstockDataSource(options).streamReader(source_schema(include_headers=False)))
        return made[-1]

    yield make
    for reader in made:
        reader.stop()


def numbers(start: int, stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, stop)]


def at(position: int) -> Place:
    return Place(position)


def release(broker: Any, name: str = "s") -> None:
    """What ``penstock subscription release --force`` does."""
    import asyncio

    from transport import Administration

    async def run() -> None:
        async with Administration(broker.sending) as administration:
            await administration.release_subscription("q", name, force=True)

    asyncio.run(run())


def test_construction_reaches_for_nothing_and_a_reader_can_be_sent_away() -> None:
    schema = arrow_schema(source_schema(include_headers=True))
    options = SourceOptions.parse({"queue": "q", "subscription": "s", "brokers": "127.0.0.1:1"})
    reader = pickle.loads(pickle.dumps(PenstockStreamReader(options, schema)))
    assert reader.getDefaultReadLimit().max_rows == options.max_rows_per_batch
    assert reader.reportLatestOffset() is None
    reader.stop()


def test_a_batch_has_the_rows_that_were_reserved_and_the_next_one_follows(broker: Any, make_reader: Make) -> None:
    broker.send("q", numbers(0, 10))
    reader = make_reader()
    start = reader.initialOffset()
    assert start == at(0)
    first = reader.latestOffset(start, ReadMaxRows(4))
    assert first == at(4)
    assert reader.initialOffset() == start
    second = reader.latestOffset(first, ReadMaxRows(100))
    assert second == at(10)
    reader.commit(first)
    assert values(reader, first, second) == numbers(4, 10)


def test_reading_may_be_repeated_until_it_is_committed(broker: Any, make_reader: Make) -> None:
    broker.send("q", numbers(0, 5))
    reader = make_reader()
    end = reader.latestOffset(at(0), ReadMaxRows(5))
    assert values(reader, at(0), end) == values(reader, at(0), end) == numbers(0, 5)
    reader.commit(end)
    with pytest.raises(DataLossError, match="failOnDataLoss"):
        values(reader, at(0), end)


def test_an_idle_query_gets_its_start_again(broker: Any, make_reader: Make) -> None:
    reader = make_reader()
    assert reader.latestOffset(reader.initialOffset(), ReadMaxRows(5)) == at(0)
    assert reader.partitions(at(0), at(0)) == []


def test_a_restarted_query_finds_the_batch_that_its_log_names(broker: Any, make_reader: Make) -> None:
    broker.send("q", numbers(0, 10))
    killed = make_reader()
    end = killed.latestOffset(killed.initialOffset(), ReadMaxRows(6))
    restarted = make_reader(takeOver="true")
    assert values(restarted, at(0), end) == numbers(0, 6)
    assert restarted.latestOffset(end, ReadMaxRows(100)) == at(10)


def test_a_query_killed_before_its_first_log_entry_gets_the_same_messages(broker: Any, make_reader: Make) -> None:
    broker.send("q", numbers(0, 10))
    killed = make_reader()
    killed.latestOffset(killed.initialOffset(), ReadMaxRows(6))
    restarted = make_reader(takeOver="true")
    start = restarted.initialOffset()
    end = restarted.latestOffset(start, ReadMaxRows(100))
    assert (start, end) == (at(0), at(6))
    assert values(restarted, start, end) == numbers(0, 6)


def test_a_query_that_was_replaced_is_fenced_off(broker: Any, make_reader: Make) -> None:
    broker.send("q", numbers(0, 10))
    old = make_reader()
    end = old.latestOffset(old.initialOffset(), ReadMaxRows(5))
    tasks = old.partitions(at(0), end)
    new = make_reader(takeOver="true")
    assert new.initialOffset() == at(0)
    with pytest.raises(SubscriptionTakenError, match="another query has taken over subscription 's' of queue 'q'"):
        old.latestOffset(end, ReadMaxRows(5))
    with pytest.raises(SubscriptionTakenError):
        old.commit(end)
    with pytest.raises(SubscriptionTakenError):
        list(old.read(tasks[0]))
    assert values(new, at(0), end) == numbers(0, 5)


def test_a_query_whose_connection_broke_still_owns_its_subscription(broker: Any, make_reader: Make) -> None:
    broker.send("q", numbers(0, 10))
    reader = make_reader()
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(5))
    tasks = reader.partitions(at(0), end)
    assert broker.close_connections() > 0
    assert reader.latestOffset(end, ReadMaxRows(5)) == at(10)
    assert reader.partitions(at(0), end) == tasks
    assert [row for batch in reader.read(tasks[0]) for row in batch.column("value").to_pylist()] == numbers(0, 5)


def test_ack_on_poll_acknowledges_what_spark_has_finished(broker: Any, make_reader: Make) -> None:
    broker.send("q", numbers(0, 10))
    reader = make_reader(ackOn="poll")
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(5))
    reader.latestOffset(end, ReadMaxRows(5))
    with pytest.raises(DataLossError, match="asynchronous progress tracking"):
        values(reader, at(0), end)


def test_a_batch_that_fills_the_queue_does_not_stop_its_query(
    make_broker: Callable[..., Any], make_reader: Make
) -> None:
    """Spark commits a batch only once it has planned the next, and no message for a next one fits the queue."""
    broker = make_broker(max_queue_messages=5)
    broker.send("q", numbers(0, 5))
    reader = make_reader(brokers=broker.receiving)
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(100))
    assert values(reader, at(0), end) == numbers(0, 5)
    assert reader.latestOffset(end, ReadMaxRows(100)) == end
    broker.send("q", numbers(5, 10))
    assert values(reader, end, reader.latestOffset(end, ReadMaxRows(100))) == numbers(5, 10)


def test_an_idle_query_acknowledges_nothing_while_the_queue_has_room(broker: Any, make_reader: Make) -> None:
    broker.send("q", numbers(0, 5))
    reader = make_reader()
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(100))
    assert reader.latestOffset(end, ReadMaxRows(100)) == end
    assert values(reader, at(0), end) == numbers(0, 5)


def test_bytes_bound_a_batch_and_one_message_is_always_let_through(broker: Any, make_reader: Make) -> None:
    broker.send("q", [b"x" * 1000] * 10)
    reader = make_reader(maxBytesPerBatch="3k")
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(100))
    assert 1 <= end["pos"] <= 3
    reader = make_reader(maxBytesPerBatch="1", subscription="t")
    assert reader.latestOffset(reader.initialOffset(), ReadMaxRows(100)) == Place(1, "t")


def test_once_takes_everything_whatever_the_options_say(broker: Any, make_reader: Make) -> None:
    broker.send("q", numbers(0, 10))
    reader = make_reader(maxRowsPerBatch="2", maxBytesPerBatch="1")
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable()) == at(10)


def test_available_now_stops_at_the_messages_that_were_there(broker: Any, make_reader: Make) -> None:
    broker.send("q", numbers(0, 5))
    reader = make_reader()
    reader.prepareForTriggerAvailableNow()
    broker.send("q", numbers(5, 10))
    first = reader.latestOffset(reader.initialOffset(), ReadMaxRows(3))
    second = reader.latestOffset(first, ReadMaxRows(3))
    assert (first, second) == (at(3), at(5))
    assert reader.latestOffset(second, ReadMaxRows(3)) == second


def test_a_subscription_that_starts_at_the_latest_sees_only_what_comes_after(broker: Any, make_reader: Make) -> None:
    broker.send("q", numbers(0, 5))
    reader = make_reader(startingOffsets="latest")
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadMaxRows(10)) == start
    broker.send("q", numbers(5, 8))
    assert values(reader, start, reader.latestOffset(start, ReadMaxRows(10))) == numbers(5, 8)


def test_the_progress_carries_what_lies_behind(broker: Any, make_reader: Make) -> None:
    broker.send("q", numbers(0, 10))
    reader = make_reader()
    reader.latestOffset(reader.initialOffset(), ReadMaxRows(4))
    report = reader.reportLatestOffset()
    assert report is not None
    assert (report["s"], report["pos"], report["backlog"], report["highWater"]) == ("s", 4, 6, 10)
    assert report["backlogBytes"] > 0
    assert {"oldestMs", "senderDemand", "inFlight"} <= set(report)


def test_a_released_range_ends_the_query(broker: Any, make_reader: Make) -> None:
    broker.send("q", numbers(0, 10))
    killed = make_reader()
    end = killed.latestOffset(killed.initialOffset(), ReadMaxRows(5))
    release(broker)
    restarted = make_reader(takeOver="true")
    with pytest.raises(DataLossError, match=r"'s' of queue 'q' no longer holds"):
        values(restarted, at(0), end)
    with pytest.raises(DataLossError):
        restarted.latestOffset(at(0), ReadMaxRows(5))


def test_a_released_range_is_skipped_where_loss_is_allowed(
    broker: Any, make_reader: Make, caplog: pytest.LogCaptureFixture
) -> None:
    broker.send("q", numbers(0, 10))
    killed = make_reader()
    end = killed.latestOffset(killed.initialOffset(), ReadMaxRows(5))
    release(broker)
    restarted = make_reader(failOnDataLoss="false", takeOver="true")
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        assert values(restarted, at(0), end) == []
        assert restarted.latestOffset(at(0), ReadMaxRows(5)) == at(5)
    assert "the rest is skipped" in caplog.text
    # What was released is received again, under new positions.
    assert values(restarted, at(5), restarted.latestOffset(at(5), ReadMaxRows(100))) == numbers(0, 10)


def test_a_checkpoint_beyond_the_ledger_ends_the_query_or_is_left_behind(broker: Any, make_reader: Make) -> None:
    """The broker was started anew: what it kept in memory is gone, the query's checkpoint is not."""
    broker.send("q", numbers(0, 3))
    with pytest.raises(DataLossError):
        make_reader().latestOffset(at(500), ReadMaxRows(5))
    reader = make_reader(failOnDataLoss="false")
    assert reader.latestOffset(at(500), ReadMaxRows(5)) == at(0)
    assert reader.partitions(at(500), at(0)) == []
    reader.commit(at(500))
    end = reader.latestOffset(at(0), ReadMaxRows(5))
    assert values(reader, at(0), end) == numbers(0, 3)
    reader.commit(end)


def test_a_broker_that_lost_the_ledger_while_the_query_ran_ends_it_or_is_begun_anew(
    make_broker: Callable[..., Any], make_reader: Make
) -> None:
    broker = make_broker()
    address = {"send_address": broker.sending, "receive_address": broker.receiving}
    broker.send("q", numbers(0, 5))
    strict = make_reader(brokers=broker.receiving)
    lenient = make_reader(brokers=broker.receiving, subscription="t", failOnDataLoss="false")
    end = strict.latestOffset(strict.initialOffset(), ReadMaxRows(5))
    lenient.initialOffset()
    broker.stop()
    broker = make_broker(**address)
    broker.send("q", numbers(5, 8))
    with pytest.raises(DataLossError):
        strict.latestOffset(end, ReadMaxRows(5))
    start = lenient.latestOffset(Place(5, "t"), ReadMaxRows(5))
    assert start == Place(0, "t")
    assert values(lenient, start, lenient.latestOffset(start, ReadMaxRows(5))) == numbers(5, 8)


def test_the_checkpoint_of_another_subscription_is_refused(make_reader: Make) -> None:
    with pytest.raises(CheckpointError, match="'other'"):
        make_reader().latestOffset({"s": "other", "pos": 1}, ReadMaxRows(1))


def test_a_sending_address_is_an_error_that_says_which_is_needed(broker: Any, make_reader: Make) -> None:
    with pytest.raises(OptionError, match=f"{broker.sending} serves no subscriptions: .* receiving addresses"):
        make_reader(brokers=broker.sending).initialOffset()


def test_few_large_messages_are_as_many_tasks_as_their_bytes_are_worth(
    broker: Any, make_reader: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PARALLELISM_VARIABLE, "16")
    payloads = [bytes([number]) * BYTES_PER_TASK for number in range(5)]
    broker.send("q", payloads)
    reader = make_reader()
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(100))
    assert len(reader.partitions(at(0), end)) == 5
    assert values(reader, at(0), end) == payloads
    restarted = make_reader(takeOver="true")  # it does not know the bytes: fewer tasks, the same rows
    assert len(restarted.partitions(at(0), end)) == 1
    assert values(restarted, at(0), end) == payloads


def test_partitions_are_the_same_for_the_same_arguments(broker: Any, make_reader: Make) -> None:
    reader = make_reader(minPartitions="3", maxRecordsPerPartition="4")
    assert reader.partitions(at(0), at(20)) == reader.partitions(at(0), at(20))
    assert [(part.start, part.stop) for part in reader.partitions(at(0), at(20))] == [
        (0, 4),
        (4, 8),
        (8, 12),
        (12, 16),
        (16, 20),
    ]


WITHOUT_4_2 = """
import sys
import pyspark.sql.datasource
sys.modules["pyspark.sql.streaming.datasource"] = None
from spark_bridge import PenstockDataSource
from spark_bridge.schema import source_schema
reader = PenstockDataSource({"queue": "q", "subscription": "s", "brokers": sys.argv[1], "maxrowsperbatch": "4"}).streamReader(
    source_schema(False))
ends = [reader.initialOffset(), reader.latestOffset(), reader.latestOffset(), reader.latestOffset()]
print([end["pos"] for end in ends], [value for part in reader.partitions(ends[0], ends[-1])
      for batch in reader.read(part) for value in batch.column("value").to_pylist()] == [b"%d" % n for n in range(10)],
      reader.latestOffset()["pos"])
"""


def test_spark_4_1_which_passes_no_start_and_no_limit_is_served_too(broker: Any) -> None:
    broker.send("q", numbers(0, 10))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_4_2, broker.receiving], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.strip() == "[0, 4, 8, 10] True 10", done.stderr
