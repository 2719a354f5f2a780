"""A checkpoint's positions are of one queue: what happens where it is pointed at another, or the queue was made anew."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from spark_bridge import DataLossError, OtherQueueError, PenstockDataSource
from spark_bridge.reader import PenstockStreamReader
from spark_bridge.schema import source_schema
from tests.spark_bridge.places import Place
from tests.spark_bridge.restartable import Restartable, numbers
from transport import Administration, Backoff

Make = Callable[..., PenstockStreamReader]
MANY = ReadMaxRows(1000)


@pytest.fixture
def make_reader() -> Iterator[Make]:
    """``make_reader(brokers, **options)``: a reader as a query's driver has it, of queue ``q`` unless told otherwise."""
    made = []

    def make(*brokers: Any, **given: str) -> PenstockStreamReader:
        addresses = ",".join(getattr(broker, "receiving", None) or broker.address for broker in brokers)
        options = {"queue": "q", "subscription": "s", "brokers": addresses} | given
        made.append(PenstockDataSource(options).streamReader(source_schema(include_headers=False)))
        return made[-1]

    yield make
    for reader in made:
        reader.stop()


def values(reader: PenstockStreamReader, start: Any, end: Any) -> list[bytes]:
    rows: list[bytes] = []
    for partition in reader.partitions(start, end):
        for batch in reader.read(partition):
            rows += batch.column("value").to_pylist()
    return rows


def checkpoint(reader: PenstockStreamReader) -> Any:
    """What a query's checkpoint says that has read what there was."""
    end = reader.latestOffset(reader.initialOffset(), MANY)
    reader.commit(end)
    reader.stop()
    return end


def delete(broker: Any, queue: str = "q") -> None:
    async def run() -> None:
        async with Administration(broker.sending) as administration:
            await administration.delete_queue(queue)

    asyncio.run(run())


def test_an_offset_names_its_queue_and_the_id_of_its_creation(broker: Any, make_reader: Make) -> None:
    reader = make_reader(broker)
    made = reader._driven().state(broker.receiving).id_prefix
    assert list(reader.initialOffset().items()) == [("s", "s"), ("q", "q"), ("id", made.hex()), ("pos", 0)]


def test_a_checkpoint_of_another_queue_is_refused_and_both_are_named(broker: Any, make_reader: Make) -> None:
    """The same subscription name on both: positions of the one used to be gone on with in the other."""
    broker.send("q", numbers(0, 5))
    broker.send("r", numbers(100, 120))
    end = checkpoint(make_reader(broker))
    told = (
        rf"the checkpoint is that of queue 'q' \(id {end['id']}\), and subscription 's' at broker {broker.receiving} is of queue 'r' "
        r"\(id [0-9a-f]{16}\).* new checkpoint location.* failOnDataLoss=false"
    )
    for ask in (
        lambda reader: reader.latestOffset(end, MANY),
        lambda reader: reader.partitions(Place(0), end),
        lambda reader: reader.commit(end),
    ):
        reader = make_reader(broker, queue="r")
        with pytest.raises(OtherQueueError, match=told):
            ask(reader)
        reader.stop()  # as Spark's worker does when it fails


def test_an_available_now_run_on_another_queue_is_refused_too(broker: Any, make_reader: Make) -> None:
    end = checkpoint(make_reader(broker))
    reader = make_reader(broker, queue="r")
    reader.prepareForTriggerAvailableNow()  # the subscription is open before the checkpoint is seen
    with pytest.raises(OtherQueueError):
        reader.latestOffset(end, MANY)


def test_where_loss_is_allowed_a_query_begins_anew_on_another_queue_and_says_so(
    broker: Any, make_reader: Make, caplog: pytest.LogCaptureFixture
) -> None:
    broker.send("q", numbers(0, 5))
    broker.send("r", numbers(100, 120))
    killed = make_reader(broker)
    start = killed.initialOffset()
    end = killed.latestOffset(start, MANY)  # logged, not read
    reader = make_reader(broker, queue="r", failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        assert reader.partitions(start, end) == []
        reader.commit(start)
        begun = reader.latestOffset(end, MANY)
    assert "the checkpoint is that of queue 'q'" in caplog.text
    assert (begun["q"], begun["pos"]) == ("r", 0)
    assert reader.partitions(end, begun) == []
    reader.commit(end)  # positions of the other queue: nothing of this one is acknowledged by it
    last = reader.latestOffset(begun, MANY)
    assert values(reader, begun, last) == numbers(100, 120)


def test_a_queue_that_was_deleted_and_made_anew_is_another(durable_broker: Any, make_reader: Make) -> None:
    durable_broker.send("q", numbers(0, 5))
    end = checkpoint(make_reader(durable_broker))
    delete(durable_broker)
    durable_broker.send("q", numbers(0, 10))
    checkpoint(
        make_reader(durable_broker)
    )  # of a query with a checkpoint of its own: the ledger reaches beyond the first's position
    with pytest.raises(OtherQueueError, match="deleted and made anew"):
        make_reader(durable_broker).latestOffset(end, MANY)


def test_a_queue_that_is_made_anew_under_a_running_query_ends_it_or_is_begun_anew(
    durable_broker: Any, make_reader: Make
) -> None:
    durable_broker.send("q", numbers(0, 5))
    strict, lenient = make_reader(durable_broker), make_reader(durable_broker, subscription="t", failOnDataLoss="false")
    place = lenient.initialOffset()
    end = strict.latestOffset(strict.initialOffset(), MANY)
    tasks = strict.partitions(Place(0), end)
    delete(durable_broker)
    durable_broker.send("q", numbers(10, 20))
    # Others have subscriptions of these names there, so that the epochs fit again.
    with durable_broker.client() as other, durable_broker.client(subscription="t") as another:
        other.reserve(0, 10, 10**6)
        another.open()
    with pytest.raises(DataLossError, match="was deleted"):
        strict.latestOffset(end, MANY)
    with pytest.raises(OtherQueueError):
        list(strict.read(tasks[0]))
    begun = lenient.latestOffset(place, MANY)
    assert begun["id"] != place["id"]


def test_the_id_survives_the_brokers_restart(
    make_broker: Callable[..., Any], make_reader: Make, tmp_path: Path
) -> None:
    broker = Restartable(make_broker, tmp_path)
    broker.send(0, 5)
    end = checkpoint(make_reader(broker))
    broker.stop()
    broker.start()
    broker.send(5, 10)
    reader = make_reader(broker)
    assert values(reader, end, reader.latestOffset(end, MANY)) == numbers(5, 10)


def test_an_offset_of_before_is_gone_on_with_and_the_next_names_the_queue(broker: Any, make_reader: Make) -> None:
    broker.send("q", numbers(0, 5))
    old = {"s": "s", "pos": 0}
    reader = make_reader(broker)
    assert reader.latestOffset(old, ReadMaxRows(3)) | {"id": ""} == {"s": "s", "q": "q", "id": "", "pos": 3}
    reader.stop()
    assert values(make_reader(broker), old, {"s": "s", "pos": 3}) == numbers(0, 3)


def test_one_of_several_brokers_with_another_queue_is_named(
    make_broker: Callable[..., Any], make_reader: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_bridge.ledger.RETRY", Backoff(minimum=0.01, maximum=0.05, give_up_after=60.0))
    kept, emptied = (Restartable(make_broker, tmp_path / name) for name in ("kept", "emptied"))
    for broker in (kept, emptied):
        broker.send(0, 5)
    end = checkpoint(make_reader(kept, emptied))
    delete(emptied.running)
    emptied.send(10, 15)
    strict = make_reader(kept, emptied)
    with pytest.raises(OtherQueueError, match=f"at broker {emptied.address} is of"):
        strict.latestOffset(end, MANY)
    strict.stop()
    reader = make_reader(kept, emptied, failOnDataLoss="false")
    begun = reader.latestOffset(end, MANY)
    assert begun == Place({kept.address: 5, emptied.address: 0})
    assert begun["id"][kept.address] == end["id"][kept.address]
    assert begun["id"][emptied.address] != end["id"][emptied.address]
    assert values(reader, begun, reader.latestOffset(begun, MANY)) == numbers(10, 15)
