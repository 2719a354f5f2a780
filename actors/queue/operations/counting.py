"""What a queue counts, read in a microsecond or so: no message is looked at, and no connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from actors.queue.operations.calendar import delayed_messages

if TYPE_CHECKING:
    from actors.queue.state.core import QueueCore
    from actors.queue.state.log import QueueLog


class Counters(NamedTuple):
    """What only grows, in messages; each field is as `QueueStatistics` has it under ``total_...``."""

    received: int = 0
    acknowledged: int = 0
    purged: int = 0
    expired: int = 0
    dead_lettered: int = 0
    moved: int = 0
    discarded: int = 0
    dropped: int = 0
    delivered: int = 0
    redelivered: int = 0
    rejected: int = 0
    deduplicated: int = 0


class Figures(NamedTuple):
    """What goes up and down; each field is as `QueueStatistics` has it."""

    ready: int
    in_flight: int
    reserved: int
    delayed: int
    leaving: int
    stored_messages: int
    stored_bytes: int
    staged_messages: int
    staged_bytes: int
    demand_waiting: int
    capacity_granted: int
    attached_senders: int
    attached_receivers: int
    waiting_senders: int
    full: bool
    paused: str | None


RECOVERED = Counters._fields[:8]
"""Those that are in the journal, so that a start finds them; the others begin with the queue's state."""


def recovered_of(log: QueueLog) -> Counters:
    """What the journal has of a queue's counters."""
    return Counters(
        log.total_in,
        log.total_acknowledged,
        log.total_purged,
        log.total_expired,
        log.total_dead_lettered,
        log.total_moved,
        log.total_discarded,
        log.total_dropped,
    )


def counters_of(core: QueueCore) -> Counters:
    """A queue's counters."""
    log = core.log
    return Counters(
        log.total_in,
        log.total_acknowledged,
        log.total_purged,
        log.total_expired,
        log.total_dead_lettered,
        log.total_moved,
        log.total_discarded,
        log.total_dropped,
        core.total_out,
        core.total_redelivered,
        core.total_rejected,
        core.total_deduplicated,
    )


def leaving_messages(core: QueueCore) -> int:
    """Messages on their way to another queue, and not there yet.

    The record that has them there has them gone from here: this queue is told when that is durable, and keeps them till then.
    """
    outbox = core.outbox
    if not outbox.sent and not core.parcels:
        return outbox.messages
    here, handed_over = core.log.acknowledged.gaps, (*outbox.sent, *core.parcels.values())
    left = sum(stop - start for span in handed_over for start, stop in here(span.start, span.stop))
    return outbox.messages - outbox.sent.messages + left


def figures_of(core: QueueCore) -> Figures:
    """A queue's figures."""
    log, capacity, staged = core.log, core.capacity, core.staged.capacity
    return Figures(
        core.ready.messages,
        core.leases.in_flight,
        log.reserved_messages,
        delayed_messages(core),
        leaving_messages(core),
        log.stored_messages,
        log.stored_bytes,
        log.staged_messages,
        log.staged_bytes,
        core.ring.demand,
        capacity.messages + staged.messages,
        len(core.senders),
        len(core.receivers) + len(core.subscribers),
        capacity.waits_for_room + staged.waits_for_room,
        capacity.closed(*core.taken()),
        core.paused,
    )
