"""Somebody is given what is ready: a receiver by its demand, a reservation its numbers; `answering` has what a request is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue.operations.expiring import is_at_hand
from actors.queue.operations.heads import next_ready
from actors.queue.state.receivers import Take
from actors.queue.vocabulary.events import LedgerExtended, ReservedRange
from actors.queue.vocabulary.replies import MessagesReserved, ReceivedMessages, Tell

if TYPE_CHECKING:
    from actors.batch import MessageBatch
    from actors.queue.state.core import QueueCore
    from actors.queue.state.receivers import Receiver
    from actors.queue.state.subscriptions import Reservation


def deliver(core: QueueCore, receiver: Receiver, share: int, limit: int, now: float) -> None:
    """Deliver up to ``share`` messages, within the receiver's byte demand and until there are ``limit`` effects."""
    ready, effects = core.ready, core.effects
    deadline = now + receiver.visibility
    while share > 0 and receiver.byte_credit > 0 and len(effects) < limit:
        span = next_ready(core, now)
        if span is None:
            return
        entry, start = span.entry, span.start
        if entry.large and not is_at_hand(core, entry):
            return
        count = min(share, span.stop - start)
        if count == entry.stop - entry.first:
            batch = entry.batch
            size = entry.size
        else:
            batch = entry.part(start, start + count)
            size = batch.nbytes
        if size > receiver.byte_credit:
            fitting = batch.count_within(receiver.byte_credit)
            if fitting < count:
                count = fitting
                batch = batch.slice(0, count)
                size = batch.nbytes
        span = ready.take(span, count)
        span.deliveries += 1
        span.since = now
        core.leases.grant(receiver, span, deadline)
        core.total_out += count
        if span.deliveries > 1:
            core.total_redelivered += count
        share -= count
        receiver.demand -= count
        receiver.byte_credit -= size
        receiver.messages += count
        messages = ReceivedMessages(
            start,
            batch,
            entry.enqueued_us,
            span.deliveries,
            span.replayed,
            entry.published,
            span.failures,
            entry.level,
        )
        effects.append(Tell(receiver.connection, messages, max(entry.event, core.barrier)))


def within(batch: MessageBatch, room: int, count: int, first: bool) -> int:
    """How many of a batch's ``count`` messages are no more than ``room`` bytes; one in any case where it is the ``first``.

    The count that demand lets through may lead beyond it by its last message; here only the very first may.
    """
    fitting = min(count, batch.count_within(max(0, room)))
    if fitting and batch.prefix_bytes(fitting) > room:
        fitting -= 1
    return fitting or int(first)


def reserve(core: QueueCore, reservation: Reservation, share: int, now: float) -> bool:
    """Reserve up to ``share`` messages and answer; False, and nothing done, if none is ready that it may have."""
    ready, ledger = core.ready, reservation.ledger
    room = reservation.bytes
    ranges: list[ReservedRange] = []
    while share > 0:
        span = next_ready(core, now, ledger.min_sequence, reservation.below)
        if span is None:
            break
        entry, start = span.entry, span.start
        count = min(share, span.stop - start)
        if reservation.below is not None:
            count = min(count, reservation.below - start)
            if count <= 0:
                break
        size = entry.most_bytes
        if entry.large:
            # It is alone in its batch, and nobody need read it.
            if size > room and ranges:
                break
        elif size > room or count < entry.stop - entry.first:
            # Only what does not fit as a whole is looked at: a reservation of much must not read all of it from the disk.
            batch = entry.part(start, start + count)
            size = batch.nbytes
            if size > room:
                count = within(batch, room, count, not ranges)
                if not count:
                    break
                size = batch.prefix_bytes(count)
        span = ready.take(span, count)
        add_range(ranges, ReservedRange(start, start + count, span.deliveries + 1, span.replayed))
        core.total_out += count
        if span.deliveries:
            core.total_redelivered += count
        share -= count
        room -= size
    if not ranges:
        return False
    core.commit(LedgerExtended(ledger.name, ledger.high, tuple(ranges)))
    end_wait(core, reservation)
    facts = facts_of(core, now, reservation.bytes - room)
    reserved = MessagesReserved(reservation.request, ledger.high, facts)
    core.effects.append(Tell(reservation.connection, reserved, core.barrier))
    return True


def facts_of(core: QueueCore, now: float, reserved_bytes: int | None = None) -> dict[str, int | None]:
    """What a subscription is told with a reservation."""
    return {
        "backlog": core.ready.messages,
        "backlog_bytes": core.backlog_bytes(),
        "oldest_ms": core.oldest_ms(now),
        "sender_demand": core.capacity.messages + core.staged.capacity.messages,
        "high_water": core.log.next_sequence,
        "in_flight": core.leases.in_flight,
        "full": core.paused is not None or core.capacity.closed(*core.taken()),
        "reserved_bytes": reserved_bytes,
        "live_subscriptions": sum(owner.connection is not None for owner in core.owners.values()),
    }


def add_range(ranges: list[ReservedRange], more: ReservedRange) -> None:
    """Append a range, made one with the last where it goes on from it with the same history."""
    if ranges and ranges[-1][1:] == (more.start, more.delivery_count, more.possibly_replayed):
        ranges[-1] = ranges[-1]._replace(stop=more.stop)
    else:
        ranges.append(more)


def end_wait(core: QueueCore, waiting: Reservation | Take) -> None:
    """Have a reservation or a request wait no more; nothing happens to one that does not."""
    core.ring.leave(waiting)
    if waiting.deadline is not None:
        core.wait_deadlines.forget(waiting)
    if isinstance(waiting, Take):
        if waiting.receiver.takes is not None:
            waiting.receiver.takes.pop(waiting.request, None)
        return
    owner = core.owners.get(waiting.ledger.name)
    if owner is not None and owner.waiting is waiting:
        owner.waiting = None
