"""How a micro-batch's positions become tasks: whatever their number, they cover the same positions in the same order."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from spark_bridge.errors import OptionError

ROWS_PER_TASK = 25_000
"""Rows that are worth a task's start, and"""
BYTES_PER_TASK = 4 * 2**20
"""bytes that are: reading either takes some times as long."""
LEAST_PARALLELISM = 2
PARALLELISM_VARIABLE = "PENSTOCK_PARALLELISM"
"""The environment variable that says how many tasks the cluster runs at a time: nothing that Spark tells the worker that plans does. Spark
sets it in all its workers by the configuration ``spark.executorEnv.PENSTOCK_PARALLELISM``."""
MAX_PARALLELISM = 1_000_000
"""Tasks at a time: more is a mistyped number."""
MAX_PARTITIONS = 10_000
"""Tasks of one micro-batch at most: more is a mistyped option, and would only keep the driver busy."""


@dataclass(frozen=True)
class PositionRange(InputPartition):  # type: ignore[misc]  # PySpark has no type information
    """Positions ``start <= p < stop`` of one broker's ledger, for one task to read on behalf of the owner with ``epoch``.

    Without a subscription they are the queue's numbers, some of which may be acknowledged, and there is no epoch, which is 0.

    Attributes:
        planned_on: the host on which the task was planned, where the broker's address means another machine on another; empty otherwise.
        made: the queue's id, which its generated message ids begin with: another's positions mean something else.
    """

    broker: str
    start: int
    stop: int
    epoch: int
    made: bytes
    planned_on: str = ""


def task_slots(name: str, text: str) -> int:
    """How many tasks run at a time, as ``name`` has it.

    Raises:
        OptionError: ``text`` is no whole number of at least 1, or has too many digits for one.
    """
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(MAX_PARALLELISM)) or int(text) < 1:
        raise OptionError(f"{name} is {text[:40]!r}: expected a whole number of at least 1")
    return int(text)


def parallelism() -> int:
    """How many tasks run at a time, where neither query nor registration says: by the environment, else the cores of this machine.

    Raises:
        OptionError: the environment variable is no whole number of at least 1.
    """
    said = os.environ.get(PARALLELISM_VARIABLE, "").strip()
    if not said:
        # Not every system tells the cores of a process.
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return max(LEAST_PARALLELISM, cores)
    return task_slots(PARALLELISM_VARIABLE, said)


def split(
    ranges: Sequence[PositionRange],
    *,
    size: int = 0,
    cores: int = LEAST_PARALLELISM,
    min_partitions: int | None = None,
    max_records_per_partition: int | None = None,
    max_bytes_per_partition: int | None = None,
) -> list[PositionRange]:
    """Contiguous, even ranges that cover ``ranges``, in their order; none of what is empty.

    Args:
        ranges: one a broker. A task reads from one broker, so each of them that is not empty becomes at least one.
        size: bytes of all rows, as far as they are known.
        cores: tasks at most, where ``min_partitions`` does not ask for more.
        min_partitions: tasks at least, in all: each range gets its part of them by its rows.
        max_records_per_partition: rows of one task at most.
        max_bytes_per_partition: bytes of one task at most, if all rows are of one size; no limit where ``size`` is not known.
    """
    wanted = [whole for whole in ranges if whole.stop > whole.start]
    total = sum(whole.stop - whole.start for whole in wanted)
    least = min_partitions or max(1, min(cores, max(total // ROWS_PER_TASK, size // BYTES_PER_TASK)))
    tasks: list[PositionRange] = []
    for whole in wanted:
        rows = whole.stop - whole.start
        count = -(-least * rows // total)
        if max_records_per_partition is not None:
            count = max(count, -(-rows // max_records_per_partition))
        if max_bytes_per_partition is not None:
            count = max(count, -(-size * rows // (total * max_bytes_per_partition)))
        # One a range, and what is left of MAX_PARTITIONS by rows.
        count = min(count, rows, 1 + (MAX_PARTITIONS - len(wanted)) * rows // total)
        ends = [whole.start + rows * index // count for index in range(count + 1)]
        tasks += [replace(whole, start=first, stop=last) for first, last in pairwise(ends)]
    return tasks
