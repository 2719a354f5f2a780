"""Penstock queues as Spark Structured Streaming sources: ``spark.dataSource.register(PenstockDataSource)``."""

from __future__ import annotations

from spark_bridge.errors import (
    CheckpointError,
    DataLossError,
    OptionError,
    SchemaError,
    SparkBridgeError,
    SubscriptionTakenError,
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
]
