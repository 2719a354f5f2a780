"""What the tasks of a batch read."""

from __future__ import annotations

import pickle
from typing import Any

from spark_bridge.reader import PenstockStreamReader


def values(reader: PenstockStreamReader, start: Any, end: Any) -> list[bytes]:
    """What a batch's tasks read, each by a copy of the reader as executors get it."""
    rows: list[bytes] = []
    for partition in reader.partitions(start, end):
        copy = PenstockStreamReader(reader._options, reader._schema)
        sent, task = pickle.loads(pickle.dumps((copy, partition)))
        for batch in sent.read(task):
            rows += batch.column("value").to_pylist()
    return rows
