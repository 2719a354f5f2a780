"""Messages that are ready meet consumers that wait: in turns, each in proportion to its demand.

A message whose time to live is over when it would be next is not delivered any more. One that has none, a time of 0, is delivered by the
dispatch that follows its coming, to whoever wants it then, and expires when that is done. It expires at the head of its queue, as in other
brokers: what is behind a message that still has time waits its turn, past its own time, and counts as stored until then. What a
receiver holds does not expire; if it comes back too late, it does then.
"""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final, cast

from actors.queue.operations.dead_letters import comes_round, hand_over
from actors.queue.operations.judging import judge_on
from actors.queue.state.entries import TOO_LATE
from actors.queue.state.leveled_ready import LeveledReady
from actors.queue.state.priority_ring import PriorityRing
from actors.queue.state.receivers import Receiver, Take
from actors.queue.structures.deadlines import US_PER_SECOND
from actors.queue.structures.ranges import merged
from actors.queue.vocabulary.events import LedgerExtended, MessagesExpired, ReservedRange
from actors.queue.vocabulary.replies import MessagesReserved, MessagesTaken, ReceivedMessages, Tell
from actors.queue.vocabulary.settings import DISPATCH_BUDGET, EXPIRY_BUDGET
from actors.queue.vocabulary.takes import MAX_TAKEN_MESSAGES

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.batch import MessageBatch
    from actors.queue.state.core import QueueCore
    from actors.queue.state.entries import Entry, Span
    from actors.queue.state.receivers import DemandRing
    from actors.queue.state.subscriptions import Reservation
    from actors.queue.structures.ranges import Range


ALREADY: Final = 0.0
"""Before anything on the clock of deadlines."""


def next_ready(core: QueueCore, now: float, minimum: int = 0, below: int | None = None) -> Span | None:
    """The first span that can be delivered, with numbers of ``minimum`` or more; what expires before it is dropped.

    With ``below`` it is the first that begins with a lower number, where a queue with levels has others before it. Otherwise the caller
    looks.

    None where nothing can be: nothing is ready, an exclusive queue waits for a delay, there is more to drop than may be at once, or what
    is ready is being judged.
    """
    if core.judging is not None:
        return None
    span = core.ready.first(minimum) if below is None else core.ready.first_below(minimum, below)
    if span is None or (core.settings.exclusive and core.ready.skips(span)):
        return None
    expires = _expires(core, span)
    if expires is None or expires > now:
        return span
    ready = core.ready
    first = partial(ready.first, minimum) if below is None else partial(ready.first_below, minimum, below)
    return _drop_expired(core, now, first)


def next_expiry(core: QueueCore) -> float | None:
    """When the message that is next expires, or of a queue with levels the first that is next in one; None if none does, or can leave."""
    if not core.ttl_below or core.judging is not None or core.parcels:
        return None
    if _has_dead_letter_queue(core) and core.outbox.waiting:
        return None
    ready = core.ready
    if isinstance(ready, LeveledReady):
        found = [_expiry(core, ready.head(number)) for number in ready.heads()]
        return min((each for each in found if each is not None), default=None)
    return _expiry(core, ready.first())


def _expiry(core: QueueCore, span: Span | None) -> float | None:
    if span is None or (core.settings.exclusive and core.ready.skips(span)):
        return None
    expires = _expires(core, span)
    return None if expires == inf else expires


def is_at_hand(core: QueueCore, entry: Entry) -> bool:
    """Whether the messages of a large entry can be had; where they cannot, nothing leaves until whoever reads them says so."""
    if entry.at_hand():
        return True
    core.ring.reading = True
    return False


def _expires(core: QueueCore, span: Span) -> float | None:
    """When a span expires, on the clock of deadlines."""
    if span.start >= core.ttl_below:
        return None
    if span.entry.large and not (span.entry.known or is_at_hand(core, span.entry)):
        # That is known when it is read.
        return inf
    entry = span.entry.read()
    if entry.ttl_us is None:
        return None
    if entry.ttl_us == 0:
        # Whatever the clocks say, that of the loop has whole milliseconds: once nobody wanted it as it came its time is over.
        return None if span.start >= core.arrived_from and not span.deliveries else ALREADY
    return (core.clocks.instant_us(entry.first, entry.enqueued_us) + entry.ttl_us) / US_PER_SECOND


def _expire_heads(core: QueueCore, now: float) -> None:
    """Drop what is expired at the head of the queue, or of each level of it."""
    next_ready(core, now)
    ready = core.ready
    if not isinstance(ready, LeveledReady) or core.judging is not None:
        return
    for number in ready.heads():
        span = ready.head(number)
        if core.unfinished_at is not None:
            return
        if span is None or (core.settings.exclusive and ready.skips(span)):
            continue
        expires = _expires(core, span)
        if expires is not None and expires <= now:
            _drop_expired(core, now, partial(ready.head, number))


def _drop_expired(core: QueueCore, now: float, first: Callable[[], Span | None]) -> Span | None:
    """Drop spans that are expired, as ``first`` gives them, until one is not, which is returned."""
    ready = core.ready
    gone: list[Range] = []
    found: Span | None = None
    moves = _has_dead_letter_queue(core)
    for _ in range(EXPIRY_BUDGET):
        span = first()
        if span is None or (core.settings.exclusive and ready.skips(span)):
            break
        expires = _expires(core, span)
        if expires is None or expires > now:
            found = span
            break
        if moves and core.outbox.waiting:
            # Those before it have not left yet: the rest stays where it takes no memory.
            break
        span = ready.take(span, span.stop - span.start)
        if moves and not comes_round(span, core.name):
            span.reason = TOO_LATE
            core.outbox.add(span)
            hand_over(core, now)
        else:
            gone.append((span.start, span.stop))
    else:
        core.unfinished_at = now
    if gone:
        core.commit(MessagesExpired(merged(sorted(gone))))
        core.grant()
    return found


def _has_dead_letter_queue(core: QueueCore) -> bool:
    """Whether what expires goes to another queue: only where one is named, or an exchange, since dropping is what a time to live is for."""
    return core.settings.dead_letters_named


def dispatch(core: QueueCore, now: float, *, within: bool = False) -> None:  # noqa: PLR0912 - one loop, whose steps are counted
    """Deliver what can be, within the budget; ``core.unfinished_at`` says that there is more to do.

    In a round, consumer i with demand d_i out of D gets min(d_i, ceil(ready * d_i / D)) messages. A round is left as soon
    as nothing is ready, and the next begins with who comes after: nobody is always first.

    ``within`` is for itself: what is expired, or will be behind this, is somebody else's.

    What is on its way to another queue may come back, for that one may be full. Nothing passes it meanwhile: whoever settles it
    dispatches what waits.
    """
    if core.unfinished_at is not None or core.parcels:
        return
    if core.ttl_below and not within:
        _dispatch_timed(core, now)
        return
    ready, ring, effects = core.ready, core.ring, core.effects
    limit = len(effects) + DISPATCH_BUDGET
    while ready.messages and ring.waiting and core.unfinished_at is None:
        if core.groups is not None:
            # Asked here, where there is something to deliver: what is only stored pays nothing for it.
            _dispatch_groups(core, now)
            return
        available, total = ready.messages, ring.total
        for _ in range(len(ring.waiting)):
            consumer = ring.next()
            # At most its demand either way: what is ready is shared out only where it does not suffice.
            share = -(-available * consumer.demand // total) if available < total else consumer.demand
            if isinstance(consumer, Receiver):
                deliver(core, consumer, share, limit, now)
                if consumer.demand > 0 and consumer.byte_credit > 0:
                    ring.join(consumer)
            else:
                parts = (
                    take(core, consumer, share, now)
                    if isinstance(consumer, Take)
                    else reserve(core, cast("Reservation", consumer), share, now)
                )
                if not parts:
                    ring.join(consumer)
                # Each is as much work as a delivery.
                limit -= max(0, parts - 1)
            if len(effects) >= limit:
                if ready.messages and ring.waiting:
                    core.unfinished_at = now
                return
            if not ready.messages or core.unfinished_at is not None:
                return
        if ready.messages == available:
            # What is ready is not for those who wait, or waits itself for what comes before it.
            _dispatch_below(core, ring, now)
            return


def _dispatch_below(core: QueueCore, ring: DemandRing | PriorityRing, now: float) -> None:
    """Those whose turn it is do not want what is ready, as reservations may not: so it is the turn of a lower priority."""
    if isinstance(ring, PriorityRing) and not ring.reading and next_ready(core, now) is not None:
        aside = ring.set_aside()
        dispatch(core, now, within=True)
        ring.put_back(*aside)


def _dispatch_groups(core: QueueCore, now: float) -> None:
    from actors.queue.operations.group_dispatch import dispatch_groups  # noqa: PLC0415 - it delivers by what is here

    dispatch_groups(core, now)


def _dispatch_timed(core: QueueCore, now: float) -> None:
    """As `dispatch`, and what is expired is dropped though nobody waits for it."""
    _expire_heads(core, now)
    dispatch(core, now, within=True)
    if core.unfinished_at is None and core.arrived_from < core.ready.known:
        # Whoever could take what has come has it.
        core.arrived_from = core.ready.known
        _expire_heads(core, now)


def resume(core: QueueCore, now: float) -> None:
    """Go on with a judging or a dispatch that used up its budget, if there is one, and with whatever can be delivered."""
    core.unfinished_at, core.ring.reading = None, False
    judge_on(core, now)
    dispatch(core, now)


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
            start, batch, entry.enqueued_us, span.deliveries, span.replayed, entry.published, span.failures
        )
        effects.append(Tell(receiver.connection, messages, max(entry.event, core.barrier)))


def take(core: QueueCore, asked: Take, share: int, now: float) -> int:
    """Answer a request with up to ``share`` messages; returns in how many parts, 0 and nothing done if none is ready."""
    ready, receiver, room = core.ready, asked.receiver, asked.bytes
    if receiver.by_request:
        # Others of the same taker may have been served since this one was let in.
        share = min(share, max(1, MAX_TAKEN_MESSAGES - receiver.in_flight))
    deadline, after = now + asked.visibility, core.barrier
    taken: list[ReceivedMessages] = []
    while share > 0:
        span = next_ready(core, now)
        if span is None:
            break
        entry, start = span.entry, span.start
        if entry.large and not is_at_hand(core, entry):
            break
        batch = entry.part(start, start + min(share, span.stop - start))
        count = _within(batch, room, len(batch), not taken)
        if not count:
            break
        if count < len(batch):
            batch = batch.slice(0, count)
        span = ready.take(span, count)
        span.deliveries += 1
        span.since = now
        core.leases.grant(receiver, span, deadline)
        receiver.messages += count
        if not receiver.by_request:
            # Of a taker it counts when somebody has seen it.
            core.total_out += count
            if span.deliveries > 1:
                core.total_redelivered += count
        taken.append(
            ReceivedMessages(
                start, batch, entry.enqueued_us, span.deliveries, span.replayed, entry.published, span.failures
            )
        )
        after = max(after, entry.event)
        share -= count
        room -= batch.nbytes
    if taken:
        end_wait(core, asked)
        if core.ttl_below:
            # What is behind it and has expired is not counted.
            _expire_heads(core, now)
        answer = MessagesTaken(asked.request, tuple(taken), ready.messages)
        core.effects.append(Tell(receiver.connection, answer, after))
    return len(taken)


def _within(batch: MessageBatch, room: int, count: int, first: bool) -> int:
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
                count = _within(batch, room, count, not ranges)
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
    facts = core.facts(now, reservation.bytes - room)
    reserved = MessagesReserved(reservation.request, ledger.high, facts)
    core.effects.append(Tell(reservation.connection, reserved, core.barrier))
    return True


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
