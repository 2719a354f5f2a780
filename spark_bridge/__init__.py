"""Penstock queues as sources and sinks of Spark: ``spark.dataSource.register(PenstockDataSource)``."""

from __future__ import annotations

from spark_bridge.errors import (
    CheckpointError,
    DataLossError,
    OptionError,
    SchemaError,
    SparkBridgeError,
    SubscriptionTakenError,
    WriteError,
)
from spark_bridge.source import PenstockDataSource

__all__ = [
    "CheckpointError",
    "DataLossError",
    "OptionError",
    "PenstockDataSource",
    "SchemaError",
    "SparkBridgeError",
    "SubscriptionTakenError",
    "WriteError",
]
