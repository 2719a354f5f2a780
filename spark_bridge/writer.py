"""The sink: each task stages its rows in the broker, the driver publishes what the winning tasks staged, in one transaction.

A stage has a name of its own for each attempt of each task, so what a failed or a second attempt wrote is never published. A
transaction is (writer, version): query id and batch id of a streaming query, so a batch that Spark runs again after it was
committed sends nothing. docs/spark.md, "Writing", has the guarantees.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from spark_bridge.access_options import access_here
from spark_bridge.errors import WriteError
from spark_bridge.placing import check_not_elsewhere, planned_on
from spark_bridge.plain import plainly
from spark_bridge.sink_errors import explained
from spark_bridge.sink_options import SinkOptions
from spark_bridge.worker_log import spark_logger
from transport import Backoff, EnlistedStage, StageClient, TransactionClient

if TYPE_CHECKING:
    import pyarrow as pa

    from transport import MessageBatch

MAX_QUEUES_PER_TASK = 64
"""Each is a connection of its own, with messages that wait for their confirmation; a column with more values is no list of queues."""
ABORT_RETRY = Backoff(minimum=0.05, maximum=1.0, give_up_after=5.0)
"""Little patience: the query has failed, its user waits for the reason, and the broker discards in time what is not discarded now."""
QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
"""The local properties in which Spark tells a task of a streaming query what it works for."""

logger = spark_logger()


@dataclass(frozen=True, slots=True)
class TaskWritten(WriterCommitMessage):  # type: ignore[misc]  # PySpark has no type information
    """What one task did, for the driver.

    Attributes:
        writer: the name of what writes.
        version: the version of what it writes.
        stages: what the task staged, one stage a queue; empty if it had no rows.
        committed: the broker said that this version is committed already, and the task has sent nothing since.
    """

    writer: str
    version: int
    stages: tuple[EnlistedStage, ...] = ()
    committed: bool = False


class PenstockStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]  # PySpark has no type information
    """Writes the batches of a streaming query, each once.

    Spark makes one for the tasks of each batch and another to commit it; the second learns from the tasks which query it is.

    Args:
        options: checked, for streaming.
    """

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._planned_on = planned_on(options.brokers[:1])

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        """Stage the rows of one task.

        Raises:
            WriteError: a row, a limit of the broker, or the broker's absence forbids it.
        """
        context = TaskContext.get()
        query, batch = (context.getLocalProperty(name) for name in (QUERY_ID, BATCH_ID))
        if query is None or batch is None:
            raise WriteError(
                f"Spark did not say which query and batch this task writes for (local properties {QUERY_ID} and {BATCH_ID})"
            )
        return _write(self._options, self._planned_on, f"spark-{query}", int(batch), iterator)

    @plainly
    def commit(self, messages: Sequence[TaskWritten | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Publish what the tasks of a batch staged; nothing if it was published before.

        Raises:
            WriteError: the broker does not hold all of it any longer, or cannot be reached.
        """
        written = _of_one_transaction(messages)
        if written and written[0].version != batchId:
            raise WriteError(f"the tasks wrote batch {written[0].version}, Spark commits batch {batchId}")
        _commit(self._options, written)

    def abort(self, messages: Sequence[TaskWritten | None], batchId: int) -> None:  # noqa: N803, ARG002 - Spark's names
        """Discard what the tasks of a failed batch staged.

        Where every task failed none of them says which query it was; the broker then discards the stages when the batch is
        committed after all, or when their time is over.
        """
        written = _of_one_transaction(messages)
        if written:
            _abort(self._options, written[0].writer, written[0].version)


class PenstockBatchWriter(DataSourceArrowWriter):  # type: ignore[misc]  # PySpark has no type information
    """Writes one frame. Made once in the driver and pickled, so that its tasks and its commit have one transaction.

    Args:
        options: checked; without ``writer`` a name is made up, and writing the same frame again writes it again.
    """

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._planned_on = planned_on(options.brokers[:1])
        self._writer = options.writer or f"spark-write-{secrets.token_hex(16)}"
        self._version = options.version or 0

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        """Stage the rows of one task; raises WriteError."""
        return _write(self._options, self._planned_on, self._writer, self._version, iterator)

    @plainly
    def commit(self, messages: Sequence[TaskWritten | None]) -> None:
        """Publish what the tasks staged; raises WriteError."""
        _commit(self._options, _of_one_transaction(messages))

    def abort(self, messages: Sequence[TaskWritten | None]) -> None:  # noqa: ARG002 - Spark's signature
        """Discard what the tasks staged, of those that failed as well."""
        _abort(self._options, self._writer, self._version)


class _TaskStages:
    """The stages of one task: one for each queue that its rows name.

    Args:
        options: of the sink.
        writer: the transaction's writer.
        version: the transaction's version.
        name: the name of this attempt's stages.
    """

    def __init__(self, options: SinkOptions, writer: str, version: int, name: str) -> None:
        self._options = options
        self._writer = writer
        self._version = version
        self._name = name
        self._kind = "queue" if options.exchange is None else "exchange"
        self._clients: dict[str, StageClient] = {}
        self._open = ExitStack()
        self.committed = False
        """The broker said that this version is committed already."""

    @property
    def connected(self) -> bool:
        """Whether it has found a broker."""
        return bool(self._clients)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def send(self, queue: str, messages: MessageBatch) -> None:
        """Stage ``messages``; nothing if the version is committed already."""
        with explained(f"writing to {self._kind} {queue!r}"):
            client = self._clients.get(queue) or self._opened(queue)
            if not self.committed:
                client.send(messages)

    def finish(self) -> tuple[EnlistedStage, ...]:
        """Wait until everything is confirmed; what was staged.

        A driver that outlived its time may commit the version while this task writes. The client then drops what it has, and the
        commit of the stage that it names changes nothing.
        """
        stages: list[EnlistedStage] = []
        for queue, client in self._clients.items():
            with explained(f"writing to {self._kind} {queue!r}"):
                if not self.committed:
                    stages += client.finish_all()
        return tuple(stages)

    def _opened(self, queue: str) -> StageClient:
        options = self._options
        if len(self._clients) == MAX_QUEUES_PER_TASK:
            raise WriteError(
                f"one task writes to more than {MAX_QUEUES_PER_TASK} queues, {queue!r} is the next; "
                "repartition by column queue, or write fewer queues and put what is in the column into key"
            )
        with explained(f"writing to {self._kind} {queue!r}"):
            access = access_here(options.access)
        client = StageClient(
            options.brokers,
            queue=queue if options.exchange is None else None,
            exchange=options.exchange,
            routing_key=options.routing_key,
            writer=self._writer,
            version=self._version,
            stage=self._name,
            access=access,
            demand_timeout=options.demand_timeout_ms / 1000,
        )
        self._clients[queue] = self._open.enter_context(closing(client))
        self.committed = not client.open()
        return client


def _write(
    options: SinkOptions, planner: str, writer: str, version: int, iterator: Iterator[pa.RecordBatch]
) -> TaskWritten:
    """Stage the rows of one task. A task without rows does not connect."""
    # Committing needs none of this.
    from spark_bridge.sink_batches import MessageBatchBuilder  # noqa: PLC0415

    context = TaskContext.get()
    name = f"{context.partitionId()}-{context.attemptNumber()}-{secrets.token_hex(4)}"
    builder = MessageBatchBuilder(options.exchange or options.queue)
    with _TaskStages(options, writer, version, name) as stages:
        for records in iterator:
            # Rows of a committed batch are read all the same: what computes them may keep state that must be complete.
            if stages.committed:
                continue
            if not stages.connected:
                check_not_elsewhere("brokers", options.brokers, planner)
            for queue, messages in builder.batches(records):
                stages.send(queue, messages)
        staged = stages.finish()
        return TaskWritten(writer, version, staged, stages.committed)


def _of_one_transaction(messages: Sequence[TaskWritten | None]) -> list[TaskWritten]:
    """The messages of tasks that ended well, which all wrote for the same transaction."""
    written = [message for message in messages if message is not None]
    transactions = {(message.writer, message.version) for message in written}
    if len(transactions) > 1:
        raise WriteError(f"the tasks of one batch wrote for several transactions: {sorted(transactions)}")
    return written


def _commit(options: SinkOptions, written: Sequence[TaskWritten]) -> None:
    stages = [stage for message in written for stage in message.stages]
    if not stages:
        if any(message.committed for message in written):
            first = written[0]
            logger.warning(
                "version %d of writer %s was committed before: nothing is written", first.version, first.writer
            )
        return
    # Where some tasks staged and others found it committed, the broker answers that it is.
    writer, version = written[0].writer, written[0].version
    with explained(f"committing version {version} of writer {writer!r}"):
        client = TransactionClient(options.brokers, writer=writer, version=version, access=access_here(options.access))
        with closing(client):
            client.commit(stages)


def _abort(options: SinkOptions, writer: str, version: int) -> None:
    doing = f"discarding version {version} of writer {writer!r}"
    try:
        with explained(doing):
            client = TransactionClient(
                options.brokers,
                writer=writer,
                version=version,
                access=access_here(options.access),
                retry=ABORT_RETRY,
            )
            with closing(client):
                client.abort()
    except WriteError as error:
        # What made the write fail is what its user is to read.
        logger.warning("%s The broker discards it in time.", error)
