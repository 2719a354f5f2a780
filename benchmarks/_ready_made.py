"""Sources that cost nothing of their own, in the columns of Penstock's: what is left is what Spark takes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from benchmarks._paced import STAMP
from benchmarks._payloads import make_payloads
from spark_bridge.arrow import RecordBatchBuilder
from spark_bridge.schema import arrow_schema, source_schema
from transport import MessageBatch
from transport.wire.messages import Fetched

if TYPE_CHECKING:
    import pyarrow as pa

READY_MADE = "ready-made"
INSTANT = "instant"
SPLIT_ROWS = 50_000
"""From so many rows on a micro-batch is two tasks, as Penstock's source plans it."""


@dataclass(frozen=True)
class Rows(InputPartition):  # type: ignore[misc]  # PySpark has no type information
    """So many rows for one task."""

    count: int


@dataclass(frozen=True)
class Instant(InputPartition):  # type: ignore[misc]  # as above
    """One row that says when it was planned: CLOCK_MONOTONIC, nanoseconds."""

    at: int


class ReadyMadeSource(DataSource):  # type: ignore[misc]  # as above
    """``rows`` rows of Arrow batches that are built once a task."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return READY_MADE

    def schema(self) -> Any:
        """As Penstock's."""
        return source_schema(include_headers=False)

    def streamReader(self, schema: Any) -> ReadyMadeReader:  # noqa: N802 - Spark's name
        """The reader of one query."""
        numbers = {name: int(self.options[name]) for name in ("rows", "perbatch", "size", "arrowrows")}
        return ReadyMadeReader(numbers, arrow_schema(schema))


class ReadyMadeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # as above
    """Plans as Penstock's reader does, and yields the same batch again and again."""

    def __init__(self, numbers: dict[str, int], schema: pa.Schema) -> None:
        self._numbers = numbers
        self._schema = schema

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Everything is available from the start."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """The first row."""
        return {"pos": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: ARG002, N802 - Spark's signature
        """The next micro-batch."""
        return {"pos": min(start["pos"] + self._numbers["perbatch"], self._numbers["rows"])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Rows]:
        """Split as Penstock's are."""
        rows = end["pos"] - start["pos"]
        tasks = min(rows, 2 if rows >= SPLIT_ROWS else 1)
        return [Rows(rows * (task + 1) // tasks - rows * task // tasks) for task in range(tasks)]

    def read(self, partition: Rows) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        ready = ready_made(self._numbers["arrowrows"], self._numbers["size"], self._schema)
        left = partition.count
        while left > 0:
            yield ready if left >= ready.num_rows else ready.slice(0, left)
            left -= ready.num_rows


class InstantSource(DataSource):  # type: ignore[misc]  # as above
    """A micro-batch after the other, each of one row that says when it was planned."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return INSTANT

    def schema(self) -> Any:
        """As Penstock's."""
        return source_schema(include_headers=False)

    def streamReader(self, schema: Any) -> InstantReader:  # noqa: N802 - Spark's name
        """The reader of one query."""
        return InstantReader(arrow_schema(schema))


class InstantReader(DataSourceStreamReader):  # type: ignore[misc]  # as above
    """Has a new row whenever it is asked."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Before all."""
        return {"at": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: ARG002, N802 - Spark's signature
        """Now."""
        return {"at": time.monotonic_ns()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Instant]:  # noqa: ARG002 - Spark's signature
        """The one row."""
        return [Instant(end["at"])]

    def read(self, partition: Instant) -> Iterator[pa.RecordBatch]:
        """The one row."""
        yield build(MessageBatch.from_payloads([STAMP.pack(partition.at)]), self._schema)


def ready_made(rows: int, size: int, schema: pa.Schema) -> pa.RecordBatch:
    """One Arrow batch, built the way Penstock's are."""
    return build(MessageBatch.from_payloads(make_payloads(rows, size)), schema)


def build(batch: MessageBatch, schema: pa.Schema) -> pa.RecordBatch:
    """``batch`` as rows, as if it had been fetched just now."""
    builder = RecordBatchBuilder(schema, READY_MADE, bytes(8))
    return builder.build([Fetched(0, 0, 0, time.time_ns() // 1000, 1, False, batch)])
