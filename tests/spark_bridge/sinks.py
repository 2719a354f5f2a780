"""What tests of the sink have in common: lines to write, a query that writes them, and what is then in a queue."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.spark_bridge.queries import CHECKPOINT
from transport import Message

EVERYTHING = 2**40
"""More messages or bytes than a test sends."""
QUERY_ID = "7e6f"


def contents(broker: Any, queue: str = "out") -> list[Message]:
    """Every message that can be received from a queue, or could when this was called before; it keeps them."""
    with broker.client(queue, "what-is-there") as client:
        state = client.open()
        end = client.reserve(state.high, EVERYTHING, EVERYTHING).end
        return [message for fetched in client.fetch(state.base, end) for message in fetched.batch.messages()]


def payloads(broker: Any, queue: str = "out") -> list[bytes]:
    """As `contents`, sorted: the tasks of a batch write side by side."""
    return sorted(message.payload for message in contents(broker, queue))


def staged(broker: Any) -> list[tuple[str, int, int]]:
    """(writer, version, messages) of every transaction that is neither committed nor discarded."""
    found = broker.on_loop(broker.broker.queues.transactions.list)
    return [(transaction.writer, transaction.version, transaction.messages) for transaction in found]


class Task:
    """What Spark's workers see of a task: its context.

    Args:
        partition: its number in the batch.
        attempt: how often it was tried before.
        batch: the batch of query ``QUERY_ID``; None outside of streaming queries.
    """

    def __init__(self, partition: int = 0, attempt: int = 0, batch: int | None = None) -> None:
        self._partition, self._attempt = partition, attempt
        streaming = {"sql.streaming.queryId": QUERY_ID, "streaming.sql.batchId": str(batch)}
        self._properties = {} if batch is None else streaming

    def partitionId(self) -> int:  # noqa: N802 - Spark's name
        return self._partition

    def attemptNumber(self) -> int:  # noqa: N802 - Spark's name
        return self._attempt

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 - Spark's name
        return self._properties.get(name)


class Lines:
    """Text files that a streaming query reads, one a batch, in the order in which they were written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "lines"
        self.folder.mkdir()
        self._files = 0

    def write(self, lines: Sequence[bytes]) -> None:
        file = self.folder / f"{self._files}.txt"
        hidden = file.with_name(f".{file.name}")
        hidden.write_bytes(b"\n".join(lines))
        # Spark orders files by their times, and two of one test may be of the same millisecond.
        os.utime(hidden, (self._files, self._files))
        hidden.rename(file)
        self._files += 1

    def load(self, spark: Any) -> Any:
        """A frame with the column ``value``."""
        return spark.readStream.option("maxFilesPerTrigger", "1").text(str(self.folder))


def write_stream(frame: Any, broker: Any, folder: Path, **options: Any) -> Any:
    """A query that writes ``frame`` into queue ``out``, unless told otherwise, until there is no more; started."""
    given = {"queue": "out", "brokers": broker.sending, "checkpointLocation": str(folder / CHECKPOINT)} | options
    return frame.writeStream.format("penstock").options(**given).trigger(availableNow=True).start()


def write_frame(frame: Any, broker: Any, mode: str = "append", **options: Any) -> None:
    given = {"queue": "out", "brokers": broker.sending} | options
    frame.write.format("penstock").mode(mode).options(**given).save()


def forget_commit(folder: Path, batch: int) -> None:
    """Takes the checkpoint back to before ``batch`` was complete, as if the driver had been killed there."""
    commits = folder / CHECKPOINT / "commits"
    for file in (commits / str(batch), commits / f".{batch}.crc"):
        file.unlink()
