"""One query a subscription: who gets it while another query has it, and what both are told."""

from __future__ import annotations

import itertools
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from spark_bridge import (
    BrokerUnreachableError,
    PenstockDataSource,
    QueueMissingError,
    SubscriptionInUseError,
    SubscriptionTakenError,
    acknowledge,
    clients,
)
from spark_bridge.reader import PenstockStreamReader
from spark_bridge.schema import source_schema
from tests.spark_bridge.places import Place
from transport import Backoff, BrokerError
from transport.clients.subscription_client import OWNER_WAIT

Make = Callable[..., PenstockStreamReader]
DEADLINE = 30.0
MANY = ReadMaxRows(1000)
HEARTBEAT = 0.05
"""Of brokers whose clients are to fall silent soon."""


@pytest.fixture
def make_reader(broker: Any) -> Iterator[Make]:
    made = []

    def make(of: Any = None, **given: str) -> PenstockStreamReader:
        options = {"queue": "q", "subscription": "s", "brokers": (of or broker).receiving} | given
        made.append(PenstockDataSource(options).streamReader(source_schema(include_headers=False)))
        return made[-1]

    yield make
    for reader in made:
        reader.stop()


IMPATIENT = {"ownerWait": f"{round(20 * HEARTBEAT * 1000)}ms"}
"""A query that waits for an owner to go for a moment only."""


class Said(logging.Handler):
    """Waits for what is logged."""

    def __init__(self, part: str) -> None:
        super().__init__()
        self._part = part
        self.heard = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self._part in record.getMessage():
            self.heard.set()


@pytest.fixture
def waits() -> Iterator[threading.Event]:
    """Set when a query has found its subscription owned and waits."""
    handler = Said("waiting up to")
    logger = logging.getLogger("penstock.subscription")
    logger.addHandler(handler)
    yield handler.heard
    logger.removeHandler(handler)


def test_a_second_query_is_refused_while_the_first_lives_which_notices_nothing(broker: Any, make_reader: Make) -> None:
    broker.send("q", [b"1", b"2"])
    first = make_reader()
    end = first.latestOffset(first.initialOffset(), MANY)
    with pytest.raises(SubscriptionInUseError) as refused:
        make_reader(**IMPATIENT).initialOffset()
    text = str(refused.value)
    assert f": it is a Python worker of the driver on {socket.gethostname()}, pid {os.getpid()}. If it is this" in text
    assert "takeOver=true" in text
    assert "take_over" not in text
    assert text.endswith("Two queries that both need every message need two queues")
    [task] = first.partitions(Place(0), end)
    assert [row for batch in first.read(task) for row in batch.column("value").to_pylist()] == [b"1", b"2"]
    first.commit(end)


def test_a_query_that_works_on_a_batch_for_long_beats_and_keeps_its_subscription(
    make_broker: Callable[..., Any], make_reader: Make
) -> None:
    """Nothing is asked of the driver's reader meanwhile; the broker gives clients up after three heartbeats of silence."""
    broker = make_broker(heartbeat=HEARTBEAT)
    first = make_reader(broker)
    first.initialOffset()
    connection = broker.on_loop(lambda: list(broker.broker.connections))
    with pytest.raises(SubscriptionInUseError):  # after 20 heartbeats
        make_reader(broker, **IMPATIENT).initialOffset()
    assert set(connection) <= set(broker.on_loop(lambda: list(broker.broker.connections)))
    first.latestOffset(first.initialOffset(), MANY)


def test_an_owner_that_fell_silent_gives_way_without_the_option(
    make_broker: Callable[..., Any], make_reader: Make
) -> None:
    """As one whose machine is gone: its connection is open, and says nothing."""
    broker = make_broker(heartbeat=HEARTBEAT)
    silent = broker.client()
    epoch = silent.open().epoch
    reader = make_reader(broker)
    assert reader.initialOffset() == Place(0)
    assert reader._driven().state(broker.receiving).epoch == epoch + 1
    with pytest.raises(BrokerError, match="stale-epoch"):
        silent.commit(0)
    silent.close()


def test_a_restarted_query_waits_for_what_lingers_of_the_killed_one(
    broker: Any, make_reader: Make, waits: threading.Event
) -> None:
    lingering = make_reader()
    lingering.initialOffset()
    with ThreadPoolExecutor(1) as pool:
        begun = pool.submit(make_reader().initialOffset)
        assert waits.wait(DEADLINE)
        assert not begun.done()
        lingering.stop()
        assert begun.result(DEADLINE) == Place(0)


def test_a_connection_of_its_own_that_the_broker_has_not_given_up_yet_is_waited_for(
    broker: Any, waits: threading.Event
) -> None:
    """As where a connection broke between HELLO and WELCOME: the one that follows has no epoch to resume."""
    broken, again = broker.client(client_id="mine"), broker.client(client_id="mine", owner_wait=DEADLINE)
    epoch = broken.open().epoch
    with ThreadPoolExecutor(1) as pool:
        begun = pool.submit(again.open)
        assert waits.wait(DEADLINE)
        assert not begun.done()
        broken.close()
        assert begun.result(DEADLINE).epoch == epoch + 1
    again.close()


@pytest.mark.parametrize(
    "call", [PenstockStreamReader.initialOffset, PenstockStreamReader.prepareForTriggerAvailableNow]
)
def test_an_owner_is_waited_for_longer_than_a_broker_that_does_not_answer(
    broker: Any,
    make_reader: Make,
    waits: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[[PenstockStreamReader], object],
) -> None:
    """A broker that says nothing is waited for no time at all here, and the owner for as long as the option says."""
    monkeypatch.setattr("spark_bridge.ledgers.WAIT_SECONDS", 0.0)
    owner = make_reader()
    with monkeypatch.context() as patient:
        patient.setattr("spark_bridge.ledgers.WAIT_SECONDS", DEADLINE)
        owner.initialOffset()
    second = make_reader(ownerWait=f"{DEADLINE:.0f}s")
    with ThreadPoolExecutor(1) as pool:
        begun = pool.submit(call, second)
        assert waits.wait(DEADLINE)
        assert not begun.done()
        owner.stop()
        begun.result(DEADLINE)


def test_a_worker_that_lingers_without_its_jvm_lets_its_subscription_go(
    make_broker: Callable[..., Any], make_reader: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a live process, busy with a call that a dead JVM made."""
    broker = make_broker(heartbeat=HEARTBEAT)
    lingering = make_reader(broker)
    lingering.initialOffset()
    monkeypatch.setattr("spark_bridge.ledger.os.getppid", lambda: 1)
    assert make_reader(broker).initialOffset() == Place(0)


def test_the_wait_is_longer_than_the_silence_after_which_a_broker_gives_a_client_up() -> None:
    from transport.wire.liveness import DEFAULT_HEARTBEAT, SILENT_INTERVALS

    assert DEFAULT_HEARTBEAT * SILENT_INTERVALS < OWNER_WAIT


def test_take_over_ends_the_first_query(broker: Any, make_reader: Make) -> None:
    first = make_reader()
    start = first.initialOffset()
    assert make_reader(takeOver="true").initialOffset() == start
    with pytest.raises(SubscriptionTakenError, match=r"takeOver=true or while .*A subscription has one query$"):
        first.latestOffset(start, MANY)


def test_a_batch_read_and_an_acknowledgement_do_not_end_a_query_that_lives(
    broker: Any, make_reader: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.send("q", [b"1"])
    first = make_reader()
    end = first.latestOffset(first.initialOffset(), MANY)
    client = clients.SubscriptionClient
    # `acknowledge` has no name for it.
    monkeypatch.setattr(
        clients, "SubscriptionClient", lambda *args, **named: client(*args, **(named | {"owner_wait": 0.0}))
    )
    with pytest.raises(Exception, match="has an owner that is connected"):
        acknowledge(queue="q", subscription="s", brokers=broker.receiving)
    batch = PenstockDataSource({"queue": "q", "subscription": "s", "brokers": broker.receiving} | IMPATIENT)
    with pytest.raises(Exception, match="has an owner that is connected"):
        batch.reader(source_schema(include_headers=False)).partitions()
    first.commit(end)


def test_two_live_subscriptions_of_a_queue_are_told_that_they_share_it(
    broker: Any, make_reader: Make, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = make_reader(), make_reader(subscription="t")
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        start = first.latestOffset(first.initialOffset(), MANY)
        report = first.reportLatestOffset()
        assert report is not None
        assert report["liveSubscriptions"] == 1
        assert "SHARE" not in caplog.text
        broker.send("q", [b"1", b"2"])
        second.latestOffset(second.initialOffset(), MANY)
        [told] = [record.getMessage() for record in caplog.records if "SHARE" in record.getMessage()]
        assert told.startswith(
            f"subscription 't' is not alone: queue 'q' at broker {broker.receiving} is read by 2 subscriptions"
        )
        caplog.clear()
        first.latestOffset(start, MANY)
        first.latestOffset(start, MANY)
    [told] = [record.getMessage() for record in caplog.records]
    assert told.startswith("subscription 's' is not alone: ")
    assert "Two subscriptions of one queue SHARE it: each message goes to one of them" in told
    for reader in (first, second):
        report = reader.reportLatestOffset()
        assert report is not None
        assert (report["q"], report["liveSubscriptions"]) == ("q", 2)


def test_a_queue_that_did_not_exist_is_made_and_that_is_told(
    broker: Any, make_reader: Make, caplog: pytest.LogCaptureFixture
) -> None:
    broker.send("there", [b"1"])
    for queue, made in (("there", False), ("ordres", True), ("ordres", False)):
        reader = make_reader(queue=queue)
        with caplog.at_level(logging.WARNING, "penstock.spark"):
            reader.latestOffset(reader.initialOffset(), MANY)
        report = reader.reportLatestOffset()
        assert report is not None
        assert ("queueMade" in report) is made
        assert (f"queue {queue!r} did not exist at broker {broker.receiving}, and was made" in caplog.text) is made
        caplog.clear()
        reader.stop()


def test_a_queue_that_does_not_exist_ends_the_query_where_it_is_told_to(broker: Any, make_reader: Make) -> None:
    with pytest.raises(
        QueueMissingError, match=r"there is no queue 'ordres'\. As missingQueue=fail .* queue create ordres"
    ):
        make_reader(queue="ordres", missingQueue="fail").initialOffset()
    assert "ordres" not in broker.on_loop(lambda: list(broker.broker.queues))
    broker.send("orders", [b"1"])
    reader = make_reader(queue="orders", missingQueue="fail")
    assert reader.latestOffset(reader.initialOffset(), MANY) == Place(1)


def test_an_address_at_which_nobody_answers_is_told_after_seconds_and_then_ends_the_query_with_what_to_look_at(
    make_reader: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        nobody = f"127.0.0.1:{listener.getsockname()[1]}"
    monkeypatch.setattr("transport.clients.blocking_link.SILENT_SECONDS", 0.1)
    monkeypatch.setattr("spark_bridge.ledger.RETRY", Backoff(minimum=0.01, maximum=0.05, give_up_after=0.6))
    # A clock that goes on by as much with each look, however long the machine stands still in between.
    looks = itertools.count(1)
    monkeypatch.setattr(
        clients, "SubscriptionClient", partial(clients.SubscriptionClient, clock=lambda: 0.15 * next(looks))
    )
    with (
        caplog.at_level(logging.WARNING, "penstock"),
        pytest.raises(
            BrokerUnreachableError,
            match=rf"^no broker answers at {nobody} \(connection refused, 1 s\): is option brokers right \(the receiving address, 9183\), "
            r"and is a broker running there\? Nothing is lost: the query goes on where it was when it is started again$",
        ),
    ):
        make_reader(brokers=nobody).initialOffset()
    [told] = [record.getMessage() for record in caplog.records]
    assert told.startswith("queue 'q': no broker answers for 0 s now")
    assert "Connection refused" in told
    assert told.endswith("it is tried again, and is given up after 0.6 s")
