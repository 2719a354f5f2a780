"""Junctions: the parts of a graph that have several inputs or outputs, for `streams.GraphBuilder`."""

from streams.junctions.fan_in import (
    Concat,
    Interleave,
    Merge,
    MergeLatest,
    MergePreferred,
    MergePrioritized,
    MergeSorted,
    Zip,
    ZipAll,
    ZipLatest,
    ZipLatestWith,
    ZipWith,
)
from streams.junctions.fan_out import Balance, Broadcast, Partition, Unzip, UnzipWith
from streams.junctions.junction import Junction, JunctionPorts

__all__ = [
    "Balance",
    "Broadcast",
    "Concat",
    "Interleave",
    "Junction",
    "JunctionPorts",
    "Merge",
    "MergeLatest",
    "MergePreferred",
    "MergePrioritized",
    "MergeSorted",
    "Partition",
    "Unzip",
    "UnzipWith",
    "Zip",
    "ZipAll",
    "ZipLatest",
    "ZipLatestWith",
    "ZipWith",
]
