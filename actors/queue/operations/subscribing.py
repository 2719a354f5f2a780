"""The operations of subscriptions: open, reserve, commit, fetch, release."""

from __future__ import annotations

from dataclasses import dataclass
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
from actors.queue.operations.dispatch import dispatch, end_wait
from actors.queue.operations.dispatch import reserve as reserve_now
from actors.queue.state.consumers import Ownership, Reservation, Subscriber
from actors.queue.state.entry_table import spans_of
from actors.queue.state.ledger import Ledger, LedgerReader
from actors.queue.vocabulary.effects import Refuse, Reserved
from actors.queue.vocabulary.events import (
    ReservationCommitted,
    SubscriptionDeleted,
    SubscriptionOpened,
    SubscriptionReleased,
)
from actors.queue.vocabulary.settings import MAX_RESERVE_WAIT_SECONDS, MAX_SUBSCRIPTIONS, TIMER_BUDGET

if TYPE_CHECKING:
    from actors.queue.state.core import QueueCore
    from actors.queue.vocabulary.effects import Connection
    from actors.queue.vocabulary.events import Event

OWN, READ, BROWSE = "own", "read", "browse"
EARLIEST, LATEST = "earliest", "latest"


@dataclass(frozen=True, slots=True)
class Opening:
    """How a subscription is opened; see ``QueueState.open_subscription``.

    Attributes:
        take_over: whether it is taken from an owner that is connected.
        client: what the new owner calls itself, for others to be told.
        now: seconds on the clock of deadlines.
        wall_us: the time of day, microseconds since the epoch.
    """

    take_over: bool = False
    client: str = ""
    now: float = 0.0
    wall_us: int = 0


@dataclass(frozen=True, slots=True)
class SubscriptionFacts:
    """An opened subscription: its epoch, positions ``base`` <= p < ``high`` reserved, the queue's next number.

    Of a browse there is no epoch, which is 0, and the positions are the numbers from the oldest stored message on.
    """

    epoch: int
    base: int
    high: int
    high_water: int


def open_subscription(
    core: QueueCore,
    connection: Connection,
    name: str,
    mode: str,
    *,
    epoch: int | None,
    starting: str,
    owner_timeout: float | None,
    opening: Opening,
) -> SubscriptionFacts:
    """Take over or join a subscription; see ``QueueState.open_subscription``."""
    if connection in core.subscribers:
        raise InvalidRequestError(f"this connection has subscription {core.subscribers[connection].ledger.name!r} open")
    if mode == BROWSE:
        # Nothing is kept of it: every step says by itself what it wants.
        return SubscriptionFacts(0, lowest_stored(core), core.log.next_sequence, core.log.next_sequence)
    if mode == OWN and core.settings.exclusive:
        raise InvalidRequestError(
            f"queue {core.name!r} is exclusive: one receiver has it, in strict order, and a subscription would take messages "
            "out of turn; receive from it, or declare a queue that is not exclusive"
        )
    if mode == OWN:
        ledger = _take_over(core, name, starting, owner_timeout, opening) if epoch is None else _join(core, name, epoch)
        _install(core, ledger, connection, opening)
    elif mode == READ:
        ledger = _join(core, name, epoch)
    else:
        raise InvalidRequestError(f"mode {mode!r} is none of {OWN!r}, {READ!r}, {BROWSE!r}")
    core.subscribers[connection] = Subscriber(connection, ledger, ledger.epoch, mode == OWN)
    return SubscriptionFacts(ledger.epoch, ledger.base, ledger.high, core.log.next_sequence)


def reserve(
    core: QueueCore,
    connection: Connection,
    request: int,
    start: int,
    *,
    messages: int,
    size: int,
    wait: float,
    below: int | None,
    now: float,
) -> None:
    """Put ready messages into a ledger; see ``QueueState.reserve``."""
    ledger = _owner(core, connection).ledger
    if messages < 1 or size < 1 or wait < 0:
        raise InvalidRequestError(
            f"{messages} messages and {size} bytes within {wait} s: a reservation is for one at least, and not in the past"
        )
    if not ledger.base <= start <= ledger.high:
        raise DataLossError(ledger.name, start, start + messages, ledger.base, ledger.high)
    if ledger.high > start:
        end = min(ledger.high, start + messages)
        core.effects.append(Reserved(connection, request, end, core.facts(now), core.last_event))
        return
    owner = core.owners[ledger.name]
    owner.used = now
    if owner.waiting is not None:
        _answer_empty(core, owner.waiting, now)
    reservation = Reservation(connection, request, ledger, start=start, messages=messages, size=size, below=below)
    if reserve_now(core, reservation, messages, now):
        return
    if wait == 0:
        _answer_empty(core, reservation, now)
        return
    owner.waiting = reservation
    core.ring.join(reservation)
    core.reservation_deadlines.push(reservation, now + min(wait, MAX_RESERVE_WAIT_SECONDS))


def commit(core: QueueCore, connection: Connection, position: int) -> int:
    """Acknowledge every position below ``position``; see ``QueueState.commit``."""
    ledger = _owner(core, connection).ledger
    if position > ledger.high:
        raise DataLossError(ledger.name, ledger.base, position, ledger.base, ledger.high)
    if position > ledger.base:
        core.commit(ReservationCommitted(ledger.name, position))
        core.grant()
    return ledger.base


def fetch(core: QueueCore, connection: Connection, start: int, stop: int) -> LedgerReader:
    """What is at some positions; see ``QueueState.fetch``."""
    subscriber = _subscriber(core, connection)
    ledger = subscriber.ledger
    if start > stop:
        raise InvalidRequestError(f"positions {start} to {stop} are asked for, which is backwards")
    if start < ledger.base or stop > ledger.high:
        raise DataLossError(ledger.name, start, stop, ledger.base, ledger.high)
    return LedgerReader(ledger.name, ledger.segments(start, stop), core.log.table, core.barrier)


def release(core: QueueCore, name: str, now: float) -> int:
    """Make what a subscription reserved receivable again, in its old place; returns how many messages."""
    ledger = core.log.ledgers.get(name)
    if ledger is None:
        raise SubscriptionNotFoundError(name)
    if ledger.base == ledger.high:
        return 0
    return _give_back(core, ledger, SubscriptionReleased(name, ledger.high), now)


def delete(core: QueueCore, name: str, now: float) -> int:
    """Forget a subscription, as ``release`` does with what it reserved; see ``QueueState.release_subscription``."""
    ledger = core.log.ledgers.get(name)
    if ledger is None:
        raise SubscriptionNotFoundError(name)
    owner = core.owners.pop(name, None)
    if owner is not None:
        if owner.connection is not None:
            core.owners[name] = owner
            raise SubscriptionOwnedError(name, owner.client)
        if owner.deadline is not None:
            core.owner_deadlines.forget(owner)
    # Who still reads for an owner of before is told, not left with a ledger that nobody changes any more.
    for subscriber in [subscriber for subscriber in core.subscribers.values() if subscriber.ledger is ledger]:
        del core.subscribers[subscriber.connection]
        error = SubscriptionNotFoundError(name)
        core.effects.append(Refuse(subscriber.connection, error.code, str(error), None, close=True))
    return _give_back(core, ledger, SubscriptionDeleted(name, ledger.epoch, ledger.high), now)


def _give_back(core: QueueCore, ledger: Ledger, event: Event, now: float) -> int:
    """Make what a ledger holds receivable again by ``event``; returns how many messages."""
    segments = ledger.segments(ledger.base, ledger.high)
    released = ledger.high - ledger.base
    core.commit(event)
    for segment in segments:
        # A reservation is no failure; those from before it are known.
        for (start, stop), failures in core.log.returns.over(segment.start, segment.stop):
            for span in spans_of(core.log.table, start, stop, segment.delivery_count, True, failures):
                core.ready.put_back(span)
    dispatch(core, now)
    return released


def detach_subscriber(core: QueueCore, connection: Connection, now: float) -> None:
    """Forget a subscription's connection, if it is one; an owner's reservations stay for its ``owner_timeout``."""
    subscriber = core.subscribers.pop(connection, None)
    if subscriber is None:
        return
    owner = core.owners.get(subscriber.ledger.name)
    if owner is None or owner.connection != connection:
        return
    owner.connection = None
    owner.used = now
    if owner.waiting is not None:
        end_wait(core, owner.waiting)
    _await_owner(core, owner, now)


def await_owners(core: QueueCore, now: float) -> None:
    """After a start from the log: nobody owns any subscription as of now."""
    for ledger in core.log.ledgers.values():
        core.owners[ledger.name] = Ownership(ledger)
        _await_owner(core, core.owners[ledger.name], now)


def end_ownerships(core: QueueCore, now: float) -> None:
    """Release what subscriptions hold whose owner has been away too long."""
    for _ in range(TIMER_BUDGET):
        owner = core.owner_deadlines.pop_due(now)
        if owner is None:
            return
        release(core, owner.ledger.name, now)


def answer_reservations(core: QueueCore, now: float) -> None:
    """Answer the reservations that have waited long enough."""
    for _ in range(TIMER_BUDGET):
        reservation = core.reservation_deadlines.pop_due(now)
        if reservation is None:
            return
        _answer_empty(core, reservation, now)


def _take_over(core: QueueCore, name: str, starting: str, owner_timeout: float | None, opening: Opening) -> Ledger:
    if starting not in (EARLIEST, LATEST):
        raise InvalidRequestError(f"starting {starting!r} is neither {EARLIEST!r} nor {LATEST!r}")
    if owner_timeout is not None and owner_timeout < 0:
        raise InvalidRequestError(f"an owner timeout of {owner_timeout} s is in the past")
    log = core.log
    ledger = log.ledgers.get(name)
    if ledger is None and len(log.ledgers) >= MAX_SUBSCRIPTIONS:
        raise QueueLimitError("MAX_SUBSCRIPTIONS", MAX_SUBSCRIPTIONS, "use one that exists, or another queue")
    owner = core.owners.get(name)
    if owner is not None and owner.connection is not None and not opening.take_over:
        # It lives: a connection that falls silent is closed, and its owner detached, within three heartbeats.
        raise SubscriptionOwnedError(name, owner.client)
    epoch = 1 + (log.deleted_epoch if ledger is None else ledger.epoch)
    least = log.next_sequence if starting == LATEST else 0
    core.commit(SubscriptionOpened(name, epoch, least, owner_timeout, opening.wall_us))
    return log.ledgers[name]


def _install(core: QueueCore, ledger: Ledger, connection: Connection, opening: Opening) -> None:
    """Make ``connection`` the owner's; the one it replaces, of an older epoch or of this one, owns nothing any more."""
    owner = core.owners.setdefault(ledger.name, Ownership(ledger))
    if owner.waiting is not None:
        waiting = owner.waiting
        end_wait(core, waiting)
        error = StaleEpochError(ledger.name, core.subscribers[waiting.connection].epoch, ledger.epoch)
        core.effects.append(Refuse(waiting.connection, error.code, str(error), waiting.request, close=False))
    replaced = core.subscribers.get(owner.connection) if owner.connection is not None else None
    if replaced is not None:
        replaced.owns = False
    if owner.deadline is not None:
        core.owner_deadlines.forget(owner)
    owner.connection = connection
    owner.client = opening.client
    owner.used = opening.now


def _join(core: QueueCore, name: str, epoch: int | None) -> Ledger:
    ledger = core.log.ledgers.get(name)
    if ledger is None:
        raise SubscriptionNotFoundError(name)
    if epoch is None:
        raise InvalidRequestError("mode 'read' needs the epoch of the owner that it reads for")
    if epoch != ledger.epoch:
        raise StaleEpochError(name, epoch, ledger.epoch)
    return ledger


def _subscriber(core: QueueCore, connection: Connection) -> Subscriber:
    try:
        subscriber = core.subscribers[connection]
    except KeyError:
        raise InvalidRequestError("this connection has no subscription open: open one first") from None
    subscriber.check_epoch()
    return subscriber


def _owner(core: QueueCore, connection: Connection) -> Subscriber:
    subscriber = _subscriber(core, connection)
    if not subscriber.owns:
        raise InvalidRequestError("this connection reads for an owner; only the owner reserves and commits")
    return subscriber


def _answer_empty(core: QueueCore, reservation: Reservation, now: float) -> None:
    end_wait(core, reservation)
    core.effects.append(
        Reserved(reservation.connection, reservation.request, reservation.start, core.facts(now), core.last_event)
    )


def _await_owner(core: QueueCore, owner: Ownership, now: float) -> None:
    if owner.ledger.owner_timeout is not None:
        core.owner_deadlines.push(owner, now + owner.ledger.owner_timeout)
