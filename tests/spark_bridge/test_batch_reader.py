"""The batch reader and `acknowledge`, called as Spark and a user call them, on real brokers."""

from __future__ import annotations

import asyncio
import logging
import pickle
import socket
from collections.abc import Callable
from typing import Any

import pytest

from spark_bridge import (
    OptionError,
    PenstockDataSource,
    PlanOutdatedError,
    QueueMissingError,
    SchemaError,
    batch_reader,
)
from spark_bridge.acknowledging import acknowledge
from spark_bridge.batch_reader import PenstockBatchReader
from spark_bridge.schema import source_schema
from streams import Sink
from transport import Backoff, ConnectionLostError, Message, MessageBatch, Receiver

AT_ONCE = Backoff(minimum=0.01, maximum=0.01, give_up_after=0.05)


def numbers(start: int, stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, stop)]


def reader(*brokers: Any, headers: bool = False, **given: str) -> PenstockBatchReader:
    addresses = ",".join(broker if isinstance(broker, str) else broker.receiving for broker in brokers)
    options = {"queue": "q", "brokers": addresses} | given
    return PenstockDataSource(options).reader(source_schema(include_headers=headers))


def rows(made: PenstockBatchReader, tasks: list[Any] | None = None) -> list[dict[str, Any]]:
    """What the tasks of a read return, each by a copy of the reader as executors get it."""
    found: list[dict[str, Any]] = []
    for task in made.partitions() if tasks is None else tasks:
        copy, sent = pickle.loads(pickle.dumps((made, task)))
        for batch in copy.read(sent):
            found += batch.to_pylist()
    return found


def values(made: PenstockBatchReader, tasks: list[Any] | None = None) -> list[bytes]:
    return [row["value"] for row in rows(made, tasks)]


def receive(broker: Any, count: int) -> None:
    """Takes and acknowledges the next ``count`` messages."""

    async def run() -> None:
        await Receiver(broker.receiving, queue="q", limit=count).to(Sink.acknowledge()).run()

    asyncio.run(run())


def statistics(broker: Any) -> Any:
    """The queue as it is, but for its connections and the time."""

    def look() -> Any:
        return broker.broker.queues.get("q")

    from actors import GetStatistics

    async def ask() -> Any:
        return await look().ask(GetStatistics(), block=False)

    facts = asyncio.run_coroutine_threadsafe(ask(), broker._loop).result(20)
    return (facts.ready, facts.in_flight, facts.reserved, facts.stored_messages, facts.total_out, facts.subscriptions)


def nobody() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


# --- without a subscription


def test_a_read_returns_what_is_stored_as_often_as_it_is_asked_and_leaves_the_queue_as_it_was(broker: Any) -> None:
    broker.send("q", numbers(0, 100))
    receive(broker, 10)
    before = statistics(broker)
    made = reader(broker)
    assert values(made) == values(made) == numbers(10, 100)
    assert statistics(broker) == before
    receive(broker, 5)
    assert values(made) == numbers(15, 100)


def test_every_column_has_what_the_message_has(broker: Any) -> None:
    broker.send("q", [Message(b"a", key=b"k", headers={"h": "v"}), Message(b"b", id=bytes(16))])
    first, second = rows(reader(broker, headers=True))
    assert (first["value"], first["key"], first["queue"], first["position"]) == (b"a", b"k", "q", 0)
    assert first["headers"] == [{"key": "h", "value": b"v"}]
    assert (first["delivery_count"], first["possibly_replayed"]) == (0, False)
    assert len(first["message_id"]) == 16
    assert (second["key"], second["headers"], second["message_id"], second["position"]) == (None, None, bytes(16), 1)
    assert first["enqueued_at"] is not None


def test_a_users_schema_chooses_the_columns_and_an_unknown_one_is_refused(broker: Any) -> None:
    from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

    broker.send("q", [b"a"])
    chosen = StructType([StructField("position", LongType()), StructField("value", BinaryType())])
    made = PenstockDataSource({"queue": "q", "brokers": broker.receiving}).reader(chosen)
    assert rows(made) == [{"position": 0, "value": b"a"}]
    with pytest.raises(SchemaError, match="there is no column 'values'"):
        PenstockDataSource({"queue": "q"}).reader(StructType([StructField("values", StringType())]))


def test_positions_bound_a_read_on_both_sides(broker: Any) -> None:
    broker.send("q", numbers(0, 20))
    receive(broker, 5)
    assert values(reader(broker, startingPosition="8", endingPosition="12")) == numbers(8, 12)
    assert values(reader(broker, startingPosition="2", endingPosition="7")) == numbers(5, 7)
    assert values(reader(broker, startingPosition="18")) == numbers(18, 20)
    assert values(reader(broker, endingPosition="6")) == numbers(5, 6)
    assert values(reader(broker, endingPosition="1000")) == numbers(5, 20)
    assert values(reader(broker, startingPosition="1000")) == []
    assert values(reader(broker, endingPosition="3")) == []


def test_positions_with_a_subscription_or_backwards_are_refused() -> None:
    with pytest.raises(OptionError, match="without a subscription"):
        reader("127.0.0.1:1", subscription="s", startingPosition="1")
    with pytest.raises(OptionError, match="is before"):
        reader("127.0.0.1:1", startingPosition="2", endingPosition="1")


def test_a_read_is_split_into_tasks_that_cover_it_and_messages_sent_later_are_not_in_it(broker: Any) -> None:
    broker.send("q", numbers(0, 100))
    made = reader(broker, minPartitions="3", maxRecordsPerPartition="30")
    tasks = made.partitions()
    assert [(task.start, task.stop) for task in tasks] == [(0, 25), (25, 50), (50, 75), (75, 100)]
    broker.send("q", numbers(100, 120))
    assert values(made, tasks) == numbers(0, 100)
    assert values(made) == numbers(0, 120)


def test_what_is_acknowledged_while_it_is_read_is_left_out_and_nothing_comes_twice(broker: Any) -> None:
    broker.send("q", numbers(0, 1000))
    made = reader(broker, minPartitions="4")
    tasks = made.partitions()
    first = values(made, tasks[:1])
    receive(broker, 600)
    assert first == numbers(0, 250)
    assert values(made, tasks[1:]) == numbers(600, 1000)
    assert values(made, tasks[1:3]) == numbers(600, 750), "a task that is run again reads what is left"


def test_an_empty_queue_is_read_as_no_rows(broker: Any) -> None:
    broker.send("q", numbers(0, 3))
    receive(broker, 3)
    made = reader(broker)
    assert made.partitions() == []
    from pyspark.sql.datasource import InputPartition

    assert list(made.read(InputPartition(None))) == [], "Spark runs one task for no partition"


@pytest.mark.parametrize("given", [{}, {"subscription": "s"}], ids=["browse", "subscription"])
def test_a_queue_that_does_not_exist_is_an_error_and_is_not_made(broker: Any, given: dict[str, str]) -> None:
    with pytest.raises(
        QueueMissingError,
        match=r"there is no queue 'q' .* `penstock queue list` shows what there is; this read makes none$",
    ):
        reader(broker, **given).partitions()
    assert broker.on_loop(lambda: list(broker.broker.queues)) == []


def test_a_backlog_is_read_from_the_disk_of_a_broker_that_was_started_again(
    make_broker: Callable[..., Any], tmp_path: Any
) -> None:
    options = {"directory": str(tmp_path), "cache_bytes": 0}
    broker = make_broker(**options)
    blocks = [MessageBatch.from_payloads(numbers(start, start + 5_000)) for start in range(0, 200_000, 5_000)]
    broker.send("q", blocks)
    receive(broker, 1_000)
    broker.stop()
    again = make_broker(**options)
    made = reader(again)
    tasks = made.partitions()
    assert len(tasks) == 2
    assert values(made, tasks) == numbers(1_000, 200_000)


@pytest.mark.parametrize("given", [{}, {"subscription": "s"}], ids=["browse", "subscription"])
def test_a_queue_that_was_deleted_and_made_again_is_not_read_by_an_old_plan(broker: Any, given: dict[str, str]) -> None:
    broker.send("q", numbers(0, 5))
    made = reader(broker, **given)
    tasks = made.partitions()
    broker.on_loop(lambda: broker.broker.queues.delete("q"))
    broker.send("q", numbers(5, 10))
    with pytest.raises(PlanOutdatedError, match="load it again"):
        values(made, tasks)
    assert values(made) == numbers(5, 10)


# --- with a subscription


def test_a_subscription_reads_the_same_until_it_is_acknowledged_and_nobody_else_gets_it(broker: Any) -> None:
    broker.send("q", numbers(0, 50))
    made = reader(broker, subscription="s")
    assert values(made) == values(made) == numbers(0, 50)
    ready, _, reserved, stored, *_ = statistics(broker)
    assert (ready, reserved, stored) == (0, 50, 50)
    broker.send("q", numbers(50, 60))
    receive(broker, 4)
    assert values(made) == [*numbers(0, 50), *numbers(54, 60)], "what a receiver took meanwhile is the receiver's"
    assert acknowledge(queue="q", subscription="s", brokers=broker.receiving) == 56
    assert acknowledge(queue="q", subscription="s", brokers=[broker.receiving]) == 0
    assert statistics(broker)[3] == 0
    assert values(made) == []


def test_a_large_backlog_is_reserved_in_bounded_parts(broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_reader, "RESERVE_ROWS", 7)
    broker.send("q", numbers(0, 50))
    made = reader(broker, subscription="s", maxRecordsPerPartition="20")
    tasks = made.partitions()
    assert [(task.start, task.stop) for task in tasks] == [(0, 16), (16, 33), (33, 50)]
    assert values(made, tasks) == numbers(0, 50)


@pytest.mark.parametrize("by", ["an acknowledgement", "another read"])
def test_a_plan_whose_subscription_was_taken_since_is_refused_and_says_what_to_do(broker: Any, by: str) -> None:
    broker.send("q", numbers(0, 5))
    made = reader(broker, subscription="s")
    tasks = made.partitions()
    if by == "another read":
        assert values(reader(broker, subscription="s")) == numbers(0, 5)
    else:
        assert acknowledge(queue="q", subscription="s", brokers=broker.receiving) == 5
    with pytest.raises(PlanOutdatedError, match=r"has taken subscription 's' since\); load it again"):
        values(made, tasks)


def test_what_a_release_gave_back_cannot_be_read_as_it_was_planned(broker: Any) -> None:
    from transport import Administration

    async def release() -> None:
        async with Administration(broker.sending) as administration:
            await administration.release_subscription("q", "s")

    broker.send("q", numbers(0, 5))
    made = reader(broker, subscription="s")
    tasks = made.partitions()
    asyncio.run(release())
    with pytest.raises(PlanOutdatedError, match="acknowledged or released"):
        values(made, tasks)
    assert values(made) == numbers(0, 5)


def test_acknowledging_what_does_not_exist_is_an_error_and_makes_nothing(broker: Any) -> None:
    with pytest.raises(QueueMissingError, match="there is no queue 'q'"):
        acknowledge(queue="q", subscription="s", brokers=broker.receiving)
    broker.send("q", numbers(0, 1))
    with pytest.raises(QueueMissingError, match="there is no subscription 'typo'"):
        acknowledge(queue="q", subscription="typo", brokers=broker.receiving)
    assert statistics(broker)[-1] == ()
    with pytest.raises(OptionError, match="white space"):
        acknowledge(queue="q", subscription="a b", brokers=broker.receiving)


# --- several brokers


@pytest.mark.parametrize("given", [{}, {"subscription": "s"}], ids=["browse", "subscription"])
def test_several_brokers_are_read_as_one_queue(make_broker: Callable[..., Any], given: dict[str, str]) -> None:
    one, two, without = make_broker(), make_broker(), make_broker()
    one.send("q", numbers(0, 10))
    two.send("q", numbers(10, 30))
    made = reader(one, two, without, **given)
    assert values(made) == numbers(0, 30)
    assert {task.broker for task in made.partitions()} == {one.receiving, two.receiving}
    if given:
        assert acknowledge(queue="q", subscription="s", brokers=[one.receiving, two.receiving, without.receiving]) == 30


def test_a_broker_that_is_down_is_left_out_where_that_is_allowed(
    broker: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(batch_reader, "BRIEF_RETRY", AT_ONCE)
    monkeypatch.setattr(batch_reader, "DEFAULT_RETRY", AT_ONCE)
    broker.send("q", numbers(0, 5))
    down = nobody()
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        assert values(reader(down, broker, brokerDown="continue")) == numbers(0, 5)
    assert f"broker {down} is left out of this read" in caplog.text
    told = rf"^no broker answers at {down} \(.*\): is option brokers right .* and is a broker running there\?$"
    with pytest.raises(ConnectionLostError, match=told):
        reader(down, broker).partitions()
    with pytest.raises(
        OptionError, match="serves no subscriptions: option brokers of a source takes receiving addresses"
    ):
        reader(broker.sending).partitions()
    with pytest.raises(ConnectionLostError):
        reader(down, brokerDown="continue").partitions()
