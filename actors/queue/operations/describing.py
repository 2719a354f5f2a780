"""How a queue describes itself: its statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue.operations.receiving import waits_in_line
from actors.queue.vocabulary.statistics import ConnectionStatistics, QueueStatistics, SubscriptionStatistics

if TYPE_CHECKING:
    from actors.queue.state.core import QueueCore
    from actors.queue.state.ledger import Ledger


def describe(core: QueueCore, now: float) -> QueueStatistics:
    """The queue as it is; costs as much as there are connections, subscriptions and stages."""
    log = core.log
    connections = _connections(core)
    return QueueStatistics(
        name=core.name,
        ready=core.ready.messages,
        in_flight=core.leases.in_flight,
        reserved=log.reserved_messages,
        delayed=core.ready.delayed.messages,
        demand_waiting=core.ring.total,
        capacity_granted=core.capacity.messages + core.staged.capacity.messages,
        stored_messages=log.stored_messages,
        stored_bytes=log.stored_bytes,
        next_sequence=log.next_sequence,
        total_in=log.total_in,
        total_out=core.total_out,
        total_acknowledged=log.total_acknowledged,
        total_redelivered=core.total_redelivered,
        total_purged=log.total_purged,
        oldest_ms=core.oldest_ms(now),
        connections=tuple(connections),
        subscriptions=tuple(_subscription(core, ledger, now) for ledger in log.ledgers.values()),
        leaving=core.outbox.messages,
        total_expired=log.total_expired,
        total_dead_lettered=log.total_dead_lettered,
        total_rejected=core.total_rejected,
        paused=core.paused,
        waiting_receivers=sum(facts.waiting for facts in connections),
        staged_messages=log.staged_messages,
        staged_bytes=log.staged_bytes,
        transactions=len({key[:2] for key in log.stages}),
        total_discarded=log.total_discarded,
    )


def _subscription(core: QueueCore, ledger: Ledger, now: float) -> SubscriptionStatistics:
    owner = core.owners[ledger.name]
    owned = owner.connection is not None
    idle = None if owner.used is None else round(1000 * (now - owner.used))
    return SubscriptionStatistics(
        name=ledger.name,
        epoch=ledger.epoch,
        base=ledger.base,
        high=ledger.high,
        owned=owned,
        owner=owner.client,
        backlog=ledger.high - ledger.base + core.ready.messages,
        opened_us=ledger.opened_us,
        idle_ms=0 if owned else idle,
    )


def _connections(core: QueueCore) -> list[ConnectionStatistics]:
    connections = [
        ConnectionStatistics(sender.connection, "sender", sender.permits.messages, 0)
        for sender in core.senders.values()
    ]
    connections += [
        ConnectionStatistics(
            receiver.connection, "receiver", receiver.demand, receiver.in_flight, waits_in_line(core, receiver)
        )
        for receiver in core.receivers.values()
    ]
    for subscriber in core.subscribers.values():
        owner = core.owners[subscriber.ledger.name]
        owns = owner.connection == subscriber.connection
        demand = owner.waiting.demand if owns and owner.waiting is not None else 0
        held = subscriber.ledger.high - subscriber.ledger.base if owns else 0
        connections.append(ConnectionStatistics(subscriber.connection, "subscription", demand, held))
    return connections
