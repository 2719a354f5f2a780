"""Penstock queues as sources and sinks of Spark: ``spark.dataSource.register(PenstockDataSource)``."""

from __future__ import annotations

# First of all, while what is wrong can still be said.
from spark_bridge import _ours as _ours

# isort: split

from spark_bridge.acknowledging import acknowledge
from spark_bridge.errors import (
    BrokerUnreachableError,
    CheckpointError,
    DataLossError,
    OptionError,
    OtherQueueError,
    PlanOutdatedError,
    QueueMissingError,
    SchemaError,
    SparkBridgeError,
    SubscriptionInUseError,
    SubscriptionTakenError,
    WriteError,
)
from spark_bridge.source import PenstockDataSource

__all__ = [
    "BrokerUnreachableError",
    "CheckpointError",
    "DataLossError",
    "OptionError",
    "OtherQueueError",
    "PenstockDataSource",
    "PlanOutdatedError",
    "QueueMissingError",
    "SchemaError",
    "SparkBridgeError",
    "SubscriptionInUseError",
    "SubscriptionTakenError",
    "WriteError",
    "acknowledge",
]
