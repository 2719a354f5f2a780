"""How a micro-batch's positions become tasks: a pure function, since Spark asks again after a crash and must get the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

DEFAULT_SPLIT_ROWS = 50_000
"""Rows from which two tasks are worth their start; the worker that plans does not know how many cores there are."""
MAX_PARTITIONS = 10_000
"""Tasks of one micro-batch at most: more is a mistyped option, and would only keep the driver busy."""


@dataclass(frozen=True)
class PositionRange(InputPartition):  # type: ignore[misc]  # PySpark has no type information
    """Positions ``start <= p < stop`` of one broker's ledger, for one task to read on behalf of the owner with ``epoch``.

    Without a subscription they are the queue's numbers, some of which may be acknowledged, and there is no epoch, which is 0.

    Attributes:
        made: the queue's id, which its generated message ids begin with: another's positions mean something else.
    """

    broker: str
    start: int
    stop: int
    epoch: int
    made: bytes


def split(
    ranges: Sequence[PositionRange],
    *,
    min_partitions: int | None = None,
    max_records_per_partition: int | None = None,
) -> list[PositionRange]:
    """Contiguous, even ranges that cover ``ranges``, in their order; none of what is empty.

    Args:
        ranges: one a broker. A task reads from one broker, so each of them that is not empty becomes at least one.
        min_partitions: tasks at least, in all: each range gets its part of them by its rows.
        max_records_per_partition: rows of one task at most.
    """
    wanted = [whole for whole in ranges if whole.stop > whole.start]
    total = sum(whole.stop - whole.start for whole in wanted)
    least = min_partitions or (2 if total >= DEFAULT_SPLIT_ROWS else 1)
    tasks: list[PositionRange] = []
    for whole in wanted:
        rows = whole.stop - whole.start
        count = -(-least * rows // total)
        if max_records_per_partition is not None:
            count = max(count, -(-rows // max_records_per_partition))
        # One a range, and what is left of MAX_PARTITIONS by rows.
        count = min(count, rows, 1 + (MAX_PARTITIONS - len(wanted)) * rows // total)
        ends = [whole.start + rows * index // count for index in range(count + 1)]
        tasks += [replace(whole, start=first, stop=last) for first, last in pairwise(ends)]
    return tasks
