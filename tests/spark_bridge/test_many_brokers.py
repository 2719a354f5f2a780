"""One source over several brokers, called as Spark calls it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from spark_bridge import (
    BrokerUnreachableError,
    CheckpointError,
    DataLossError,
    OptionError,
    PenstockDataSource,
    SubscriptionTakenError,
)
from spark_bridge.reader import PenstockStreamReader
from spark_bridge.schema import source_schema
from tests.spark_bridge.places import Place
from tests.spark_bridge.read_as_tasks import values
from tests.spark_bridge.restartable import Restartable, numbers
from transport import Backoff

DEADLINE = 30.0
PLANS = 200
"""Plans within which what is ready must have come: each waits for messages itself."""
MANY = ReadMaxRows(1000)

Make = Callable[..., PenstockStreamReader]


@pytest.fixture
def two(make_broker: Callable[..., Any], tmp_path: Path) -> list[Restartable]:
    """Two brokers, in the order of their addresses."""
    made = [Restartable(make_broker, tmp_path / name) for name in ("one", "another")]
    return sorted(made, key=lambda broker: broker.address)


@pytest.fixture
def make_reader() -> Iterator[Make]:
    """``make_reader(brokers, **options)``: a reader as a query's driver has it."""
    made = []

    def make(brokers: list[Restartable], **given: str) -> PenstockStreamReader:
        addresses = ",".join(broker.address for broker in brokers)
        options = {"queue": "q", "subscription": "s", "brokers": addresses} | given
        made.append(PenstockDataSource(options).streamReader(source_schema(include_headers=False)))
        return made[-1]

    yield make
    for reader in made:
        reader.stop()


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that notice within a moment that a broker is back."""
    monkeypatch.setattr("spark_bridge.ledger.RETRY", Backoff(minimum=0.01, maximum=0.05, give_up_after=60.0))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that give up soon."""
    monkeypatch.setattr("spark_bridge.ledger.RETRY", Backoff(minimum=0.01, maximum=0.05, give_up_after=0.3))


def at(brokers: list[Restartable], *positions: int) -> Place:
    return Place({broker.address: pos for broker, pos in zip(brokers, positions, strict=True)})


def until_read(reader: PenstockStreamReader, start: Any, wanted: list[bytes]) -> Any:
    """Batches as a query makes them, until they have brought ``wanted``; the last one's end."""
    got: list[bytes] = []
    for _ in range(PLANS):
        end = reader.latestOffset(start, MANY)
        if end != start:
            reader.commit(start)
            got += values(reader, start, end)
            start = end
        if len(got) >= len(wanted):
            break
    assert sorted(got, key=int) == wanted
    return start


def test_a_batch_has_the_rows_of_all_brokers_and_its_offset_is_in_their_order(
    two: list[Restartable], make_reader: Make
) -> None:
    first, second = two
    first.send(0, 3)
    second.send(3, 10)
    reader = make_reader([second, first])
    start = reader.initialOffset()
    assert list(start["pos"].items()) == [(first.address, 0), (second.address, 0)]
    end = reader.latestOffset(start, MANY)
    assert end == at(two, 3, 7)
    assert list(end["pos"]) == list(start["pos"])
    assert values(reader, start, end) == numbers(0, 10)
    assert values(reader, start, end) == numbers(0, 10)
    reader.commit(end)
    assert [broker.base(1) for broker in two] == [3, 7]
    with pytest.raises(DataLossError, match=f"broker {first.address}"):
        values(reader, start, end)


def test_rows_are_shared_and_a_broker_with_everything_fills_a_batch(two: list[Restartable], make_reader: Make) -> None:
    first, second = two
    first.send(0, 5)
    second.send(100, 200)
    reader = make_reader(two)
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(10))
    assert end == at(two, 5, 5)
    assert reader.latestOffset(end, ReadMaxRows(10)) == at(two, 5, 15)


def test_what_one_broker_does_not_use_goes_to_the_other(two: list[Restartable], make_reader: Make) -> None:
    two[0].send(0, 8)
    two[1].send(100, 200)
    reader = make_reader(two)
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(10))
    assert end == at(two, 5, 5)
    assert reader.latestOffset(end, ReadMaxRows(10)) == at(two, 8, 12)


def test_bytes_bound_a_batch_and_a_broker_with_everything_fills_them(two: list[Restartable], make_reader: Make) -> None:
    two[1].running.send("q", [b"x" * 1000] * 40)
    reader = make_reader(two, maxBytesPerBatch="20k")
    end = reader.latestOffset(reader.initialOffset(), MANY)
    assert end["pos"][two[0].address] == 0
    assert 15 <= end["pos"][two[1].address] <= 20


def test_an_idle_query_gets_its_start_again(two: list[Restartable], make_reader: Make) -> None:
    reader = make_reader(two)
    assert reader.latestOffset(reader.initialOffset(), MANY) == at(two, 0, 0)
    assert reader.partitions(at(two, 0, 0), at(two, 0, 0)) == []


def test_a_restarted_query_finds_the_batch_that_its_log_names(two: list[Restartable], make_reader: Make) -> None:
    for broker in two:
        broker.send(0, 10)
    killed = make_reader(two)
    end = killed.latestOffset(killed.initialOffset(), ReadMaxRows(8))
    restarted = make_reader(two[::-1], takeOver="true")
    assert sorted(values(restarted, at(two, 0, 0), end)) == sorted(numbers(0, 4) * 2)
    assert restarted.latestOffset(end, MANY) == at(two, 10, 10)
    with pytest.raises(SubscriptionTakenError):
        killed.latestOffset(end, MANY)


def test_the_query_goes_on_without_a_broker_that_is_down_and_loses_nothing(
    two: list[Restartable], make_reader: Make, caplog: pytest.LogCaptureFixture
) -> None:
    up, down = two
    for broker in two:
        broker.send(0, 5)
    reader = make_reader(two, brokerDown="continue")
    start = reader.initialOffset()
    end = reader.latestOffset(start, MANY)
    assert end == at(two, 5, 5)
    assert len(values(reader, start, end)) == 10
    down.send(10, 15)
    down.stop()
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        reader.commit(end)
        assert up.base(1) == 5
        up.send(5, 10)
        end = until_read(reader, end, numbers(5, 10))
        assert end == at(two, 10, 5)
        assert reader.latestOffset(end, MANY) == end
        report = reader.reportLatestOffset()
        assert report is not None
        assert (report["down"], list(report["brokers"])) == ([down.address], [up.address])
        down.start()
        end = until_read(reader, end, numbers(10, 15))
        assert end == at(two, 10, 10)
        assert down.base(1) == 5
        report = reader.reportLatestOffset()
        assert report is not None
        assert report["down"] == []
    said = [record.getMessage() for record in caplog.records]
    assert [line.split(";")[0].split(" (")[0] for line in said] == [
        f"broker {down.address} of queue 'q' cannot be reached",
        f"broker {down.address} of queue 'q' is back",
    ]


@pytest.mark.usefixtures("impatient")
def test_a_broker_that_stays_down_is_sought_for_as_long_as_the_query_runs(
    two: list[Restartable], make_reader: Make, caplog: pytest.LogCaptureFixture
) -> None:
    reader = make_reader(two, brokerDown="continue")
    start = reader.initialOffset()
    two[1].stop()
    given_up = 0
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        for _ in range(PLANS):
            assert reader.latestOffset(start, MANY) == start
            assert reader._ledgers is not None
            seeking = reader._ledgers[two[1].address].future
            if seeking is not None:
                assert isinstance(seeking.exception(DEADLINE), BrokerUnreachableError)
                given_up += 1
            if given_up == 3:
                break
    assert given_up == 3
    assert len([record for record in caplog.records if "cannot be reached" in record.getMessage()]) == 1
    two[1].start()
    two[1].send(0, 5)
    until_read(reader, start, numbers(0, 5))


def test_a_broker_that_is_down_is_waited_for(two: list[Restartable], make_reader: Make) -> None:
    two[0].send(0, 5)
    reader = make_reader(two)
    start = reader.initialOffset()
    two[1].stop()
    with ThreadPoolExecutor(1) as pool:
        planned = pool.submit(reader.latestOffset, start, MANY)
        two[1].start()
        assert planned.result(DEADLINE)["pos"][two[1].address] == 0
    two[1].send(5, 10)
    until_read(reader, start, numbers(0, 10))


@pytest.mark.usefixtures("impatient")
def test_a_broker_that_stays_down_ends_a_query_that_waits_and_is_named(
    two: list[Restartable], make_reader: Make
) -> None:
    two[0].send(0, 5)
    reader = make_reader(two)
    start = reader.initialOffset()
    two[1].stop()
    with pytest.raises(
        BrokerUnreachableError, match=rf"no broker answers at {two[1].address} .* when it is started again"
    ):
        reader.latestOffset(start, MANY)


@pytest.mark.usefixtures("impatient")
def test_a_new_query_needs_every_broker_once(two: list[Restartable], make_reader: Make) -> None:
    two[1].stop()
    reader = make_reader(two, brokerDown="continue")
    with pytest.raises(BrokerUnreachableError, match=rf"{two[1].address} .*A new query needs every broker once"):
        reader.initialOffset()
    two[1].start()
    assert reader.initialOffset() == at(two, 0, 0)


@pytest.mark.usefixtures("impatient")
def test_a_batch_in_sparks_log_waits_for_its_brokers_whatever_the_option_says(
    two: list[Restartable], make_reader: Make
) -> None:
    for broker in two:
        broker.send(0, 5)
    killed = make_reader(two, brokerDown="continue")
    start = killed.initialOffset()
    end = killed.latestOffset(start, MANY)
    tasks = killed.partitions(start, end)
    two[1].stop()
    assert killed.partitions(start, end) == tasks  # whose tasks will wait
    restarted = make_reader(two, brokerDown="continue", takeOver="true")
    with pytest.raises(BrokerUnreachableError, match=two[1].address):
        restarted.partitions(start, end)
    with pytest.raises(BrokerUnreachableError, match=two[1].address):
        list(killed.read(tasks[1]))
    assert [(task.broker, task.start, task.stop) for task in restarted.partitions(start, at(two, 5, 0))] == [
        (two[0].address, 0, 5)
    ]
    two[1].start()
    assert sorted(values(restarted, start, end)) == sorted(numbers(0, 5) * 2)


def test_a_restarted_query_begins_without_a_broker_that_is_down(two: list[Restartable], make_reader: Make) -> None:
    for broker in two:
        broker.send(0, 5)
    killed = make_reader(two, brokerDown="continue")
    end = killed.latestOffset(killed.initialOffset(), MANY)
    two[0].send(5, 8)
    two[1].stop()
    restarted = make_reader(two, brokerDown="continue", takeOver="true")
    end = until_read(restarted, end, numbers(5, 8))
    assert end == at(two, 8, 5)
    two[1].start()
    two[1].send(8, 9)
    until_read(restarted, end, numbers(8, 9))


def test_a_broker_that_is_added_joins_where_its_ledger_begins(two: list[Restartable], make_reader: Make) -> None:
    one, other = two
    one.send(0, 5)
    other.send(5, 10)
    reader = make_reader([one])
    end = reader.latestOffset(reader.initialOffset(), MANY)
    assert end == Place(5)
    reader.stop()
    reader = make_reader([one, other])
    joined = reader.latestOffset(end, MANY)
    assert joined == at(two, 5, 0)
    assert reader.partitions(end, joined) == []
    last = reader.latestOffset(joined, MANY)
    assert values(reader, joined, last) == numbers(5, 10)
    # Back to the one: the other's messages would be left behind.
    with pytest.raises(CheckpointError, match=rf"position 5 of broker {other.address}, which option brokers no longer"):
        make_reader([one]).latestOffset(last, MANY)


def test_a_broker_that_is_added_while_it_is_down_joins_when_it_is_up(two: list[Restartable], make_reader: Make) -> None:
    one, other = two
    reader = make_reader([one])
    end = reader.latestOffset(reader.initialOffset(), MANY)
    other.send(0, 5)
    other.stop()
    one.send(5, 10)
    reader.stop()
    reader = make_reader([one, other], brokerDown="continue")
    end = until_read(reader, end, numbers(5, 10))
    assert end == at([one], 5)
    other.start()
    assert until_read(reader, end, numbers(0, 5)) == at(two, 5, 5)


def test_a_broker_that_was_taken_off_the_list_is_left_out_where_loss_is_allowed(
    two: list[Restartable], make_reader: Make, caplog: pytest.LogCaptureFixture
) -> None:
    reader = make_reader([two[0]], failOnDataLoss="false")
    two[0].send(0, 5)
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        end = reader.latestOffset(at(two, 0, 3), MANY)
        assert end == Place(5)
        assert values(reader, at(two, 0, 3), end) == numbers(0, 5)
    assert [record.getMessage().rsplit("; ", 1)[1] for record in caplog.records] == ["it is left out"]


def test_available_now_stops_at_what_each_broker_had(two: list[Restartable], make_reader: Make) -> None:
    two[0].send(0, 5)
    two[1].send(0, 2)
    reader = make_reader(two)
    reader.prepareForTriggerAvailableNow()
    for broker in two:
        broker.send(5, 10)
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadMaxRows(4))
    assert first == at(two, 2, 2)
    last = reader.latestOffset(first, ReadMaxRows(100))
    assert last == at(two, 5, 2)
    assert reader.latestOffset(last, ReadMaxRows(100)) == last


def test_an_available_now_run_leaves_a_broker_that_is_down_to_the_next(
    two: list[Restartable], make_reader: Make
) -> None:
    killed = make_reader(two)
    start = killed.latestOffset(killed.initialOffset(), MANY)
    killed.stop()
    two[0].send(0, 5)
    two[1].stop()
    reader = make_reader(two, brokerDown="continue")
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(start, MANY)
    assert end == at(two, 5, 0)
    two[1].start()
    two[1].send(5, 10)
    assert reader.latestOffset(end, MANY) == end
    reader.stop()
    following = make_reader(two, takeOver="true")
    following.prepareForTriggerAvailableNow()
    assert following.latestOffset(end, MANY) == at(two, 5, 5)


def test_once_takes_everything_of_each(two: list[Restartable], make_reader: Make) -> None:
    two[0].send(0, 20)
    two[1].send(0, 3)
    reader = make_reader(two, maxRowsPerBatch="2", maxBytesPerBatch="1")
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable()) == at(two, 20, 3)


def test_spark_4_1_gets_batches_that_follow_each_other(two: list[Restartable], make_reader: Make) -> None:
    two[0].send(0, 6)
    two[1].send(6, 10)
    reader = make_reader(two, maxRowsPerBatch="4")
    ends = [reader.initialOffset(), *(reader.latestOffset() for _ in range(4))]
    assert ends == [at(two, *end) for end in ((0, 0), (2, 2), (4, 4), (6, 4), (6, 4))]


def test_the_progress_carries_sums_and_each_brokers_figures(two: list[Restartable], make_reader: Make) -> None:
    two[0].send(0, 10)
    two[1].send(0, 30)
    reader = make_reader(two)
    reader.latestOffset(reader.initialOffset(), ReadMaxRows(8))
    report = reader.reportLatestOffset()
    assert report is not None
    assert report["pos"] == at(two, 4, 4)["pos"]
    assert [report["brokers"][broker.address]["backlog"] for broker in two] == [6, 26]
    assert (report["backlog"], report["highWater"], report["inFlight"]) == (32, 40, 0)
    figures = list(report["brokers"].values())
    assert report["senderDemand"] == sum(figure["senderDemand"] for figure in figures)
    assert report["oldestMs"] == max(figure["oldestMs"] for figure in figures)
    assert report["backlogBytes"] == sum(figure["backlogBytes"] for figure in figures) > 0


def test_two_names_of_one_broker_are_an_error_that_says_so(two: list[Restartable], make_reader: Make) -> None:
    port = two[0].address.rpartition(":")[2]
    brokers = f"{two[0].address},localhost:{port}"
    options = {"queue": "q", "subscription": "s", "brokers": brokers, "ownerWait": "100ms"}
    reader = PenstockDataSource(options).streamReader(source_schema(include_headers=False))
    with pytest.raises(OptionError, match="another address of the same broker; list each once"):
        reader.initialOffset()
    reader.stop()


def test_two_names_of_one_broker_that_take_over_from_each_other_are_found_too(
    two: list[Restartable], make_reader: Make
) -> None:
    port = two[0].address.rpartition(":")[2]
    options = {"queue": "q", "subscription": "s", "brokers": f"{two[0].address},localhost:{port}", "takeOver": "true"}
    reader = PenstockDataSource(options).streamReader(source_schema(include_headers=False))
    start = reader.initialOffset()
    with pytest.raises(OptionError, match="which are one broker; list each once"):
        reader.latestOffset(start, MANY)
    reader.stop()


def test_a_query_that_takes_the_subscription_takes_it_everywhere(two: list[Restartable], make_reader: Make) -> None:
    for broker in two:
        broker.send(0, 5)
    old = make_reader(two)
    start = old.initialOffset()
    end = old.latestOffset(start, MANY)
    tasks = old.partitions(start, end)
    new = make_reader(two, takeOver="true")
    assert new.initialOffset() == start
    with pytest.raises(SubscriptionTakenError):
        old.commit(end)
    for task in tasks:
        with pytest.raises(SubscriptionTakenError):
            list(old.read(task))
    assert [broker.base(2) for broker in two] == [0, 0]


def test_a_ledger_that_one_broker_has_lost_ends_the_query_or_begins_anew_there(
    make_broker: Callable[..., Any], make_reader: Make, two: list[Restartable], tmp_path: Path
) -> None:
    kept, lost = two
    strict = make_reader(two)
    lenient = make_reader(two, subscription="t", failOnDataLoss="false")
    lost.send(0, 5)
    start, other = strict.initialOffset(), lenient.initialOffset()
    end = strict.latestOffset(start, MANY)
    assert end == at(two, 0, 5)
    lost.stop()
    lost._config["directory"] = str(tmp_path / "an empty disk")
    lost.start()
    with pytest.raises(DataLossError, match=f"broker {lost.address}"):
        strict.latestOffset(end, MANY)
    # It has asked the other broker too, and would be given what comes there next.
    assert strict._ledgers is not None
    asked = strict._ledgers[kept.address].future
    assert asked is not None
    assert asked.result(DEADLINE).end == 0
    kept.send(0, 3)
    lost.send(3, 4)
    end = {"s": "t", "pos": {kept.address: 0, lost.address: 5}}
    ends = [lenient.latestOffset(end, MANY)]
    assert ends[0]["pos"] == {kept.address: 3, lost.address: 0}
    assert values(lenient, end, ends[0]) == numbers(0, 3)
    ends.append(lenient.latestOffset(ends[0], MANY))
    assert values(lenient, ends[0], ends[1]) == numbers(3, 4)
    assert set(other["pos"]) == set(ends[1]["pos"])


def test_a_batch_that_goes_back_is_a_loss(two: list[Restartable], make_reader: Make) -> None:
    with pytest.raises(DataLossError, match=f"from ledger position 7 to 5 of broker {two[1].address}"):
        make_reader(two).partitions(at(two, 0, 7), at(two, 3, 5))


def test_stopping_acknowledges_nothing_and_ends_the_search_for_a_broker(
    two: list[Restartable], make_reader: Make
) -> None:
    two[0].send(0, 5)
    reader = make_reader(two, brokerDown="continue", ackOn="poll")
    start = reader.initialOffset()
    two[1].stop()
    reader.latestOffset(start, MANY)
    assert reader._ledgers is not None
    seeking = reader._ledgers[two[1].address].future
    assert seeking is not None
    assert not seeking.done()
    reader.stop()
    assert seeking.exception(DEADLINE) is not None
    assert two[0].base(1) == 0
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("penstock-ledger")]
