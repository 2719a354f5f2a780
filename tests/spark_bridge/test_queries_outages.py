"""A broker that goes away: while a query is idle, while it reads, between two of its runs, and with what it kept in memory.

Here it is away for as long as it takes a query to notice; ``python -m tests.fault.query_outage`` takes it away for half a minute.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark_bridge.conftest import DEADLINE
from tests.spark_bridge.queries import MARKS, Batches, failure, finish, numbers, recorded, source, start
from tests.spark_bridge.recorded_source import logged
from transport import parse_address

pytestmark = MARKS

ATTEMPTS = 3
"""Connections of the query that are turned away until the broker is back: it has noticed, and has tried again."""


class Moves:
    """A broker that is taken away and put back on its ports, its journal kept where it has one."""

    def __init__(self, make_broker: Callable[..., Any], directory: Path | None) -> None:
        self._make = make_broker
        self._kept: dict[str, Any] = {} if directory is None else {"directory": str(directory)}
        self.broker = make_broker(**self._kept)
        self.ports = {"send_address": self.broker.sending, "receive_address": self.broker.receiving}
        self._coming_back: threading.Thread | None = None

    def restart(self) -> None:
        self.broker.stop()
        self.broker = self._make(**self.ports, **self._kept)

    def go_away(self) -> None:
        """Stops the broker; it is back when the query has tried in vain for `ATTEMPTS` times."""
        self.broker.stop()
        address = parse_address(self.ports["receive_address"])
        away = socket.create_server((address.host, address.port))
        away.settimeout(DEADLINE)
        self._coming_back = threading.Thread(target=self._come_back, args=(away,))
        self._coming_back.start()

    def _come_back(self, away: socket.socket) -> None:
        with away:
            for _ in range(ATTEMPTS):
                away.accept()[0].close()
        self.broker = self._make(**self.ports, **self._kept)

    def wait_until_back(self) -> None:
        assert self._coming_back is not None
        self._coming_back.join(DEADLINE)
        assert not self._coming_back.is_alive()


@pytest.fixture
def durable(make_broker: Callable[..., Any], tmp_path: Path) -> Moves:
    return Moves(make_broker, tmp_path / "journal")


@pytest.fixture
def in_memory(make_broker: Callable[..., Any]) -> Moves:
    return Moves(make_broker, None)


@pytest.fixture
def running() -> Iterator[list[Any]]:
    """Queries to be stopped whatever happens."""
    queries: list[Any] = []
    yield queries
    for query in queries:
        query.stop()


def test_an_idle_query_waits_for_a_broker_that_is_away_and_goes_on(
    spark: Any, durable: Moves, tmp_path: Path, running: list[Any]
) -> None:
    durable.broker.send("q", numbers(0, 100))
    batches = Batches()
    frame = source(spark, durable.broker, maxRowsPerBatch=60).load()
    running.append(start(frame, tmp_path, batches, processingTime="0 seconds"))
    batches.wait_for(100)
    durable.go_away()
    durable.wait_until_back()
    durable.broker.send("q", numbers(100, 200))
    batches.wait_for(200)
    running[0].stop()
    assert running[0].exception() is None
    assert batches.values == numbers(0, 200)


def test_a_task_waits_for_a_broker_that_is_away_and_reads_its_rows(spark: Any, durable: Moves, tmp_path: Path) -> None:
    durable.broker.send("q", numbers(0, 300))

    def break_off(number: int) -> None:
        if number == 1:
            durable.go_away()

    batches = Batches(first=break_off)
    finish(start(source(spark, durable.broker, maxRowsPerBatch=100).load(), tmp_path, batches))
    durable.wait_until_back()
    assert batches.sizes == [100] * 3
    assert batches.values == numbers(0, 300)


def test_the_next_run_goes_on_after_a_durable_broker_was_started_again(
    spark: Any, durable: Moves, tmp_path: Path
) -> None:
    batches = Batches()
    for first in (0, 250):
        durable.broker.send("q", numbers(first, first + 250))
        durable.restart()
        finish(start(source(spark, durable.broker, maxRowsPerBatch=100).load(), tmp_path, batches))
        durable.restart()
    assert batches.sizes == [100, 100, 50] * 2
    assert batches.values == numbers(0, 500)


def test_what_a_broker_had_in_memory_only_ends_the_next_run_or_is_skipped_and_reported(
    spark: Any, in_memory: Moves, tmp_path: Path
) -> None:
    in_memory.broker.send("q", numbers(0, 250))
    batches, diary = Batches(), tmp_path / "diary"
    finish(start(source(spark, in_memory.broker, maxRowsPerBatch=100).load(), tmp_path, batches))
    in_memory.restart()
    in_memory.broker.send("q", numbers(250, 300))
    text = failure(start(source(spark, in_memory.broker, maxRowsPerBatch=100).load(), tmp_path, batches))
    assert "the checkpoint is that of queue 'q' (id " in text
    assert "its broker was started without its data (with --memory it keeps none)" in text
    assert batches.values == numbers(0, 250)
    stream = recorded(spark, in_memory.broker, diary, maxRowsPerBatch=100, failOnDataLoss=False).load()
    finish(start(stream, tmp_path, batches))
    assert "going on at ledger position 0 of subscription s" in logged(diary)
    assert batches.values == numbers(0, 300)
