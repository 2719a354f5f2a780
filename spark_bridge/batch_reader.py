"""The batch reader: what a queue stores, or what a subscription has of it, as a frame. It acknowledges nothing.

Without a subscription it browses: messages by their numbers in the queue, whoever has them, and nothing changes. With one, everything below
the queue's high-water mark is reserved first. So no receiver takes it, and the next read has it again. It stays reserved until
`spark_bridge.acknowledge` or a streaming query of that subscription is done with it. One read at a time: the next one takes the
subscription over, and the tasks of the one before are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_bridge.clients import connect
from spark_bridge.errors import (
    NO_SUBSCRIPTION,
    OVERSIZED,
    OversizedMessageError,
    PlanOutdatedError,
    QueueMissingError,
    not_receiving,
    unanswered,
    why_unreachable,
)
from spark_bridge.options import SourceOptions
from spark_bridge.partitions import PositionRange, parallelism, split
from spark_bridge.placing import check_not_elsewhere, planned_on
from spark_bridge.plain import plainly
from spark_bridge.worker_log import spark_logger
from transport import Backoff, BrokerError, ConnectionLostError
from transport.clients.subscription_client import DEFAULT_RETRY, Mode

if TYPE_CHECKING:
    import pyarrow as pa

RESERVE_ROWS = 500_000
"""Messages of one reservation: each is one record of the broker's journal, and is made within one turn of its loop."""
RESERVE_BYTES = 64 * 2**20
"""Bytes of one reservation, for the same reason: where batches are large the broker reads one to see how much of it fits."""
BRIEF_RETRY = Backoff(minimum=0.05, maximum=1.0, give_up_after=5.0)
"""How long the plan seeks a broker that it may leave out (``brokerDown`` is ``continue``): a short interruption, no restart."""

T = TypeVar("T")
logger = spark_logger()


class PenstockBatchReader(DataSourceReader):  # type: ignore[misc]  # PySpark has no type information
    """Reads one queue as it is when the read is planned, from all of its brokers.

    One instance plans in the driver's worker; it is pickled to the executors, where it only runs `read`. Spark plans a frame once, with its
    first action, and keeps the plan for every other and for what is made of the frame: what came since is read by loading it again.

    Args:
        options: checked by ``for_batch``.
        schema: the Arrow schema of the columns to read.
    """

    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    @plainly
    def partitions(self) -> list[PositionRange]:
        """The tasks of a read; with a subscription, what they read is reserved when this returns.

        Raises:
            QueueMissingError: no broker has the queue.
            ConnectionLostError: a broker cannot be reached, unless it may be left out and another can.
        """
        options = self._options
        plan = self._reserved if options.subscription else self._stored
        ranges = of_each_broker(options, plan, "read")
        return split(
            ranges,
            cores=options.parallelism or parallelism(),
            min_partitions=options.min_partitions,
            max_records_per_partition=options.max_records_per_partition,
            max_bytes_per_partition=options.max_bytes_per_partition,
        )

    @plainly
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task; the same again, except for what was acknowledged since.

        Raises:
            PlanOutdatedError: the queue is not the one that was planned for; or its subscription was taken by another read, a query or
                an acknowledgement, or gave up what it had reserved.
        """
        if not isinstance(partition, PositionRange):
            return  # a read of nothing has one task all the same, which Spark makes
        # Planning needs none of this, and every worker that looks a source up would load it.
        from spark_bridge.arrow import RecordBatchBuilder  # noqa: PLC0415

        options = self._options
        check_not_elsewhere("brokers", options.addresses(partition.broker), partition.planned_on)
        mode: Mode = "read" if options.subscription else "browse"
        epoch = partition.epoch if options.subscription else None
        with connect(options, partition.broker, mode, epoch=epoch) as client, self._explained():
            state = client.open()
            if state.id_prefix != partition.made:
                raise PlanOutdatedError(self._outdated("it was deleted, or its broker started anew without a journal"))
            rows = 0
            builder = RecordBatchBuilder(self._schema, options.queue, state.id_prefix, options.bad_headers)
            for batch in builder.batches(client.fetch(partition.start, partition.stop)):
                rows += batch.num_rows
                yield batch
        if options.oversized == "skip":
            return
        if options.subscription and rows != partition.stop - partition.start:
            raise RuntimeError(f"positions {partition.start}-{partition.stop} were read as {rows} rows")

    def _stored(self, broker: str, retry: Backoff) -> PositionRange:
        """The numbers of what one broker stores, within the positions asked for."""
        options = self._options
        with connect(options, broker, "browse", retry=retry) as client:
            state = client.open()
        start = max(state.base, options.starting_position or 0)
        stop = state.high_water if options.ending_position is None else min(state.high_water, options.ending_position)
        return PositionRange(
            broker, start, max(start, stop), 0, state.id_prefix, planned_on(self._options.addresses(broker))
        )

    def _reserved(self, broker: str, retry: Backoff) -> PositionRange:
        """The positions of one broker's ledger, when it has everything below the high-water mark that nobody else holds."""
        with connect(self._options, broker, "browse", retry=retry) as client:
            client.open()  # opening a subscription would make the queue
        with connect(self._options, broker, "own", retry=retry) as client:
            state = client.open()
            end, start = state.high, None
            while end != start:
                start = end
                end = client.reserve(start, RESERVE_ROWS, RESERVE_BYTES, below=state.high_water).end
        return PositionRange(
            broker, state.base, end, state.epoch, state.id_prefix, planned_on(self._options.addresses(broker))
        )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """The broker's refusals in the words of this package."""
        try:
            yield
        except BrokerError as error:
            if error.code == "stale-epoch":
                by = f"another read, a query or an acknowledgement has taken subscription {self._options.subscription!r} since"
                raise PlanOutdatedError(self._outdated(by)) from error
            if error.code in ("data-loss", "not-found"):
                raise PlanOutdatedError(self._outdated(error.text)) from error
            if error.code == OVERSIZED:
                raise OversizedMessageError(error.text, ", ".join(self._options.brokers)) from error
            raise

    def _outdated(self, why: str) -> str:
        return f"queue {self._options.queue!r} is not as this read was planned ({why}); load it again"


def of_each_broker(options: SourceOptions, ask: Callable[[str, Backoff], T], purpose: str) -> list[T]:
    """What ``ask`` says of each broker, in their order; those without the queue have nothing to say.

    Args:
        options: the brokers, and whether one that is down may be left out.
        ask: takes a broker's address and how long to seek it.
        purpose: for the log, what a broker is left out of.

    Raises:
        OptionError: one serves no subscriptions at that address.
        QueueMissingError: none has the queue.
        ConnectionLostError: one cannot be reached, unless it may be left out and another can.
    """
    goes_on = options.broker_down == "continue"
    answers: list[T] = []
    missing: BrokerError | None = None
    down: ConnectionLostError | None = None
    for broker in options.brokers:
        try:
            answers.append(ask(broker, BRIEF_RETRY if goes_on else DEFAULT_RETRY))
        except BrokerError as error:
            if error.code == "unknown-role":
                raise not_receiving(broker) from error
            if error.code != "not-found":
                raise
            missing = error
        except ConnectionLostError as error:
            if not goes_on:
                raise ConnectionLostError(unanswered(broker, why_unreachable(error, broker))) from error
            logger.warning(
                "broker %s is left out of this %s, as brokerDown=continue has it: %s", broker, purpose, error
            )
            down = error
    if answers:
        return answers
    if down is not None:
        raise down
    assert missing is not None, "there is a broker, and it said something"
    hint = ""
    if NO_SUBSCRIPTION not in missing.text:
        hint = f". Correct option queue: `penstock queue list` shows what there is; this {purpose} makes none"
    raise QueueMissingError(f"{missing.text} (brokers {', '.join(options.brokers)}){hint}") from missing
