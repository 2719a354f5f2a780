"""What a queue says of itself, and changes nothing by: its statistics, and what it stores, read by number.

A browse is answered in steps, each small enough for one turn of the loop. What is acknowledged between two steps is left out of the
second, and a reader that takes its time holds nothing of the queue but the step it was given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from actors.errors import InvalidRequestError
from actors.queue.operations.calendar import delayed_messages, next_due_us
from actors.queue.operations.counting import leaving_messages
from actors.queue.operations.in_line import waits_in_line
from actors.queue.state.entries import stored_entry
from actors.queue.state.grouped_ready import GroupedReady
from actors.queue.structures.ranges import RangeSet
from actors.queue.vocabulary.events import ReservedRange
from actors.queue.vocabulary.replies import FetchedMessages, FetchedRanges, Tell
from actors.queue.vocabulary.statistics import ConnectionStatistics, QueueStatistics, SubscriptionStatistics

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from actors.batch import MessageBatch
    from actors.queue.state.core import QueueCore
    from actors.queue.state.entries import Entry
    from actors.queue.state.receivers import Receiver
    from actors.queue.state.subscriptions import Ledger
    from actors.queue.structures.ranges import Range
    from actors.queue.vocabulary.commands import BrowseRequested


def describe(core: QueueCore, now: float, *, parties: bool = True) -> QueueStatistics:
    """The queue as it is; costs as much as there are connections, subscriptions and stages.

    Without ``parties`` those two are left out, and ``held_ms``, and ``oldest_ms``: a message may have to be read from the disk for it.
    """
    log = core.log
    connections = list(parties_of(core, now)) if parties else []
    return QueueStatistics(
        name=core.name,
        ready=core.ready.messages,
        in_flight=core.leases.in_flight,
        reserved=log.reserved_messages,
        delayed=delayed_messages(core),
        demand_waiting=core.ring.demand,
        capacity_granted=core.capacity.messages + core.staged.capacity.messages,
        stored_messages=log.stored_messages,
        stored_bytes=log.stored_bytes,
        next_sequence=log.next_sequence,
        total_in=log.total_in,
        total_out=core.total_out,
        total_acknowledged=log.total_acknowledged,
        total_redelivered=core.total_redelivered,
        total_purged=log.total_purged,
        oldest_ms=core.oldest_ms(now) if parties else 0,
        connections=tuple(connections),
        subscriptions=tuple(_subscription(core, ledger, now) for ledger in log.ledgers.values()) if parties else (),
        leaving=leaving_messages(core),
        total_expired=log.total_expired,
        total_dead_lettered=log.total_dead_lettered,
        total_rejected=core.total_rejected,
        paused=core.paused,
        waiting_receivers=sum(facts.waiting and facts.role in IN_LINE for facts in connections),
        staged_messages=log.staged_messages,
        staged_bytes=log.staged_bytes,
        transactions=len({key[:2] for key in log.stages}),
        total_discarded=log.total_discarded,
        total_moved=log.total_moved,
        total_dropped=log.total_dropped,
        total_deduplicated=core.total_deduplicated,
        deduplication_ids=0 if log.accepted is None else len(log.accepted),
        attached_senders=len(core.senders),
        attached_receivers=len(core.receivers) + len(core.subscribers),
        waiting_senders=core.capacity.waits_for_room + core.staged.capacity.waits_for_room,
        full=core.capacity.closed(*core.taken()),
        held_ms=max((facts.held_ms for facts in connections), default=0),
        passed_over=core.ready.passed_over if isinstance(core.ready, GroupedReady) else 0,
        next_due_us=next_due_us(core, now),
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


def parties_of(core: QueueCore, now: float) -> Iterator[ConnectionStatistics]:
    """The connections that there are when the first is asked for, each as it is when it is asked for: there may be thousands."""
    senders, receivers = list(core.senders.values()), list(core.receivers.values())
    subscribers = list(core.subscribers.values())
    for sender in senders:
        permits = sender.permits
        yield ConnectionStatistics(sender.connection, "sender", permits.messages, 0, permits.is_stuck(), permits.used)
    for receiver in receivers:
        if core.receivers.get(receiver.connection) is receiver:  # it has not left meanwhile
            yield _receiving(core, receiver, now)
    for subscriber in subscribers:
        ledger = subscriber.ledger
        owner = core.owners.get(ledger.name)
        owns = owner is not None and owner.connection == subscriber.connection
        demand = owner.waiting.demand if owner is not None and owns and owner.waiting is not None else 0
        held = ledger.high - ledger.base if owns else 0
        yield ConnectionStatistics(
            subscriber.connection, "subscription", demand, held, not owns, ledger.high, ledger.name
        )


def receiving_of(core: QueueCore, connection: Hashable, now: float) -> ConnectionStatistics | None:
    """One that receives from the queue, as of `parties_of`; None where it does not."""
    receiver = core.receivers.get(connection)
    return None if receiver is None else _receiving(core, receiver, now)


def _receiving(core: QueueCore, receiver: Receiver, now: float) -> ConnectionStatistics:
    """Of one that takes by request, its demand is what the requests that wait would take."""
    role = "taker" if receiver.by_request else "receiver"
    demand = receiver.demand + sum(take.demand for take in (receiver.takes or {}).values())
    line = waits_in_line(core, receiver)
    oldest = receiver.held.first()
    held_ms = 0 if oldest is None else max(0, int(1000 * (now - oldest.since)))
    return ConnectionStatistics(
        receiver.connection,
        role,
        demand,
        receiver.in_flight,
        line,
        receiver.messages,
        held_ms=held_ms,
        priority=receiver.priority,
        active=core.line is not None and core.line.holder is receiver,
    )


_Found: TypeAlias = "tuple[Entry, MessageBatch, list[Range]]"
"""A batch, its messages, and which parts of it are shown."""
IN_LINE = ("receiver", "taker")
"""Roles that stand in line for a queue that one has at a time."""

BROWSE_MESSAGES = 32_768
"""Messages of one step at most: even where every other one is acknowledged, its pieces are made within some milliseconds."""
BROWSE_BATCHES = 1_024
"""Batches of one step at most, or parts of them: each is looked up by itself, however small it is."""
BROWSE_BYTES = 2**20
"""Bytes of the batches of one step, at which no further one is read: what a reader's actor has in memory, with one batch more."""


def lowest_stored(core: QueueCore) -> int:
    """The number of the oldest message that is stored; the next one's where none is."""
    return _next_shown(_hidden(core), 0)


def browse(core: QueueCore, command: BrowseRequested, _now: float) -> None:
    """Tell the first of the stored messages of a range, as many as one step has: every number below where the rest begins is looked at."""
    start, stop = command.start, command.stop
    if start > stop:
        raise InvalidRequestError(f"messages {start} to {stop} are asked for, which is backwards")
    ranges, rest, after = read_step(core, start, stop)
    core.effects.append(Tell(command.connection, FetchedRanges(command.request, ranges, rest), after))


def read_step(
    core: QueueCore, start: int, stop: int, most: int = BROWSE_MESSAGES
) -> tuple[tuple[FetchedMessages, ...], int | None, int]:
    """The first ``most`` of the stored messages of a range, or as many of them as one step has.

    Returns:
        the messages; where the rest begins, if there is one; and the event that all of it depends on.
    """
    log, hidden = core.log, _hidden(core)
    limit = min(stop, log.next_sequence)
    found: list[_Found] = []
    after, size, left, batches = core.barrier, 0, BROWSE_MESSAGES, BROWSE_BATCHES
    first = position = end = _next_shown(hidden, start)
    while position < limit and size < BROWSE_BYTES and left > 0 and most > 0 and batches > 0:
        entry = stored_entry(log.table, position)
        # Read before anything else is asked of the entry: what it knows comes with its messages.
        batch = entry.batch
        after = max(after, entry.event)
        if not found or found[-1][0] is not entry:
            size += entry.size
        end = min(limit, entry.stop, position + left, position + most)
        left -= end - position
        batches -= 1
        shown = _shown(hidden, position, end)
        most -= sum(high - low for low, high in shown)
        found.append((entry, batch, shown))
        position = _next_shown(hidden, end)
    # Not after the last event: a queue that is sent to all the time would have every step wait for the disk.
    history = _history(core, first, end) if found else []
    ranges = tuple(
        FetchedMessages(
            low,
            low,
            _part(entry, batch, low, high),
            entry.enqueued_us,
            deliveries,
            replayed,
            entry.published,
            entry.level,
        )
        for entry, batch, (low, high, deliveries, replayed) in _split(found, history)
    )
    rest = None if position >= limit else position
    return ranges, rest, after


def stored_within(core: QueueCore, start: int, stop: int) -> int:
    """How many stored messages there are in a range."""
    gone, staged = core.log.acknowledged, core.staged.numbers
    return stop - start - gone.count_within(start, stop) - staged.count_within(start, stop)


def _hidden(core: QueueCore) -> tuple[RangeSet, ...]:
    """Sets of the numbers that are not shown: what is gone, and what is staged until the queue has acted on its commit."""
    return core.log.acknowledged, core.staged.numbers


def _next_shown(hidden: tuple[RangeSet, ...], position: int) -> int:
    """The lowest number from ``position`` on that is in none of the sets."""
    while True:
        reached = position
        for numbers in hidden:
            reached = numbers.reach(reached)
        if reached == position:
            return position
        position = reached


def _shown(hidden: tuple[RangeSet, ...], start: int, stop: int) -> list[Range]:
    """The parts of a range that are in none of the sets."""
    parts = [(start, stop)]
    for numbers in hidden:
        parts = [gap for part in parts for gap in numbers.gaps(*part)]
    return parts


def _part(entry: Entry, batch: MessageBatch, start: int, stop: int) -> MessageBatch:
    """The messages ``start`` <= n < ``stop`` of an entry whose messages are ``batch``."""
    if (start, stop) == (entry.first, entry.stop):
        return batch
    return batch.slice(start - entry.first, stop - entry.first)


def _history(core: QueueCore, start: int, stop: int) -> list[ReservedRange]:
    """What is known of deliveries in a range, ascending: of what is held, is reserved, or came back to a queue that counts.

    Costs as much as there are receivers and pieces of ledgers, which is why a step asks once for all that it has.
    """
    known = [
        ReservedRange(max(start, low), min(stop, high), deliveries, replayed)
        for ledger in core.log.ledgers.values()
        for _, low, high, deliveries, replayed in ledger.segments(ledger.base, ledger.high)
        if low < stop and start < high
    ]
    for receiver in core.receivers.values():
        span = receiver.held.first_from(start) if receiver.in_flight else None
        while span is not None and span.start < stop:
            low, high = max(start, span.start), min(stop, span.stop)
            known.append(ReservedRange(low, high, span.deliveries, span.replayed))
            span = receiver.held.first_from(span.stop)
    if core.log.returns:
        known.sort()
        held = RangeSet((low, high) for low, high, _, _ in known)
        for part, failures in core.log.returns.within(start, stop):
            known += [ReservedRange(low, high, failures, True) for low, high in held.gaps(*part)]
    known.sort()
    return known


def _split(
    found: Iterable[_Found], history: list[ReservedRange]
) -> Iterator[tuple[Entry, MessageBatch, ReservedRange]]:
    """Ascending parts of batches, each in pieces with one history; what ``history`` does not know has none."""
    index = 0
    for entry, batch, parts in found:
        for start, stop in parts:
            position = start
            while index < len(history) and history[index].stop <= position:
                index += 1
            following = index
            while position < stop:
                known = history[following] if following < len(history) else None
                if known is None or known.start >= stop:
                    yield entry, batch, ReservedRange(position, stop, 0, False)
                    break
                if position < known.start:
                    yield entry, batch, ReservedRange(position, known.start, 0, False)
                    position = known.start
                end = min(stop, known.stop)
                yield entry, batch, known._replace(start=position, stop=end)
                position = end
                following += 1
