"""The streaming reader: Spark's calls as requests to the subscription's ledgers, one at each broker.

Two instances serve a query. One lives in the driver's worker for as long as the query runs and owns the subscription; the other is
pickled to the executors and only ever runs `PenstockStreamReader.read`. So construction does nothing, and the driver's connections are
made by whichever call comes first: after a crash that is `partitions`, for a batch that the offset log holds already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader

from spark_bridge._pyspark import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from spark_bridge.errors import CheckpointError, DataLossError, OtherQueueError
from spark_bridge.ledger import check_origin, connect, explained, logger
from spark_bridge.ledgers import Ledgers
from spark_bridge.metrics import reported
from spark_bridge.micro_batch import MicroBatchPlan
from spark_bridge.offsets import OffsetFormat, Origin, Positions
from spark_bridge.options import DEFAULT_MAX_TRIGGER_DELAY_MS, SourceOptions
from spark_bridge.partitions import PositionRange, parallelism, split
from spark_bridge.placing import check_not_elsewhere, planned_on
from spark_bridge.plain import plainly
from spark_bridge.replicas import names_of
from spark_bridge.trigger_delay import TriggerDelay
from transport.clients.subscription_client import SubscriptionState

if TYPE_CHECKING:
    import pyarrow as pa

POLL_WAIT_MS = 200
"""How long an idle query waits in the brokers for the first message: Spark would ask 95 times a second otherwise. It is not longer, for a
query that is put off neither: Spark asks all sources of a query in turn, so the others' batches wait as well, and so does a trigger. A
driver that was killed leaves its worker in this wait, and the subscription to it."""
EVERYTHING = 2**53
"""More messages or bytes than any queue holds, and still exact in every JSON and msgpack implementation."""


class PenstockStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # PySpark has no type information
    """Reads one subscription of one queue, at each of the brokers.

    A broker that the checkpoint does not know joins with an offset of its own, at which nothing is read yet. From then on every batch's
    start is in Spark's log, and a batch that is repeated is the same. One that the checkpoint knows and the options do not is an error,
    since its messages would be left behind.

    Args:
        options: checked, with a subscription.
        schema: the Arrow schema of the columns to read.
    """

    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._format = OffsetFormat(
            options.subscription, options.queue, options.brokers, names_of(dict(options.replicas))
        )
        self._ledgers: Ledgers | None = None
        self._initial: dict[str, int] | None = None
        self._ends: dict[str, int] | None = None
        self._made: dict[str, bytes] = {}
        self._below: dict[str, int] | None = None
        self._left_out: set[str] = set()
        self._left = 0
        self._turn = 0
        self._planned: tuple[Mapping[str, int], int] = ({}, 0)
        least, delay = options.min_rows_per_batch, options.max_trigger_delay_ms or DEFAULT_MAX_TRIGGER_DELAY_MS
        self._delay = None if least is None else TriggerDelay(least, delay / 1000)

    # Planning, in the driver's worker. The names are Spark's.

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Take the queue's high-water mark at each broker: nothing newer is reserved by this run.

        A broker that is down, where the query goes on without, has none and is not read in this run.
        """
        self._below = {broker: state.high_water for broker, state in self._driven().states().items()}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """``maxRowsPerBatch``."""
        return ReadMaxRows(self._options.max_rows_per_batch)

    @plainly
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where the ledgers begin: a new query gets what an earlier one reserved and did not acknowledge.

        Raises:
            BrokerUnreachableError: a broker is down; a new query needs all of them, once.
        """
        if self._initial is None:
            states = self._driven().all_states()
            self._initial = {broker: state.base for broker, state in states.items()}
            self._left = sum(state.high - state.base for state in states.values())
            if self._below is not None:
                self._below = {broker: state.high_water for broker, state in states.items()} | self._below
        return self._format.encode(self._initial, self._ids())

    @plainly
    def latestOffset(  # noqa: N802
        self, start: Mapping[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Reserve the next batch; ``start`` again when nothing is ready.

        Spark 4.1 passes neither argument. The batch then begins where the ledgers end, so that none is planned twice.
        """
        self._tell_of_what_is_left()
        ledgers = self._driven()
        starts = self._last_ends() if start is None else self._begin_at(start)
        if self._options.ack_on == "poll":
            # Spark asks for the next batch only when it has logged that the last is complete.
            for broker, position in starts.items():
                ledgers[broker].acknowledge(position)
        if self._held_back(starts, limit):
            self._ends = starts
            return self._format.encode(starts, self._ids() | self._made)
        rows, size = self._limits(limit)
        plan = MicroBatchPlan(ledgers, starts, rows=rows, size=size, below=self._below, turn=self._turn)
        self._turn += 1
        ends = self._joined(starts) | plan.run(POLL_WAIT_MS if self._below is None else 0)
        self._planned = ends, plan.bytes
        if self._delay is not None:
            self._delay.planned(plan.rows)
        # A position stays that of the queue it was taken from, whatever that broker has said since.
        known = {broker: made for broker, made in self._made.items() if broker not in plan.begun_anew}
        self._ends, self._made = ends, self._ids() | known
        return self._format.encode(self._ends, self._made)

    @plainly
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[PositionRange]:
        """The tasks of a batch: together the same rows in the same order, whenever it is asked.

        In how many tasks they are read goes by the bytes of the batch too, which are known while the driver lives that has planned it.

        Raises:
            DataLossError: a position goes back, and loss is not allowed.
            BrokerUnreachableError: a broker has never answered, and this batch, which is in Spark's log, has messages of it.
        """
        # A batch that is planned before any is asked for stands in Spark's log: what is left is that batch.
        self._left = 0
        options = self._options
        starts, ends = self._decoded(start), self._decoded(end)
        ranges = []
        for broker in sorted(ends.at):
            # A broker that is in the end only has joined there; one whose queue is another in the end has begun anew there.
            if broker not in starts.at or starts.origin(broker).differs(ends.origin(broker)):
                continue
            first, last = starts.at[broker], ends.at[broker]
            if last < first and self._options.fail_on_data_loss:
                what = f"goes back: the batch is from ledger position {first} to {last} of broker {broker}"
                raise DataLossError(self._options.subscription, self._options.queue, what)
            if first < last and (state := self._state_for(broker, ends.origin(broker))) is not None:
                ranges.append(
                    PositionRange(
                        broker, first, last, state.epoch, state.id_prefix, planned_on(options.addresses(broker))
                    )
                )
        return split(
            ranges,
            size=self._planned[1] if self._planned[0] == ends.at else 0,
            cores=options.parallelism or parallelism(),
            min_partitions=options.min_partitions,
            max_records_per_partition=options.max_records_per_partition,
            max_bytes_per_partition=options.max_bytes_per_partition,
        )

    @plainly
    def commit(self, end: Mapping[str, Any]) -> None:
        """Acknowledge what Spark has completed: cumulative, since Spark may leave some out."""
        ledgers = self._driven()
        done = self._decoded(end)
        for broker, position in done.at.items():
            ledger, origin = ledgers[broker], done.origin(broker)
            if ledger.state is None:
                ledger.expect(origin)
            elif origin.is_other(self._options.queue, ledger.state.id_prefix):
                continue  # as lost as the queue it was of, which has been reported
            ledger.acknowledge(position)
        ledgers.settle()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The queue's state as of the last reservation, for ``progress.sources[0].latestOffset``; None before the first."""
        if self._ends is None:
            return None
        return self._format.encode(self._ends, self._made) | reported(self._driven())

    def stop(self) -> None:
        """Close the connections. Reservations stay: Spark calls this when it is killed, too."""
        if self._ledgers is not None:
            self._ledgers.close()
            self._ledgers = None

    # Reading, in the executors' workers

    @plainly
    def read(self, partition: PositionRange) -> Iterator[pa.RecordBatch]:
        """The rows of one task. Repeatable until they are acknowledged.

        Raises:
            BrokerUnreachableError: the broker could not be reached for as long as the client tries.
            DataLossError: some are gone, unless ``failOnDataLoss`` is false.
            SubscriptionTakenError: this query no longer owns the subscription.
        """
        # Planning needs none of this, and every worker that looks a source up would load it.
        from spark_bridge.arrow import RecordBatchBuilder  # noqa: PLC0415

        options = self._options
        check_not_elsewhere("brokers", options.addresses(partition.broker), partition.planned_on)
        with (
            connect(options, partition.broker, partition.epoch) as client,
            explained(options, partition.broker, partition.start),
        ):
            state = client.open()
            start, stop = self._readable(partition, state)
            rows = 0
            builder = RecordBatchBuilder(self._schema, options.queue, state.id_prefix, options.bad_headers)
            for batch in builder.batches(client.fetch(start, stop)):
                rows += batch.num_rows
                yield batch
        if rows < stop - start and options.oversized == "skip":
            what = f"queue {options.queue!r} at {partition.broker}, ledger positions {start}-{stop}"
            logger.warning(
                "%s: %d of them are messages that fit no frame, and skipped, as oversized=skip has it",
                what,
                stop - start - rows,
            )
        elif rows != stop - start:
            raise RuntimeError(f"positions {start}-{stop} are {stop - start} rows, {rows} were read")

    # Inside

    def _tell_of_what_is_left(self) -> None:
        """Spark asks where to begin only while no batch is complete: what is reserved then, and in no batch of its log, was another run's.

        Whether that run ended before its first batch was logged, or had a checkpoint that is gone, nobody here knows.
        """
        held, self._left = self._left, 0
        if held:
            logger.warning(
                "subscription %r of queue %r still has %s that an earlier run reserved and did not acknowledge, and this query reads %s "
                "again. Either that run ended before its first batch was in the checkpoint: then there is nothing to do. Or the query has "
                "no checkpointLocation, or a new one: without one each run leaves its last batch so; give it one, or set ackOn=poll",
                self._options.subscription,
                self._options.queue,
                "1 message" if held == 1 else f"{held} messages",
                "it" if held == 1 else "them",
            )

    def _driven(self) -> Ledgers:
        """The ledgers, owned from the first request on."""
        if self._ledgers is None:
            self._ledgers = Ledgers(self._options)
        return self._ledgers

    def _ids(self) -> dict[str, bytes]:
        """Broker -> id of the queue there, of those that have said so."""
        return {ledger.broker: ledger.state.id_prefix for ledger in self._driven() if ledger.state is not None}

    def _begin_at(self, start: Mapping[str, Any]) -> dict[str, int]:
        """Broker -> position of a batch's start, each to be refused by its broker where that has another queue."""
        decoded = self._decoded(start)
        for broker in decoded.at:
            self._driven()[broker].expect(decoded.origin(broker))
        self._made = decoded.made
        return decoded.at

    def _held_back(self, starts: Mapping[str, int], limit: ReadLimit | None) -> bool:
        """Whether there is too little for a batch yet; a run that takes what is there takes it at once."""
        if self._delay is None or self._below is not None or isinstance(limit, ReadAllAvailable):
            return False
        return self._delay.holds(self._driven(), Positions(dict(starts), self._options.queue, self._made), POLL_WAIT_MS)

    def _state_for(self, broker: str, origin: Origin) -> SubscriptionState | None:
        """The subscription at ``broker``; None where its queue is another than ``origin``, and that is allowed.

        Raises:
            OtherQueueError: it is another, and loss is not allowed.
        """
        ledger = self._driven()[broker]
        if ledger.state is None:
            ledger.expect(origin)
        state = self._driven().state(broker)
        if not origin.is_other(self._options.queue, state.id_prefix):
            return state
        if self._options.fail_on_data_loss:
            check_origin(self._options, broker, origin, state.id_prefix)
        return None

    def _decoded(self, offset: Mapping[str, Any]) -> Positions:
        """What an offset says of the brokers in the options.

        Raises:
            CheckpointError: there is another in it, and loss is not allowed.
        """
        decoded = self._format.decode(offset)
        for broker in decoded.at.keys() - set(self._options.brokers):
            what = (
                f"the checkpoint stands at ledger position {decoded.at[broker]} of broker {broker}, which option brokers no longer names: "
                "what is in its queue would not be read"
            )
            if self._options.fail_on_data_loss:
                raise CheckpointError(
                    f"{what}. List it until it is empty, or set failOnDataLoss to false to leave it out"
                )
            if broker not in self._left_out:
                self._left_out.add(broker)
                logger.warning("%s; it is left out", what)
            del decoded.at[broker]
            decoded.made.pop(broker, None)
        return decoded

    def _last_ends(self) -> dict[str, int]:
        if self._ends is None:
            return {broker: state.high for broker, state in self._driven().all_states().items()}
        return self._ends

    def _joined(self, starts: Mapping[str, int]) -> dict[str, int]:
        """Where the ledgers begin that the batch's start does not know, as far as their brokers answer."""
        if all(broker in starts for broker in self._options.brokers):
            return {}
        states = self._driven().states()
        return {broker: state.base for broker, state in states.items() if broker not in starts}

    def _limits(self, limit: ReadLimit | None) -> tuple[int, int]:
        """Rows and bytes of the next batch."""
        if isinstance(limit, ReadAllAvailable):
            return EVERYTHING, EVERYTHING
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_rows_per_batch
        return max(1, rows), self._options.max_bytes_per_batch

    def _readable(self, partition: PositionRange, state: SubscriptionState) -> tuple[int, int]:
        """The part of a task's range that the ledger still holds: all of it, unless loss is allowed."""
        try:
            check_origin(self._options, partition.broker, Origin(self._options.queue, partition.made), state.id_prefix)
        except OtherQueueError as error:
            if self._options.fail_on_data_loss:
                raise
            logger.warning("%s", error)
            return partition.start, partition.start
        if self._options.fail_on_data_loss:
            return partition.start, partition.stop
        start = min(max(partition.start, state.base), partition.stop)
        stop = max(start, min(partition.stop, state.high))
        if stop - start != partition.stop - partition.start:
            logger.warning(
                "ledger positions %d-%d of subscription %s at %s: only %d-%d are still there, the rest is skipped",
                partition.start,
                partition.stop,
                self._options.subscription,
                partition.broker,
                start,
                stop,
            )
        return start, stop
