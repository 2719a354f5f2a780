"""The operations of receivers: demand, acknowledgement, return, extension, departure; and what comes of leases and delays in time.

An exclusive queue has one receiver at a time (`in_line`), in strict order. Nothing is passed over: while a message waits for a delay, its
own or one that it was returned with, nothing after it is delivered. A subscription cannot be owned on such a queue, or one with a single
active consumer: reserving is taking messages out of turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from actors.errors import InvalidRequestError, QueueLimitError
from actors.limits import MAX_VISIBILITY_SECONDS, NO_DEADLINE
from actors.queue.operations import in_line
from actors.queue.operations.delivering import end_wait
from actors.queue.operations.dispatch import dispatch
from actors.queue.operations.failing import give_back
from actors.queue.operations.in_line import consume_no_more, join_ring, waits_in_line
from actors.queue.state.receivers import Receiver
from actors.queue.structures.deadlines import each_due
from actors.queue.structures.ranges import RangeSet, checked_ranges, merged
from actors.queue.vocabulary import commands
from actors.queue.vocabulary.budgets import TIMER_BUDGET
from actors.queue.vocabulary.events import MessagesAcknowledged
from actors.queue.vocabulary.prefetch import (
    AcknowledgedForMore,
    DemandLimited,
    DemandWithdrawn,
    LimitDemand,
    ReturnedForMore,
)
from actors.queue.vocabulary.replies import NothingHeld, ReceiverAttached
from actors.queue.vocabulary.settings import MAX_DELAYED, MAX_EXPIRED_RANGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.queue.state.core import QueueCore
    from actors.queue.state.entries import Span
    from actors.queue.structures.ranges import Range
    from actors.queue.vocabulary.replies import Connection


def tell_if_idle(core: QueueCore, receiver: Receiver) -> None:
    """Tell a taker when it holds nothing and waits for nothing."""
    if receiver.by_request and not receiver.takes and not receiver.in_flight:
        core.tell(receiver.connection, NothingHeld(receiver.last_take))


def attach_receiver(core: QueueCore, command: commands.AttachReceiver, _now: float) -> None:
    """Make a receiver known, and say whether it has to wait in line."""
    connection = is_new_receiver(core, command.connection)
    visibility = max(core.settings.visibility_timeout, command.told_visibility)
    receiver = core.receivers[connection] = Receiver(connection, visibility=visibility, priority=command.priority)
    core.use.come()
    in_line.come(core, receiver)
    settings = core.settings
    attached = ReceiverAttached(waits_in_line(core, receiver), settings.keeps_dead_letters, settings.retry_delay > 0)
    core.tell(connection, attached)


def is_new_receiver(core: QueueCore, connection: Connection) -> Connection:
    """The connection; raises InvalidRequestError where it receives already."""
    if connection in core.receivers:
        raise InvalidRequestError("this connection is attached as a receiver already")
    return connection


def receive(core: QueueCore, command: commands.DemandSignalled, now: float) -> None:
    """Add to a receiver's demand."""
    messages, size, connection = command.messages, command.bytes, command.connection
    if messages < 0 or size < 0:
        raise InvalidRequestError(f"{messages} messages and {size} bytes are requested; neither may be negative")
    receiver = core.receiver(connection)
    receiver.byte_credit += size
    core.ring.want_more(receiver, messages)
    if join_ring(core, receiver):
        dispatch(core, now)


def acknowledge(core: QueueCore, command: commands.Acknowledged | AcknowledgedForMore, _now: float) -> None:
    """Remove messages for good."""
    receiver = core.receiver(command.connection)
    ranges = checked_ranges(command.ranges)
    if len(ranges) == 1 and core.leases.take_exactly(receiver, *ranges[0]):
        core.commit(MessagesAcknowledged((ranges[0],)))
        core.grant()
        return
    core.leases.check(receiver, ranges)
    done: list[Range] = []
    for start, stop in ranges:
        held = [(span.start, span.stop) for span in core.leases.take(receiver, start, stop)]
        done += held
        for lost in _late(receiver, start, stop, held):
            done += core.ready.remove(*lost)
    if done:
        core.commit(MessagesAcknowledged(merged(sorted(done))))
        core.grant()


def acknowledge_for_more(core: QueueCore, command: AcknowledgedForMore, now: float) -> None:
    """Remove messages for good, and add to the receiver's demand."""
    if command.messages < 0:
        raise InvalidRequestError(f"{command.messages} messages are requested; they may not be negative")
    acknowledge(core, command, now)
    receiver = core.receiver(command.connection)
    core.ring.want_more(receiver, command.messages)
    if join_ring(core, receiver):
        dispatch(core, now)


def reject(core: QueueCore, command: commands.Rejected, now: float) -> None:
    """NACK: make messages receivable again, after a delay if there is one.

    Whether the queue has a place for dead letters is asked here alone: whoever rejects may have heard of it before that
    changed, or not yet.
    """
    if command.drops and not core.settings.keeps_dead_letters:
        acknowledge(core, commands.Acknowledged(command.ranges, command.connection), now)
        return
    delay = command.delay
    _check_seconds("a delay", delay)
    receiver = core.receiver(command.connection)
    ranges = checked_ranges(command.ranges)
    core.leases.check(receiver, ranges)
    if delay > 0 and len(core.ready.delayed) + len(ranges) > MAX_DELAYED:
        raise QueueLimitError(
            "MAX_DELAYED", MAX_DELAYED, "return fewer messages, more of them together, or with no delay"
        )
    returned = _taken_back(core, receiver, ranges)
    give_back(core, returned, now, delay, command.failed, command.reason, command.error)
    dispatch(core, now)


def return_for_more(core: QueueCore, command: ReturnedForMore, now: float) -> None:
    """Make messages receivable again, and add to the receiver's demand."""
    if command.messages < 0:
        raise InvalidRequestError(f"{command.messages} messages are requested; they may not be negative")
    receiver = core.receiver(command.connection)
    ranges = checked_ranges(command.ranges)
    core.leases.check(receiver, ranges)
    give_back(core, _taken_back(core, receiver, ranges), now, failed=None)
    core.ring.want_more(receiver, command.messages)
    join_ring(core, receiver)
    dispatch(core, now)


def _taken_back(core: QueueCore, receiver: Receiver, ranges: Sequence[Range]) -> list[Span]:
    """What is still held of what is answered; it is held no more."""
    returned: list[Span] = []
    for start, stop in ranges:
        held = core.leases.take(receiver, start, stop)
        returned += held
        _late(receiver, start, stop, [(span.start, span.stop) for span in held])
    return returned


def extend(core: QueueCore, command: commands.Extended, now: float) -> None:
    """Move deadlines; of who has none, it is only checked that all of it is held."""
    seconds = command.seconds
    _check_seconds("an extension", seconds)
    receiver = core.receiver(command.connection)
    # To ask for time twice is no answer too many: a client may have asked again before the first one has left.
    ranges = merged(checked_ranges(command.ranges))
    core.leases.check(receiver, ranges)
    if receiver.visibility == NO_DEADLINE:
        return
    for start, stop in ranges:
        for span in core.leases.take(receiver, start, stop):
            core.leases.grant(receiver, span, now + seconds)


def withdraw_demand(core: QueueCore, command: DemandWithdrawn, now: float) -> None:
    """Deliver nothing more; what the receiver holds it keeps."""
    receiver = core.receiver(command.connection)
    core.ring.leave(receiver)
    receiver.demand = 0
    receiver.byte_credit = min(0, receiver.byte_credit)
    if command.ends:
        consume_no_more(core, receiver, now)
        dispatch(core, now)


def limit_demand(core: QueueCore, command: LimitDemand, now: float) -> None:
    """Have the demand be what is left of a limit beside what is held."""
    if command.messages < 0:
        raise InvalidRequestError(f"a limit of {command.messages} messages is negative")
    receiver = core.receiver(command.connection)
    core.ring.leave(receiver)
    left = command.messages - receiver.in_flight
    receiver.demand = max(0, left)
    core.tell(receiver.connection, DemandLimited(receiver.demand, max(0, -left)))
    if join_ring(core, receiver):
        dispatch(core, now)


def detach_receiver(core: QueueCore, command: commands.Left, now: float) -> None:
    """Forget a receiver, if it is one; what it holds is ready again, in its old place. Where others leave too, that waits for a tick."""
    receiver = core.receivers.pop(cast("Connection", command.connection), None)
    if receiver is None:
        return
    core.ring.leave(receiver)
    for take in list((receiver.takes or {}).values()):
        end_wait(core, take)
    in_line.forget_priority(core, receiver)
    if command.together:
        core.unfinished_at = now
    # Before it is another's turn: what it held is the first that this one gets.
    give_back(core, _taken_back(core, receiver, checked_ranges(command.unseen)), now, failed=False)
    give_back(core, core.leases.take_all(receiver), now, failed=command.failed)
    consume_no_more(core, receiver, now)
    in_line.leave_line(core, receiver)
    dispatch(core, now)


def expire_leases(core: QueueCore, now: float) -> None:
    """Make receivable again what was held too long; a receiver that has too much on its conscience is let go."""
    excessive: list[Receiver] = []
    returned: list[Span] = []
    takers: dict[Receiver, None] = {}
    for receiver, span in each_due(core.leases.expire, now, TIMER_BUDGET):
        returned.append(span)
        if receiver.by_request:
            takers[receiver] = None
        elif len(receiver.expired) == MAX_EXPIRED_RANGES + 1:
            excessive.append(receiver)
    # Others are due by now too: all of it is delivered in order, and what is over a limit then is dropped.
    give_back(core, returned, now, drops=False)
    for receiver in takers:
        tell_if_idle(core, receiver)
    for receiver in excessive:
        if receiver.connection in core.receivers:
            detach_receiver(core, commands.Left(connection=cast("Any", receiver.connection)), now)
            error = QueueLimitError(
                "MAX_EXPIRED_RANGES", MAX_EXPIRED_RANGES, "acknowledge or return deliveries before they expire"
            )
            core.refuse(receiver.connection, error)


def end_delays(core: QueueCore, now: float) -> None:
    """Make receivable what was sent or returned with a delay that is over."""
    for span in each_due(core.ready.release_due, now, TIMER_BUDGET):
        core.log.delay_ended(span.entry.first)
        if core.log.retries:
            core.log.retries.forget(span.start, span.stop)


def _late(receiver: Receiver, start: int, stop: int, held: Sequence[Range]) -> list[Range]:
    """Count the answers of a range that are for deliveries lost before; returns which they are."""
    if not receiver.expired:
        return []
    rest = RangeSet([(start, stop)])
    for part in held:
        rest.remove(*part)
    return [lost for part in rest for lost in receiver.expired.take(*part)]


def _check_seconds(what: str, seconds: float) -> None:
    if not 0 <= seconds <= MAX_VISIBILITY_SECONDS:
        raise InvalidRequestError(f"{what} of {seconds} s is not between 0 and {MAX_VISIBILITY_SECONDS:.0f} s")
