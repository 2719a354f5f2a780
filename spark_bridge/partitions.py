"""How a micro-batch's positions become tasks: a pure function, since Spark asks again after a crash and must get the same."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

DEFAULT_SPLIT_ROWS = 50_000
"""Rows from which two tasks are worth their start; the worker that plans does not know how many cores there are."""
MAX_PARTITIONS = 10_000
"""Tasks of one micro-batch at most: more is a mistyped option, and would only keep the driver busy."""


@dataclass(frozen=True)
class PositionRange(InputPartition):  # type: ignore[misc]  # PySpark has no type information
    """Positions ``start <= p < stop`` for one task to read on behalf of the owner with ``epoch``."""

    start: int
    stop: int
    epoch: int


def split(
    start: int,
    stop: int,
    epoch: int,
    *,
    min_partitions: int | None = None,
    max_records_per_partition: int | None = None,
) -> list[PositionRange]:
    """Contiguous, even ranges that cover ``start <= p < stop``; none when that is empty."""
    rows = stop - start
    if rows <= 0:
        return []
    count = min_partitions or (2 if rows >= DEFAULT_SPLIT_ROWS else 1)
    if max_records_per_partition is not None:
        count = max(count, -(-rows // max_records_per_partition))
    count = min(count, rows, MAX_PARTITIONS)
    ends = [start + rows * index // count for index in range(count + 1)]
    return [PositionRange(first, last, epoch) for first, last in pairwise(ends)]
