"""What a queue says of itself: its figures, and those of its connections and subscriptions."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConnectionStatistics:
    """One connection.

    Attributes:
        connection: which.
        role: sender, receiver, taker or subscription.
        demand: what a receiver may still get, or a sender may still send, in messages.
        in_flight: messages that a receiver holds.
        waiting: of a sender, that it can send nothing for want of room; of a receiver, that it stands in line for a queue that one has at a
            time; of a subscription, that another owns it.
        messages: how many have come from it, or gone to it; of a subscription, those that it has reserved over its whole life.
        subscription: which it uses, if any.
        held_ms: for how long a receiver has held the oldest of what it holds, milliseconds; 0 where it holds nothing.
        priority: of a receiver; messages go to those of a higher one first.
        active: of a receiver, that it has the queue that one has at a time.
    """

    connection: Hashable
    role: str
    demand: int
    in_flight: int
    waiting: bool = False
    messages: int = 0
    subscription: str | None = None
    held_ms: int = 0
    priority: int = 0
    active: bool = False


@dataclass(frozen=True, slots=True)
class SubscriptionStatistics:
    """One ledger: positions ``base`` <= p < ``high`` are reserved.

    Attributes:
        owned: whether its owner is connected.
        owner: what the owner, or the last one, calls itself; empty where it does not say.
        backlog: messages that it has reserved and not acknowledged, and those that are ready in the queue, for it or another.
        opened_us: when an owner took it, microseconds since the epoch; 0 where nobody knows.
        idle_ms: milliseconds since it was last used, 0 while its owner is connected; None where nobody knows.
    """

    name: str
    epoch: int
    base: int
    high: int
    owned: bool
    owner: str = ""
    backlog: int = 0
    opened_us: int = 0
    idle_ms: int | None = None


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """One queue. ready + delayed + in_flight + reserved + leaving == stored_messages.

    Attributes:
        ready: messages that a receiver could have now.
        in_flight: messages that receivers hold.
        reserved: messages in ledgers.
        delayed: messages sent or given back with a delay that is not over.
        demand_waiting: messages that waiting receivers and reservations would take.
        capacity_granted: messages granted to senders and not yet sent.
        stored_bytes: bytes that count towards the queue's limit.
        next_sequence: the number that the next message gets.
        total_in: messages ever stored or published, each once.
        total_out: messages ever delivered or reserved, each time.
        total_acknowledged: messages ever acknowledged or committed.
        total_redelivered: of ``total_out`` those that had been delivered before.
        total_purged: messages ever purged.
        oldest_ms: age of the oldest message that is ready, milliseconds.
        leaving: messages on their way to the dead-letter queue, or to where somebody moves them.
        total_expired: messages dropped because their time to live was over.
        total_dead_lettered: messages that went to the dead-letter queue.
        total_rejected: messages that senders were refused.
        paused: why senders may send nothing, whatever room there is; None while they may.
        waiting_receivers: how many stand in line for a queue that one has at a time.
        staged_messages: messages of transactions that are not committed; they are no part of ``stored_messages``.
        staged_bytes: bytes that count towards the limit of what may be staged.
        transactions: how many transactions these are.
        total_discarded: messages ever staged and not published.
        total_moved: messages that somebody moved to another queue.
        total_dropped: messages dropped because the queue was over its limit.
        attached_senders: how many connections send.
        attached_receivers: how many connections receive, take or own subscriptions.
        waiting_senders: how many of those who send can send nothing for want of room.
        full: whether it is at its limit, or was and has not enough room again.
        held_ms: the greatest ``held_ms`` of its connections.
        total_deduplicated: messages that were confirmed and not stored, for others with their ids were.
        deduplication_ids: how many ids are remembered.
        next_due_us: when the next message that waits for a delay is due, about, microseconds since the epoch; None where none waits.
        passed_over: of ``ready``, messages that wait behind others of their groups; nobody looks on past ``MAX_LOOKED_PAST`` of them.
    """

    name: str
    ready: int
    in_flight: int
    reserved: int
    delayed: int
    demand_waiting: int
    capacity_granted: int
    stored_messages: int
    stored_bytes: int
    next_sequence: int
    total_in: int
    total_out: int
    total_acknowledged: int
    total_redelivered: int
    total_purged: int
    oldest_ms: int
    connections: tuple[ConnectionStatistics, ...]
    subscriptions: tuple[SubscriptionStatistics, ...]
    leaving: int = 0
    total_expired: int = 0
    total_dead_lettered: int = 0
    total_rejected: int = 0
    paused: str | None = None
    waiting_receivers: int = 0
    staged_messages: int = 0
    staged_bytes: int = 0
    transactions: int = 0
    total_discarded: int = 0
    total_moved: int = 0
    total_dropped: int = 0
    attached_senders: int = 0
    attached_receivers: int = 0
    waiting_senders: int = 0
    full: bool = False
    held_ms: int = 0
    total_deduplicated: int = 0
    deduplication_ids: int = 0
    passed_over: int = 0
    next_due_us: int | None = None
