"""The streaming reader: Spark's calls as requests to a subscription's ledger.

Two instances serve a query. One lives in the driver's worker for as long as the query runs and owns the subscription; the other is
pickled to the executors and only ever runs `PenstockStreamReader.read`. So construction does nothing, and the driver's connection is
made by whichever call comes first: after a crash that is `partitions`, for a batch that the offset log holds already.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader

from spark_bridge._pyspark import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from spark_bridge.errors import DataLossError, SubscriptionTakenError
from spark_bridge.offsets import make_offset, position_of
from spark_bridge.options import SourceOptions
from spark_bridge.partitions import PositionRange, split
from transport import BrokerError
from transport.subscription_client import SubscriptionClient, SubscriptionState

if TYPE_CHECKING:
    import pyarrow as pa

POLL_WAIT_MS = 200
"""How long an idle query waits in the broker for the first message: Spark would ask 95 times a second otherwise, and
stopping a query must not take noticeably longer."""
EVERYTHING = 2**53
"""More messages or bytes than any queue holds, and still exact in every JSON and msgpack implementation."""
METRICS = {
    "backlog": "backlog",
    "backlogBytes": "backlog_bytes",
    "oldestMs": "oldest_ms",
    "senderDemand": "sender_demand",
    "inFlight": "in_flight",
    "highWater": "high_water",
}
"""Name in the query's progress -> name in the broker's answer."""

logger = logging.getLogger("penstock.spark")


class PenstockStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # PySpark has no type information
    """Reads one subscription of one queue.

    Args:
        options: checked, with a subscription.
        schema: the Arrow schema of the columns to read.
    """

    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._client: SubscriptionClient | None = None
        self._initial: int | None = None
        self._end: int | None = None
        self._acknowledged = 0
        self._below: int | None = None
        self._facts: Mapping[str, Any] = {}

    # Planning, in the driver's worker. The names are Spark's.

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Take the queue's high-water mark: nothing newer is reserved by this run."""
        self._below = self._open().high_water

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """``maxRowsPerBatch``."""
        return ReadMaxRows(self._options.max_rows_per_batch)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where the ledger begins: a new query gets what an earlier one reserved and did not acknowledge."""
        state = self._open()
        if self._initial is None:
            self._initial = state.base
        return make_offset(self._options.subscription, self._initial)

    def latestOffset(  # noqa: N802
        self, start: Mapping[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Reserve the next batch; ``start`` again when nothing is ready.

        Spark 4.1 passes neither argument. The batch then begins where the ledger ends, so that none is planned twice.
        """
        try:
            position = self._plan(start, limit)
        except DataLossError as error:
            position = self._skip(error)
        return make_offset(self._options.subscription, position)

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[PositionRange]:
        """The tasks of a batch; the same for the same arguments and options."""
        options = self._options
        first, last = (position_of(offset, options.subscription) for offset in (start, end))
        if first == last:
            return []
        return split(
            first,
            last,
            self._open().epoch,
            min_partitions=options.min_partitions,
            max_records_per_partition=options.max_records_per_partition,
        )

    def commit(self, end: Mapping[str, Any]) -> None:
        """Acknowledge what Spark has completed: cumulative, since Spark may leave some out."""
        self._acknowledge(position_of(end, self._options.subscription))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The queue's state as of the last reservation, for ``progress.sources[0].latestOffset``; None before the first."""
        if self._end is None:
            return None
        metrics = {name: self._facts[fact] for name, fact in METRICS.items() if fact in self._facts}
        return make_offset(self._options.subscription, self._end) | metrics

    def stop(self) -> None:
        """Close the connection. Reservations stay: Spark calls this when it is killed, too."""
        if self._client is not None:
            self._client.close()
            self._client = None

    # Reading, in the executors' workers

    def read(self, partition: PositionRange) -> Iterator[pa.RecordBatch]:
        """The rows of one task. Repeatable until they are acknowledged.

        Raises:
            DataLossError: some are gone, unless ``failOnDataLoss`` is false.
            SubscriptionTakenError: this query no longer owns the subscription.
        """
        # Planning needs none of this, and every worker that looks a source up would load it.
        from spark_bridge.arrow import RecordBatchBuilder  # noqa: PLC0415

        with self._connect("read", partition.epoch) as client, self._explained(partition.start):
            state = client.open()
            start, stop = self._readable(partition, state)
            rows = 0
            builder = RecordBatchBuilder(self._schema, self._options.queue, state.id_prefix)
            for batch in builder.batches(client.fetch(start, stop)):
                rows += batch.num_rows
                yield batch
        if rows != stop - start:
            raise RuntimeError(f"positions {start}-{stop} are {stop - start} rows, {rows} were read")

    # Inside

    def _connect(self, mode: str, epoch: int | None = None) -> SubscriptionClient:
        options = self._options
        return SubscriptionClient(
            options.brokers,
            queue=options.queue,
            subscription=options.subscription,
            mode="own" if mode == "own" else "read",
            epoch=epoch,
            starting=options.starting_offsets,
            owner_timeout_ms=options.owner_timeout_ms,
            token=options.token,
        )

    def _connected(self) -> SubscriptionClient:
        if self._client is None:
            self._client = self._connect("own")
        return self._client

    def _open(self) -> SubscriptionState:
        """Own the subscription, from the first call on."""
        try:
            with self._explained(None):
                return self._connected().open()
        except DataLossError as error:
            # The broker lost the ledger that this query owned; where that is allowed it owns the new one.
            self._allowed(error)
            with self._explained(None):
                return self._connected().open()

    def _plan(self, start: Mapping[str, Any] | None, limit: ReadLimit | None) -> int:
        """Reserve from ``start`` on; where the reservation ends."""
        state = self._open()
        position = self._position(start, state)
        if self._options.ack_on == "poll":
            # Spark asks for the next batch only when it has logged that the last is complete.
            self._acknowledge(position)
        rows, size = self._limits(limit)
        wait_ms = POLL_WAIT_MS if self._below is None else 0
        with self._explained(position):
            reservation = self._connected().reserve(position, rows, size, wait_ms=wait_ms, below=self._below)
        self._facts = reservation.facts
        self._end = reservation.end
        # Spark commits a batch only when it has planned the next. There is none as long as the queue is full of this one, and
        # nothing can come in; a broker that does not say whether it is full may be.
        if reservation.end == position and reservation.facts.get("full", True):
            self._acknowledge(position)
        return reservation.end

    def _position(self, start: Mapping[str, Any] | None, state: SubscriptionState) -> int:
        if start is not None:
            return position_of(start, self._options.subscription)
        return state.high if self._end is None else self._end

    def _limits(self, limit: ReadLimit | None) -> tuple[int, int]:
        """Rows and bytes of the next batch."""
        if isinstance(limit, ReadAllAvailable):
            return EVERYTHING, EVERYTHING
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_rows_per_batch
        return max(1, rows), self._options.max_bytes_per_batch

    def _acknowledge(self, position: int) -> None:
        if position <= self._acknowledged:
            return
        try:
            with self._explained(position):
                self._connected().commit(position)
        except DataLossError as error:
            if self._options.fail_on_data_loss:
                raise
            logger.warning("%s", error)
        else:
            self._acknowledged = position

    def _skip(self, error: DataLossError) -> int:
        """Where to go on when a position is not in the ledger, if the user has allowed for it."""
        self._allowed(error)
        base = self._open().base
        logger.warning("going on at position %d of subscription %s", base, self._options.subscription)
        self._acknowledged = 0
        self._end = base
        return base

    def _allowed(self, error: DataLossError) -> None:
        """Report a loss and take the subscription anew, as it is now; raise where loss is to end the query."""
        if self._options.fail_on_data_loss:
            raise error
        logger.warning("%s", error)
        self.stop()

    def _readable(self, partition: PositionRange, state: SubscriptionState) -> tuple[int, int]:
        """The part of a task's range that the ledger still holds: all of it, unless loss is allowed."""
        if self._options.fail_on_data_loss:
            return partition.start, partition.stop
        start = min(max(partition.start, state.base), partition.stop)
        stop = max(start, min(partition.stop, state.high))
        if stop - start != partition.stop - partition.start:
            logger.warning(
                "positions %d-%d of subscription %s: only %d-%d are still there, the rest is skipped",
                partition.start,
                partition.stop,
                self._options.subscription,
                start,
                stop,
            )
        return start, stop

    @contextmanager
    def _explained(self, position: int | None) -> Iterator[None]:
        """The broker's refusals in the words of this package."""
        try:
            yield
        except BrokerError as error:
            self._explain(error, position)

    def _explain(self, error: BrokerError, position: int | None) -> NoReturn:
        options = self._options
        if error.code == "stale-epoch":
            raise SubscriptionTakenError(options.subscription, options.queue) from error
        if error.code in ("data-loss", "not-found"):
            hint = ""
            if options.ack_on == "poll":
                hint = (
                    "ackOn=poll acknowledges before Spark's log is durable when asynchronous progress tracking is on; "
                    "use ackOn=commit there. "
                )
            what = error.text if position is None else f"position {position} ({error.text})"
            raise DataLossError(options.subscription, options.queue, what, hint) from error
        raise error
