from .fan_in import (
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
from .fan_out import Balance, Broadcast, Partition, Unzip, UnzipWith
from .junction import Junction, JunctionPorts

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
