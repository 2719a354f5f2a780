"""Penstock queues as sources and sinks of Spark: ``spark.dataSource.register(PenstockDataSource)``."""

from __future__ import annotations

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
