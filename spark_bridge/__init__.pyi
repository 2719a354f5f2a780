from .acknowledging import acknowledge
from .errors import (
    BrokerUnreachableError,
    CheckpointError,
    DataLossError,
    OptionError,
    OtherQueueError,
    OversizedMessageError,
    PlanOutdatedError,
    QueueMissingError,
    SchemaError,
    SparkBridgeError,
    SubscriptionInUseError,
    SubscriptionTakenError,
    WriteError,
)
from .listener import QueueListener, QueueProgress
from .registering import register
from .source import PenstockDataSource

__all__ = [
    "BrokerUnreachableError",
    "CheckpointError",
    "DataLossError",
    "OptionError",
    "OtherQueueError",
    "OversizedMessageError",
    "PenstockDataSource",
    "PlanOutdatedError",
    "QueueListener",
    "QueueMissingError",
    "QueueProgress",
    "SchemaError",
    "SparkBridgeError",
    "SubscriptionInUseError",
    "SubscriptionTakenError",
    "WriteError",
    "acknowledge",
    "register",
]
