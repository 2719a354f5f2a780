"""What tests of streaming queries have in common: starting one, ending it, and the rows that came out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.spark_bridge.recorded_source import FORMAT, RecordedDataSource
from transport import Administration

MARKS = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    # py4j leaves the sockets of its callback threads to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
"""Of every module with queries: a JVM may start in its first test, on a machine that may be busy with others."""
QUERY_SECONDS = 120
CHECKPOINT = "checkpoint"


def numbers(start: int, stop: int) -> list[bytes]:
    """The payloads that tests send: decimal, so that a failure names the rows."""
    return [b"%d" % number for number in range(start, stop)]


def values(rows: Iterable[Any]) -> list[bytes]:
    return [bytes(row.value) for row in rows]


def source(spark: Any, broker: Any, **options: Any) -> Any:
    """A reader of queue ``q`` under subscription ``s``, unless told otherwise; `load` it."""
    given = {"queue": "q", "subscription": "s", "brokers": broker.receiving} | options
    return spark.readStream.format("penstock").options(**given)


def start(frame: Any, folder: Path, write: Any, **trigger: Any) -> Any:
    """A query that hands each batch to ``write``, its checkpoint in ``folder``; available-now unless told otherwise."""
    writer = frame.writeStream.foreachBatch(write).trigger(**(trigger or {"availableNow": True}))
    return writer.option("checkpointLocation", str(folder / CHECKPOINT)).start()


def finish(query: Any) -> Any:
    """The query, when it has ended well."""
    assert query.awaitTermination(QUERY_SECONDS), "the query did not end in time"
    return query


def failure(query: Any) -> str:
    """What ``query.exception()`` tells a user whose query has failed."""
    with pytest.raises(Exception, match="STREAM_FAILED"):
        query.awaitTermination(QUERY_SECONDS)
    error = query.exception()
    assert error is not None
    return str(error)


def roll_back(folder: Path, last: int) -> None:
    """Takes the checkpoint back to where batch ``last`` was its newest, as a restored backup would."""
    gone = [
        file for log in ("offsets", "commits") for file in (folder / CHECKPOINT / log).iterdir() if is_after(file, last)
    ]
    assert gone, "there was nothing to take back"
    for file in gone:
        file.unlink()


def is_after(file: Path, last: int) -> bool:
    """Whether a file of a checkpoint's log, or its checksum, is of a batch after ``last``."""
    number = file.name.lstrip(".").partition(".")[0]
    return number.isdigit() and int(number) > last


class Batches:
    """A `foreachBatch` that keeps the rows of each batch, the last time that it was run; tests wait on it.

    Args:
        then: called with the number of a batch when its rows are kept.
        first: called with it before they are read.
    """

    def __init__(self, then: Callable[[int], None] | None = None, first: Callable[[int], None] | None = None) -> None:
        self.then = then
        self.first = first
        self._changed = threading.Condition()
        self.rows: dict[int, list[Any]] = {}

    def __call__(self, frame: Any, number: int) -> None:
        if self.first is not None:
            self.first(number)
        rows = frame.collect()
        with self._changed:
            self.rows[number] = rows
            self._changed.notify_all()
        if self.then is not None:
            self.then(number)

    @property
    def sizes(self) -> list[int]:
        return [len(rows) for _, rows in sorted(self.rows.items())]

    @property
    def values(self) -> list[bytes]:
        """Of all batches in order."""
        return [value for _, rows in sorted(self.rows.items()) for value in values(rows)]

    def wait_for(self, count: int) -> None:
        """Until there are ``count`` rows or more."""
        with self._changed:
            enough = self._changed.wait_for(lambda: sum(self.sizes) >= count, QUERY_SECONDS)
        assert enough, f"{sum(self.sizes)} rows came in time, not {count}"


def release(broker: Any, subscription: str = "s") -> int:
    """What ``penstock subscription release q s --force`` does; how many messages it released."""

    async def run() -> int:
        async with Administration(broker.sending) as administration:
            released = await administration.release_subscription("q", subscription, force=True)
        assert released is not None
        return released

    return asyncio.run(run())


def recorded(spark: Any, broker: Any, diary: Path, **options: Any) -> Any:
    """As `source`, with every call of Spark's and every warning of the readers written into ``diary``."""
    spark.dataSource.register(RecordedDataSource)
    return source(spark, broker, diary=str(diary), **options).format(FORMAT)
