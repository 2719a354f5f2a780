"""The state of one queue: a pure fold over events, and the volatile state of its dispatch."""

from actors.queue_state.effects import Confirm, Deliver, Effect, GrantCapacity, Refuse, Reserved, Supersede
from actors.queue_state.events import (
    Event,
    MessagesAcknowledged,
    MessagesAdded,
    MessagesReserved,
    QueuePurged,
    ReservationCommitted,
    ReservedRange,
    SubscriptionOpened,
    SubscriptionReleased,
)
from actors.queue_state.ledger import FetchedRange, FetchedRanges
from actors.queue_state.log import QueueLog
from actors.queue_state.settings import (
    DEFAULT_MAX_BYTES,
    DEFAULT_MAX_MESSAGES,
    DEFAULT_VISIBILITY_TIMEOUT,
    ENTRY_OVERHEAD_BYTES,
    MAX_EXPIRED_RANGES,
    MAX_PRODUCERS,
    MAX_RESERVE_WAIT_SECONDS,
    MAX_SUBSCRIPTIONS,
    MAX_VISIBILITY_SECONDS,
    QueueSettings,
)
from actors.queue_state.state import QueueState
from actors.queue_state.statistics import (
    ConnectionStatistics,
    QueueStatistics,
    ReservationFacts,
    SubscriptionStatistics,
)
from actors.queue_state.subscribing import SubscriptionFacts

__all__ = [
    "DEFAULT_MAX_BYTES",
    "DEFAULT_MAX_MESSAGES",
    "DEFAULT_VISIBILITY_TIMEOUT",
    "ENTRY_OVERHEAD_BYTES",
    "MAX_EXPIRED_RANGES",
    "MAX_PRODUCERS",
    "MAX_RESERVE_WAIT_SECONDS",
    "MAX_SUBSCRIPTIONS",
    "MAX_VISIBILITY_SECONDS",
    "Confirm",
    "ConnectionStatistics",
    "Deliver",
    "Effect",
    "Event",
    "FetchedRange",
    "FetchedRanges",
    "GrantCapacity",
    "MessagesAcknowledged",
    "MessagesAdded",
    "MessagesReserved",
    "QueueLog",
    "QueuePurged",
    "QueueSettings",
    "QueueState",
    "QueueStatistics",
    "Refuse",
    "ReservationCommitted",
    "ReservationFacts",
    "Reserved",
    "ReservedRange",
    "SubscriptionFacts",
    "SubscriptionOpened",
    "SubscriptionReleased",
    "SubscriptionStatistics",
    "Supersede",
]
