"""What the progress of Spark's queries says of their queues, for logs, gauges and alarms.

Spark has no metrics of its own for a Python source, and shows a class of the JVM as its description. What the source tells of its queue
is in its latest offset, which `QueueListener` takes apart.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

# First of all: it says which extra is missing.
from spark_bridge import _extra as _extra  # noqa: PLC0414 - only to be loaded

# isort: split

from pyspark.sql.streaming.listener import StreamingQueryListener

from spark_bridge.offsets import POSITION, QUEUE, SUBSCRIPTION
from spark_bridge.worker_log import spark_logger

if TYPE_CHECKING:
    from transport.clients.tracing import Tracing

logger = spark_logger()


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """One queue of one query, after a batch or while there is none. A figure that is not known is None.

    Attributes:
        query: the query's name, or its id where it has none.
        batch_id: Spark's number of the batch.
        queue: the queue's name.
        subscription: the subscription's name.
        rows: of this batch.
        rows_per_second: as Spark processed them.
        backlog: messages that are ready.
        backlog_bytes: theirs.
        oldest_ms: age of the oldest of them, milliseconds.
        sender_demand: messages that senders have been granted and have not sent.
        in_flight: messages that other receivers hold.
        live_subscriptions: subscriptions of the queue whose query lives; more than 1 share its messages.
        down: addresses of brokers that the query goes on without.
    """

    query: str
    batch_id: int
    queue: str
    subscription: str
    rows: int
    rows_per_second: float
    backlog: int | None
    backlog_bytes: int | None
    oldest_ms: int | None
    sender_demand: int | None
    in_flight: int | None
    live_subscriptions: int | None
    down: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = f"query {self.query}, batch {self.batch_id}, queue {self.queue}, subscription {self.subscription}: "
        said += f"{self.rows} rows, {self.rows_per_second:.0f}/s"
        if self.backlog is not None:
            said += f"; {self.backlog} messages behind, the oldest for {self.oldest_ms or 0} ms"
        return said + (f"; without {', '.join(self.down)}" if self.down else "")


def progress_of(progress: Any) -> list[QueueProgress]:
    """What a `StreamingQueryProgress` says of each queue that its query reads; nothing of its other sources."""
    return [found for _, found in _told(progress)]


def _told(progress: Any) -> list[tuple[Any, QueueProgress]]:
    """Each queue, behind the part of ``progress`` that tells of it."""
    return [(source, found) for source in progress.sources if (found := _of_source(progress, source)) is not None]


def _of_source(progress: Any, source: Any) -> QueueProgress | None:
    try:
        said = json.loads(source.latestOffset or source.endOffset or "null")
    except (TypeError, ValueError):
        return None  # another source's
    if not isinstance(said, dict) or not {SUBSCRIPTION, QUEUE, POSITION} <= said.keys():
        return None
    return QueueProgress(
        query=progress.name or str(progress.id),
        batch_id=progress.batchId,
        queue=str(said[QUEUE]),
        subscription=str(said[SUBSCRIPTION]),
        rows=source.numInputRows,
        rows_per_second=source.processedRowsPerSecond,
        backlog=said.get("backlog"),
        backlog_bytes=said.get("backlogBytes"),
        oldest_ms=said.get("oldestMs"),
        sender_demand=said.get("senderDemand"),
        in_flight=said.get("inFlight"),
        live_subscriptions=said.get("liveSubscriptions"),
        down=tuple(said.get("down", ())),
    )


def log_progress(progress: QueueProgress) -> None:
    """A line in the log ``penstock.spark``."""
    logger.info("%s", progress)


def trace_batch(tracing: Tracing, progress: Any, source: Any, found: QueueProgress) -> None:
    """Has ``tracing`` record a span from the batch's start to its end, unless the batch has no rows of the queue.

    Spark tells of a batch when it is over, and a row is no delivery with a handler: the span begins a trace, and has no links.

    Args:
        tracing: where spans and metrics go.
        progress: a `StreamingQueryProgress`.
        source: the queue's part of it.
        found: what that says.
    """
    if not found.rows:
        return
    started = datetime.fromisoformat(progress.timestamp)
    if started.tzinfo is None:
        started = started.replace(tzinfo=UTC)  # Spark writes UTC, with a Z
    start_ns = round(started.timestamp() * 1000) * 1_000_000
    known: dict[str, str | int | float | None] = {
        "messaging.destination.subscription.name": found.subscription,
        "penstock.spark.query": found.query,
        "penstock.spark.batch_id": found.batch_id,
        "penstock.spark.start_offset": source.startOffset,
        "penstock.spark.end_offset": source.endOffset,
        "penstock.backlog": found.backlog,
        "penstock.backlog_bytes": found.backlog_bytes,
        "penstock.oldest_ms": found.oldest_ms,
    }
    known |= {f"penstock.spark.{phase}_ms": took for phase, took in dict(progress.durationMs).items()}
    tracing.batch_processed(
        found.queue,
        found.rows,
        start_ns,
        start_ns + int(progress.batchDuration) * 1_000_000,
        {name: value for name, value in known.items() if value is not None},
    )


class QueueListener(StreamingQueryListener):  # type: ignore[misc]  # PySpark has no type information
    """Reports each queue of each query of a session: ``spark.streams.addListener(QueueListener(print))``.

    Spark calls it on a thread of its own, after each batch. An error of ``report`` is logged and ends nothing.

    Args:
        report: told of each queue; by default it is a line in the log.
        tracing: a `transport.Tracing`, for a span ``process <queue>`` of each micro-batch that has rows (docs/tracing.md).
    """

    def __init__(self, report: Callable[[QueueProgress], None] = log_progress, tracing: Tracing | None = None) -> None:
        self._report = report
        self._tracing = tracing

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name, as are those below
        """Nothing is known yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Report each queue of the query."""
        for source, found in _told(event.progress):
            if self._tracing is not None:
                self._trace(self._tracing, event.progress, source, found)
            try:
                self._report(found)
            except Exception:
                logger.exception("a report of queue %r failed", found.queue)

    def _trace(self, tracing: Tracing, progress: Any, source: Any, found: QueueProgress) -> None:
        try:
            trace_batch(tracing, progress, source, found)
        except Exception:
            logger.exception("a span of queue %r failed", found.queue)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing has changed."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Its last progress has been told."""
