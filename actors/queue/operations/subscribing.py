"""The operations of subscriptions: open, reserve, commit, fetch, release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.errors import (
    DataLossError,
    InvalidRequestError,
    QueueLimitError,
    StaleEpochError,
    SubscriptionNotFoundError,
    SubscriptionOwnedError,
)
from actors.queue.operations.browsing import lowest_stored
from actors.queue.operations.dead_letters import hand_over
from actors.queue.operations.delivering import end_wait, facts_of
from actors.queue.operations.delivering import reserve as reserve_now
from actors.queue.operations.dispatch import dispatch
from actors.queue.operations.dropping import drop_over
from actors.queue.state.entries import spans_of
from actors.queue.state.newest import OF_SUBSCRIPTION, check_newest
from actors.queue.state.subscriptions import Absence, Ledger, Ownership, Reservation, Subscriber, pieces
from actors.queue.structures.deadlines import US_PER_SECOND, each_due
from actors.queue.vocabulary import events, replies
from actors.queue.vocabulary.budgets import TIMER_BUDGET
from actors.queue.vocabulary.settings import MAX_RESERVE_WAIT_SECONDS, MAX_SUBSCRIPTIONS

if TYPE_CHECKING:
    from actors.queue.state.core import QueueCore
    from actors.queue.vocabulary import commands

STEP_RANGES = 128
STEP_BYTES = 2**20
"""Pieces of batches, and bytes of them, in one step of a fetch: what a reader's actor has in memory, with one batch more. Each piece may
have to be read from the disk in the queue's turn."""
TO_OPEN = "end that one, or take the subscription over"
TO_DELETE = "end that one first"
TO_RELEASE = (
    "end that one first. It is a query that lives: what it has read and not acknowledged would go to others too, and be there twice. "
    "With force it is released all the same"
)
"""What may be done about an owner that is connected, by whoever wants something of its subscription."""
OWN, READ, BROWSE = "own", "read", "browse"
EARLIEST, LATEST = "earliest", "latest"


def open_subscription(core: QueueCore, command: commands.OpenSubscription, now: float) -> None:
    """Take over or join a subscription. Of a browse nothing is kept: every step says by itself what it wants."""
    connection, name, mode = command.connection, command.name, command.mode
    if connection in core.subscribers:
        raise InvalidRequestError(f"this connection has subscription {core.subscribers[connection].ledger.name!r} open")
    high = core.log.next_sequence
    if mode == BROWSE:
        core.tell(connection, replies.SubscriptionOpened(0, lowest_stored(core), high, high))
        return
    if mode == OWN and core.settings.exclusive:
        raise InvalidRequestError(
            f"queue {core.name!r} is exclusive: one receiver has it, in strict order, and a subscription would take messages "
            "out of turn; receive from it, or declare a queue that is not exclusive"
        )
    if mode == OWN and core.settings.single_active_consumer:
        raise InvalidRequestError(
            f"queue {core.name!r} has a single active consumer, and a subscription would take messages beside it; receive from it, "
            "or declare a queue without that"
        )
    if mode == OWN and core.settings.groups:
        raise InvalidRequestError(
            f"queue {core.name!r} has groups, each with one receiver at a time, and a subscription would have them all for as long as it "
            "does not commit; receive from it, or declare a queue without groups"
        )
    if mode == OWN:
        ledger = _take_over(core, command) if command.epoch is None else _go_on(core, command)
        _install(core, ledger, command, now)
    elif mode == READ:
        ledger = _join(core, name, command.epoch)
    else:
        raise InvalidRequestError(f"mode {mode!r} is none of {OWN!r}, {READ!r}, {BROWSE!r}")
    if ledger.left_us and core.settings.subscription_expiry is not None:
        core.commit(events.SubscriptionLeft(name, ledger.epoch, 0))
    core.subscribers[connection] = Subscriber(connection, ledger, ledger.epoch, mode == OWN)
    core.use.come()
    core.tell(connection, replies.SubscriptionOpened(ledger.epoch, ledger.base, ledger.high, core.log.next_sequence))


def reserve(core: QueueCore, command: commands.ReserveRequested, now: float) -> None:
    """Put ready messages into a ledger."""
    request, start, connection = command.request, command.start, command.connection
    messages, size, wait, below = command.messages, command.bytes, command.wait, command.below
    ledger = _owner(core, connection).ledger
    if messages < 1 or size < 1 or wait < 0:
        raise InvalidRequestError(
            f"{messages} messages and {size} bytes within {wait} s: a reservation is for one at least, and not in the past"
        )
    if not ledger.base <= start <= ledger.high:
        raise DataLossError(ledger.name, start, start + messages, ledger.base, ledger.high)
    if ledger.high > start:
        end = min(ledger.high, start + messages)
        core.tell(connection, replies.MessagesReserved(request, end, facts_of(core, now)))
        return
    owner = core.owners[ledger.name]
    owner.used = now
    if owner.waiting is not None:
        answer_empty(core, owner.waiting, now)
    reservation = Reservation(connection, request, ledger, start=start, demand=messages, bytes=size, below=below)
    if reserve_now(core, reservation, messages, now):
        return
    if wait == 0:
        answer_empty(core, reservation, now)
        return
    owner.waiting = reservation
    core.ring.join(reservation)
    core.wait_deadlines.push(reservation, now + min(wait, MAX_RESERVE_WAIT_SECONDS))


def commit(core: QueueCore, command: commands.CommitRequested, _now: float) -> None:
    """Acknowledge every position below one."""
    ledger, position = _owner(core, command.connection).ledger, command.position
    if position > ledger.high:
        raise DataLossError(ledger.name, ledger.base, position, ledger.base, ledger.high)
    if position > ledger.base:
        core.commit(events.LedgerAdvanced(ledger.name, position))
        core.grant()
    core.tell(command.connection, replies.ReservationCommitted(command.request, ledger.base))


def fetch(core: QueueCore, command: commands.FetchRequested, _now: float) -> None:
    """Tell what is at some positions, as much as one step has."""
    ledger, start, stop = _subscriber(core, command.connection).ledger, command.start, command.stop
    if start > stop:
        raise InvalidRequestError(f"positions {start} to {stop} are asked for, which is backwards")
    if start < ledger.base or stop > ledger.high:
        raise DataLossError(ledger.name, start, stop, ledger.base, ledger.high)
    found: list[replies.FetchedMessages] = []
    after, size, rest = core.barrier, 0, None
    for piece, event in pieces(ledger.name, ledger.segments(start, stop), core.log.table):
        if len(found) >= STEP_RANGES or size >= STEP_BYTES:
            rest = piece.position
            break
        found.append(piece)
        after = max(after, event)
        size += piece.batch.nbytes
    core.effects.append(
        replies.Tell(command.connection, replies.FetchedRanges(command.request, tuple(found), rest), after)
    )


def release_or_delete(core: QueueCore, command: commands.ReleaseSubscription, now: float) -> int:
    """Make what a subscription reserved receivable again, and forget it or not; returns how many messages."""
    ledger = core.log.ledgers.get(command.name)
    if ledger is None:
        raise SubscriptionNotFoundError(command.name)
    owner = core.owners[command.name]
    if owner.connection is not None and not command.force:
        raise SubscriptionOwnedError(command.name, owner.client, TO_DELETE if command.delete else TO_RELEASE)
    return (_delete if command.delete else _release)(core, ledger, now)


def _release(core: QueueCore, ledger: Ledger, now: float) -> int:
    """Make what a subscription reserved receivable again, in its old place; returns how many messages."""
    if ledger.base == ledger.high:
        return 0
    return _give_back(core, ledger, events.SubscriptionReleased(ledger.name, ledger.high), now)


def _delete(core: QueueCore, ledger: Ledger, now: float) -> int:
    """Forget a subscription, as ``_release`` does with what it reserved."""
    name = ledger.name
    owner = core.owners[name]
    del core.owners[name]
    if owner.deadline is not None:
        core.owner_deadlines.forget(owner)
    # Who still reads for an owner of before is told, not left with a ledger that nobody changes any more.
    for subscriber in [subscriber for subscriber in core.subscribers.values() if subscriber.ledger is ledger]:
        del core.subscribers[subscriber.connection]
        core.use.go(now)
        core.refuse(subscriber.connection, SubscriptionNotFoundError(name))
    if owner.absence.deadline is not None:
        core.unused.forget(owner.absence)
    # One that is made later begins a position behind the end, so that no checkpoint of this one is taken for its own.
    return _give_back(core, ledger, events.SubscriptionDeleted(name, ledger.epoch, ledger.high + 1), now)


def _give_back(core: QueueCore, ledger: Ledger, event: events.Event, now: float) -> int:
    """Make what a ledger holds receivable again by ``event``; returns how many messages."""
    segments = ledger.segments(ledger.base, ledger.high)
    released = ledger.high - ledger.base
    core.commit(event)
    for segment in segments:
        # A reservation is no failure; those from before it are known.
        for (start, stop), failures in core.log.returns.over(segment.start, segment.stop):
            for span in spans_of(core.log.table, start, stop, segment.delivery_count, True, failures):
                # It may have become worn out meanwhile, by other settings.
                core.put_back(span, None)
    hand_over(core, now)
    if core.drops:
        drop_over(core, now)
    dispatch(core, now)
    return released


def detach_subscriber(core: QueueCore, connection: replies.Connection, now: float) -> None:
    """Forget a subscription's connection, if it is one; an owner's reservations stay for its ``owner_timeout``."""
    subscriber = core.subscribers.pop(connection, None)
    if subscriber is None:
        return
    core.use.go(now)
    owner = core.owners.get(subscriber.ledger.name)
    if owner is None:
        return
    owned = owner.connection == connection
    if owned:
        owner.connection = None
    if owner.connection is None and owner.ledger is subscriber.ledger:
        owner.used, owner.noted = now, False
        if core.settings.subscription_expiry is not None:
            _look_at(core, owner.absence, now)
    if not owned:
        return
    if owner.waiting is not None:
        end_wait(core, owner.waiting)
    core.await_owner(owner, now)


def end_ownerships(core: QueueCore, now: float) -> None:
    """Release what subscriptions hold whose owner has been away too long."""
    for owner in each_due(core.owner_deadlines.pop_due, now, TIMER_BUDGET):
        _release(core, owner.ledger, now)


def forget_unused(core: QueueCore, now: float) -> None:
    """Forget the subscriptions that nobody has used for as long as the queue's settings say; note since when nobody uses the others."""
    expiry = core.settings.subscription_expiry
    for absence in each_due(core.unused.pop_due, now, TIMER_BUDGET):
        ledger = absence.ledger
        owner = core.owners[ledger.name]
        if expiry is None or owner.connection is not None or _is_read(core, ledger):
            continue  # whoever leaves last has it looked at again
        if owner.used is None:
            owner.used = now
        if not owner.noted:
            since_us = round((now - owner.used) * US_PER_SECOND)
            core.commit(events.SubscriptionLeft(ledger.name, ledger.epoch, max(0, core.wall_us - since_us)))
            owner.noted = True
        due = max(owner.used + expiry, core.forgets_from)
        if due > now:
            core.unused.push(absence, due)
            continue
        core.effects.append(replies.SubscriptionForgotten(ledger.name, now - owner.used, ledger.high - ledger.base))
        _delete(core, ledger, now)


def _is_read(core: QueueCore, ledger: Ledger) -> bool:
    return any(subscriber.ledger is ledger for subscriber in core.subscribers.values())


def _look_at(core: QueueCore, absence: Absence, at: float) -> None:
    if absence.deadline is not None:
        core.unused.forget(absence)
    core.unused.push(absence, at)


def _take_over(core: QueueCore, command: commands.OpenSubscription) -> Ledger:
    name, starting, owner_timeout = command.name, command.starting, command.owner_timeout
    if starting not in (EARLIEST, LATEST):
        raise InvalidRequestError(f"starting {starting!r} is neither {EARLIEST!r} nor {LATEST!r}")
    if owner_timeout is not None and owner_timeout < 0:
        raise InvalidRequestError(f"an owner timeout of {owner_timeout} s is in the past")
    log = core.log
    ledger = log.ledgers.get(name)
    if ledger is None and len(log.ledgers) >= MAX_SUBSCRIPTIONS:
        raise QueueLimitError("MAX_SUBSCRIPTIONS", MAX_SUBSCRIPTIONS, "use one that exists, or another queue")
    owner = core.owners.get(name)
    if owner is not None and owner.connection is not None and not command.take_over:
        # It lives: a connection that falls silent is closed, and its owner detached, within three heartbeats.
        raise SubscriptionOwnedError(name, owner.client, TO_OPEN)
    _check_newest(core, command)
    epoch = 1 + (log.deleted_epoch if ledger is None else ledger.epoch)
    least = log.next_sequence if starting == LATEST else 0
    core.commit(events.SubscriptionOwned(name, epoch, least, owner_timeout, core.wall_us))
    return log.ledgers[name]


def _go_on(core: QueueCore, command: commands.OpenSubscription) -> Ledger:
    ledger = _join(core, command.name, command.epoch)
    _check_newest(core, command)
    return ledger


def _check_newest(core: QueueCore, command: commands.OpenSubscription) -> None:
    owner = core.owners.get(command.name)
    if owner is not None and owner.connection is not None:
        check_newest(owner, command, OF_SUBSCRIPTION)


def _install(core: QueueCore, ledger: Ledger, command: commands.OpenSubscription, now: float) -> None:
    """Make the command's connection the owner's; the one it replaces, of an older epoch or of this one, owns nothing any more."""
    owner = core.owners.setdefault(ledger.name, Ownership(ledger))
    if owner.waiting is not None:
        waiting = owner.waiting
        end_wait(core, waiting)
        error = StaleEpochError(ledger.name, core.subscribers[waiting.connection].epoch, ledger.epoch)
        refused = replies.Refused(error.code, str(error), waiting.request, close=False)
        core.effects.append(replies.Tell(waiting.connection, refused))
    replaced = core.subscribers.get(owner.connection) if owner.connection is not None else None
    if replaced is not None:
        replaced.owns = False
    if owner.deadline is not None:
        core.owner_deadlines.forget(owner)
    if owner.absence.deadline is not None:
        core.unused.forget(owner.absence)
    owner.connection, owner.arrival = command.connection, command.arrival
    owner.client = command.client
    owner.used = now


def _join(core: QueueCore, name: str, epoch: int | None) -> Ledger:
    ledger = core.log.ledgers.get(name)
    if ledger is None:
        raise SubscriptionNotFoundError(name)
    if epoch is None:
        raise InvalidRequestError("mode 'read' needs the epoch of the owner that it reads for")
    if epoch != ledger.epoch:
        raise StaleEpochError(name, epoch, ledger.epoch)
    return ledger


def _subscriber(core: QueueCore, connection: replies.Connection) -> Subscriber:
    try:
        subscriber = core.subscribers[connection]
    except KeyError:
        raise InvalidRequestError("this connection has no subscription open: open one first") from None
    subscriber.check_epoch()
    return subscriber


def _owner(core: QueueCore, connection: replies.Connection) -> Subscriber:
    subscriber = _subscriber(core, connection)
    if not subscriber.owns:
        raise InvalidRequestError("this connection reads for an owner; only the owner reserves and commits")
    return subscriber


def answer_empty(core: QueueCore, reservation: Reservation, now: float) -> None:
    """There was nothing in its time."""
    end_wait(core, reservation)
    reserved = replies.MessagesReserved(reservation.request, reservation.start, facts_of(core, now))
    core.tell(reservation.connection, reserved)
