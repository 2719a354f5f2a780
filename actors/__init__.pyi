from .batch import BinaryColumn, Message, MessageBatch
from .errors import ActorError, BatchError, InboxOverflowError, QueueError, StorageError
from .queue.queue_actor import QueueActor
from .queue.queue_directory import QueueDirectory
from .queue.queue_state import QueueState
from .queue.receive_from_queue_publisher import ReceiveFromQueuePublisher
from .queue.send_to_queue_subscriber import SendToQueueSubscriber
from .queue.subscription_publisher import SubscriptionOptions, SubscriptionPublisher
from .queue.transactions import TransactionDirectory
from .queue.vocabulary.commands import (
    Acknowledged,
    CaughtUp,
    CommitRequested,
    DemandSignalled,
    Extended,
    FetchRequested,
    GetStatistics,
    Left,
    OfferBatch,
    PurgeQueue,
    Rejected,
    ReleaseSubscription,
    ReserveRequested,
    Writable,
)
from .queue.vocabulary.moves import MoveMessages, PeekMessages
from .queue.vocabulary.prefetch import DemandWithdrawn
from .queue.vocabulary.replies import (
    FetchedMessages,
    MessagesReserved,
    ReceivedMessages,
    ReservationCommitted,
    SubscriptionOpened,
)
from .queue.vocabulary.settings import DEFAULT_MAX_QUEUES, QueueSettings
from .queue.vocabulary.stages import MAX_ENLISTED, EnlistedStage, OpenTransaction, StageKey
from .runtime.loop_actor import LoopActor
from .runtime.loop_future import LoopFuture, ask
from .runtime.loop_ref import LoopActorRef
from .runtime.loop_registry import LoopActorRegistry
from .runtime.supervision import Supervision
from .storage import BackupWriting, backup_storage, glance_storage, repair_storage, restore_storage, verify_storage

__all__ = [
    "DEFAULT_MAX_QUEUES",
    "MAX_ENLISTED",
    "Acknowledged",
    "ActorError",
    "BackupWriting",
    "BatchError",
    "BinaryColumn",
    "CaughtUp",
    "CommitRequested",
    "DemandSignalled",
    "DemandWithdrawn",
    "EnlistedStage",
    "Extended",
    "FetchRequested",
    "FetchedMessages",
    "GetStatistics",
    "InboxOverflowError",
    "Left",
    "LoopActor",
    "LoopActorRef",
    "LoopActorRegistry",
    "LoopFuture",
    "Message",
    "MessageBatch",
    "MessagesReserved",
    "MoveMessages",
    "OfferBatch",
    "OpenTransaction",
    "PeekMessages",
    "PurgeQueue",
    "QueueActor",
    "QueueDirectory",
    "QueueError",
    "QueueSettings",
    "QueueState",
    "ReceiveFromQueuePublisher",
    "ReceivedMessages",
    "Rejected",
    "ReleaseSubscription",
    "ReservationCommitted",
    "ReserveRequested",
    "SendToQueueSubscriber",
    "StageKey",
    "StorageError",
    "SubscriptionOpened",
    "SubscriptionOptions",
    "SubscriptionPublisher",
    "Supervision",
    "TransactionDirectory",
    "Writable",
    "ask",
    "backup_storage",
    "glance_storage",
    "repair_storage",
    "restore_storage",
    "verify_storage",
]
