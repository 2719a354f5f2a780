"""The data source with a diary: what Spark asked of its readers, and what they logged, a line each in a file.

A module, since Spark's workers load it: a query's reader lives in a process that a test cannot look into.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from spark_bridge import PenstockDataSource

FORMAT = "recorded_penstock"
DIARY = "diary"
"""The option that names the file."""


class RecordedDataSource(PenstockDataSource):
    """Format ``recorded_penstock``: as ``penstock``, with the option ``diary``."""

    def __init__(self, options: Mapping[str, str]) -> None:
        given = dict(options)
        self.diary = given.pop(DIARY)
        super().__init__(given)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamReader(self, schema: Any) -> RecordedReader:  # noqa: N802
        return RecordedReader(super().streamReader(schema), self.diary)


class RecordedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Writes down each call with its arguments before it is made, and its answer after it."""

    def __init__(self, reader: Any, diary: str) -> None:
        self._reader = reader
        self._diary = diary
        self._listening = False

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._record("prepare")
        self._reader.prepareForTriggerAvailableNow()

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        self._record("limit")
        return self._reader.getDefaultReadLimit()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        answer = self._reader.initialOffset()
        self._record("initial", answer)
        return answer

    def latestOffset(self, start: Any, limit: Any) -> dict[str, Any]:  # noqa: N802
        answer = self._reader.latestOffset(start, limit)
        self._record("latest", start, answer)
        return answer

    def reportLatestOffset(self) -> Any:  # noqa: N802
        return self._reader.reportLatestOffset()

    def partitions(self, start: Any, end: Any) -> Any:
        self._record("partitions", start, end)
        return self._reader.partitions(start, end)

    def commit(self, end: Any) -> None:
        self._record("commit", end)
        self._reader.commit(end)

    def stop(self) -> None:
        self._record("stop")
        self._reader.stop()

    def read(self, partition: Any) -> Iterator[Any]:
        self._record("read", partition.start, partition.stop)
        yield from self._reader.read(partition)

    def _record(self, call: str, *facts: Any) -> None:
        if not self._listening:
            self._listening = True
            logging.getLogger("penstock").addHandler(DiaryHandler(self._diary))
        write(self._diary, call, *facts)


class DiaryHandler(logging.Handler):
    """What this package's readers tell an operator."""

    def __init__(self, diary: str) -> None:
        super().__init__(logging.WARNING)
        self._path = diary

    def emit(self, record: logging.LogRecord) -> None:
        write(self._path, "log", record.getMessage())


def write(diary: str, *entry: Any) -> None:
    """One line in one write: workers of several processes share the file."""
    with open(diary, "a") as file:
        file.write(json.dumps(entry) + "\n")


def entries(diary: Path, *kinds: str) -> list[list[Any]]:
    """What was written down, in order; of all kinds, or of some."""
    lines = [json.loads(line) for line in diary.read_text().splitlines()] if diary.exists() else []
    return [line for line in lines if not kinds or line[0] in kinds]


def logged(diary: Path) -> str:
    """What the readers logged, a line each."""
    return "\n".join(text for _, text in entries(diary, "log"))
