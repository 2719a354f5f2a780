"""Where a query can be held so that something is killed just then: a data source that does what the product's does, and waits at one point.

At the chosen point of the chosen batch the worker tells a `Gate` (``spark_gate.py``) and goes on when it is told to, or when
the gate is gone. Everything is the product's own; only the methods around it and the clients' requests are wrapped.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from pyspark.sql.datasource import DataSourceStreamArrowWriter, DataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from spark_bridge import PenstockDataSource
from transport.clients.subscription_client import Fetched, Reservation, SubscriptionClient

ROWS_PER_BATCH = 1_000
"""Of every query of the matrix: a position then tells its batch."""
HELD_SECONDS = 600.0
"""How long a worker waits at most; the harness ends long before, and a worker whose harness is gone goes on at once."""
BATCH_PROPERTY = "streaming.sql.batchId"
"""Spark's local property that tells a task its batch."""

RESERVATION_BEFORE = "before the reservation"
RESERVATION_AFTER = "after the reservation"
LOG_BEFORE = "before the offset log write"
LOG_AFTER = "after the offset log write"
READ_BEFORE = "before the partition read"
READ_AMID = "amid the partition read"
READ_AFTER = "after the partition read"
ACKNOWLEDGEMENT_BEFORE = "before the commit"
ACKNOWLEDGEMENT_AFTER = "after the commit"
STAGE_BEFORE = "before the sink stage"
STAGE_AMID = "amid the sink stage"
STAGE_AFTER = "after the sink stage"
PUBLISH_BEFORE = "before the sink commit"
PUBLISH_AFTER = "after the sink commit"

SOURCE_POINTS = (
    RESERVATION_BEFORE,
    RESERVATION_AFTER,
    LOG_BEFORE,
    LOG_AFTER,
    READ_BEFORE,
    READ_AMID,
    READ_AFTER,
    ACKNOWLEDGEMENT_BEFORE,
    ACKNOWLEDGEMENT_AFTER,
)
SINK_POINTS = (STAGE_BEFORE, STAGE_AMID, STAGE_AFTER, PUBLISH_BEFORE, PUBLISH_AFTER)
PLANNER_POINTS = (
    RESERVATION_BEFORE,
    RESERVATION_AFTER,
    LOG_BEFORE,
    LOG_AFTER,
    ACKNOWLEDGEMENT_BEFORE,
    ACKNOWLEDGEMENT_AFTER,
)
"""Where a query's planning worker stands, which outlives its JVM; all other workers are ended with it by Spark's daemon."""


ANYWHERE = "anywhere"
"""In place of a point: every one of every batch tells the gate."""


@dataclass(frozen=True, slots=True)
class Hold:
    """The point and the batch at which a query is held, and the gate's ``host:port``; at ``ANYWHERE`` the gate picks the point."""

    point: str
    batch: int
    gate: str

    def reach(self, point: str, batch: int) -> None:
        """Waits for the gate if this is the point and the batch; the gate holds one worker and lets all others pass."""
        if self.point != ANYWHERE and (point, batch) != (self.point, self.batch):
            return
        host, port = self.gate.rsplit(":", 1)
        with socket.create_connection((host, int(port)), HELD_SECONDS) as gate:
            gate.sendall(json.dumps({"pid": os.getpid(), "point": point, "batch": batch}).encode() + b"\n")
            gate.recv(1)


NOWHERE = Hold("", -1, "")
"""Of a query that is not held."""


class HeldDataSource(PenstockDataSource):
    """Format ``held``: ``penstock`` with the options ``heldAt``, ``heldBatch`` and ``heldBy`` (the gate), all or none."""

    def __init__(self, options: Any) -> None:
        given = {name.lower(): value for name, value in dict(options).items()}
        point, batch, gate = (given.pop(name, None) for name in ("heldat", "heldbatch", "heldby"))
        super().__init__(given)
        self._hold = NOWHERE if point is None else Hold(point, int(batch), gate)

    @classmethod
    def name(cls) -> str:
        return "held"

    def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
        return HeldReader(super().streamReader(schema), self._hold)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        return HeldWriter(super().streamWriter(schema, overwrite), self._hold)


class HeldReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # PySpark has no type information
    """A stream reader that is held; the names are Spark's."""

    def __init__(self, reader: Any, hold: Hold) -> None:
        self._reader = reader
        self._hold = hold
        self._plans = False

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._planner().prepareForTriggerAvailableNow()

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        return self._planner().getDefaultReadLimit()

    def initialOffset(self) -> Any:  # noqa: N802
        return self._planner().initialOffset()

    def latestOffset(self, start: Any, limit: Any) -> Any:  # noqa: N802
        return self._planner().latestOffset(start, limit)

    def reportLatestOffset(self) -> Any:  # noqa: N802
        # Spark has the offset of latestOffset and asks this before it writes its log.
        report: Mapping[str, Any] | None = self._planner().reportLatestOffset()
        if report is not None:
            self._hold.reach(LOG_BEFORE, batch_before(report["pos"]))
        return report

    def partitions(self, start: Any, end: Any) -> Any:
        # Spark asks for these only when its log has the batch.
        self._hold.reach(LOG_AFTER, batch_at(start["pos"]))
        return self._planner().partitions(start, end)

    def commit(self, end: Any) -> None:
        self._planner().commit(end)

    def read(self, partition: Any) -> Iterator[Any]:
        seen: list[int] = []
        with fetches_held(self._hold, seen):
            yield from self._reader.read(partition)
        if seen:
            self._hold.reach(READ_AFTER, seen[0])

    def stop(self) -> None:
        self._reader.stop()

    def _planner(self) -> Any:
        """The reader in the driver's worker, which serves this query only and holds its requests for as long as it lives."""
        if not self._plans:
            hold_requests(self._hold)
            self._plans = True
        return self._reader


class HeldWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]  # PySpark has no type information
    """A stream writer that is held."""

    def __init__(self, writer: Any, hold: Hold) -> None:
        self._writer = writer
        self._hold = hold

    def write(self, iterator: Iterator[Any]) -> Any:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None, "Spark calls this in a task"
        batch = int(task.getLocalProperty(BATCH_PROPERTY))
        self._hold.reach(STAGE_BEFORE, batch)
        with stages_held(self._hold, batch):
            message = self._writer.write(iterator)
        self._hold.reach(STAGE_AFTER, batch)
        return message

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's name
        self._hold.reach(PUBLISH_BEFORE, batchId)
        self._writer.commit(messages, batchId)
        self._hold.reach(PUBLISH_AFTER, batchId)

    def abort(self, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's name
        self._writer.abort(messages, batchId)


def batch_at(position: int) -> int:
    """The batch that begins at ``position``."""
    return position // ROWS_PER_BATCH


def batch_before(position: int) -> int:
    """The batch that ends at ``position``; the last of a run may be short."""
    return -(-position // ROWS_PER_BATCH) - 1


def hold_requests(hold: Hold) -> None:
    """Holds this process before and after what it asks of the broker, whichever of Spark's calls and whichever thread asks."""
    reserve, commit = SubscriptionClient.reserve, SubscriptionClient.commit

    def held_reserve(self: SubscriptionClient, start: int, *arguments: Any, **options: Any) -> Reservation:
        hold.reach(RESERVATION_BEFORE, batch_at(start))
        reservation = reserve(self, start, *arguments, **options)
        if reservation.end > start:
            hold.reach(RESERVATION_AFTER, batch_at(start))
        return reservation

    def held_commit(self: SubscriptionClient, position: int) -> int:
        hold.reach(ACKNOWLEDGEMENT_BEFORE, batch_before(position))
        base = commit(self, position)
        hold.reach(ACKNOWLEDGEMENT_AFTER, batch_before(position))
        return base

    SubscriptionClient.reserve = held_reserve  # type: ignore[method-assign]  # on purpose
    SubscriptionClient.commit = held_commit  # type: ignore[method-assign]  # on purpose


@contextmanager
def fetches_held(hold: Hold, seen: list[int]) -> Iterator[None]:
    """Holds a task before it fetches and after the first piece of several; ``seen`` gets the batch of each fetch."""

    def fetch(ask: Callable[..., Iterator[Fetched]], client: Any, start: int, stop: int) -> Iterator[Fetched]:
        batch = batch_at(start)
        seen.append(batch)
        hold.reach(READ_BEFORE, batch)
        position = start
        for fetched in ask(client, start, stop):
            position += len(fetched.batch)
            yield fetched
            if position < stop:
                hold.reach(READ_AMID, batch)

    with wrapped(SubscriptionClient, "fetch", fetch):
        yield


@contextmanager
def stages_held(hold: Hold, batch: int) -> Iterator[None]:
    """Holds a task when it has sent what it is about to confirm."""
    from transport.clients.stage_client import StageClient

    def finish(ask: Callable[..., Any], client: Any) -> Any:
        hold.reach(STAGE_AMID, batch)
        return ask(client)

    with wrapped(StageClient, "finish", finish):
        yield


@contextmanager
def wrapped(kind: type, method: str, around: Callable[..., Any]) -> Iterator[None]:
    """``around(original, self, ...)`` in place of a method for a while: a task's worker serves other tasks afterwards, one at a time."""
    original = getattr(kind, method)
    with mock.patch.object(kind, method, lambda self, *given, **named: around(original, self, *given, **named)):
        yield
