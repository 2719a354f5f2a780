"""Actors on an event loop, and the queue they make: the queue actor, and one actor for each connection to it."""

from __future__ import annotations

# First of all, while what is wrong can still be said.
from actors import _ours as _ours

# isort: split

from actors.batch import BinaryColumn, Message, MessageBatch
from actors.connection_messages import (
    Acknowledged,
    CaughtUp,
    CommitRequested,
    DemandSignalled,
    DemandWithdrawn,
    Extended,
    FetchRequested,
    Left,
    OfferBatch,
    Rejected,
    ReserveRequested,
    Writable,
)
from actors.errors import ActorError, BatchError, InboxOverflowError, QueueError, StorageError
from actors.loop_actor import LoopActor
from actors.loop_future import LoopFuture, ask
from actors.loop_ref import LoopActorRef
from actors.loop_registry import LoopActorRegistry
from actors.messages import (
    FetchedMessages,
    GetStatistics,
    MessagesReserved,
    PurgeQueue,
    ReceivedMessages,
    ReleaseSubscription,
    ReservationCommitted,
    SubscriptionOpened,
)
from actors.queue_actor import QueueActor
from actors.queue_directory import DEFAULT_MAX_QUEUES, QueueDirectory
from actors.queue_state import QueueSettings, QueueState, StageKey
from actors.receive_from_queue_publisher import ReceiveFromQueuePublisher
from actors.send_to_queue_subscriber import SendToQueueSubscriber
from actors.storage import repair_storage, verify_storage
from actors.subscription_publisher import SubscriptionOptions, SubscriptionPublisher
from actors.supervision import Supervision
from actors.transactions import MAX_ENLISTED, EnlistedStage, OpenTransaction, TransactionDirectory

__all__ = [
    "DEFAULT_MAX_QUEUES",
    "MAX_ENLISTED",
    "Acknowledged",
    "ActorError",
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
    "OfferBatch",
    "OpenTransaction",
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
    "repair_storage",
    "verify_storage",
]
