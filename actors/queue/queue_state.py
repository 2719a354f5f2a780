"""The state of one queue: commands in, effects and events out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

from actors.queue.operations import (
    altering,
    browsing,
    calendar,
    dead_letters,
    explaining,
    in_line,
    moving,
    peeking,
    receiving,
    sending,
    settling,
    staging,
    subscribing,
    taking,
)
from actors.queue.operations.deduplicating import forget_ids
from actors.queue.operations.dispatch import dispatch, resume
from actors.queue.operations.dropping import drop_over
from actors.queue.operations.heads import next_expiry
from actors.queue.state.catching_up import catch_up
from actors.queue.state.core import QueueCore
from actors.queue.state.receivers import Take
from actors.queue.structures.deadlines import each_due
from actors.queue.vocabulary import commands, distributed, letters, moves, prefetch, takes, turns
from actors.queue.vocabulary.budgets import TIMER_BUDGET
from actors.queue.vocabulary.replies import MarkReached, Tell

if TYPE_CHECKING:
    from actors.queue.state.grouped_ready import GroupedReady
    from actors.queue.state.subscriptions import Reservation
    from actors.queue.vocabulary.replies import Connection


class QueueState(QueueCore):
    """A queue without sockets, clock or threads. Every cost is per batch, lease or connection, none per message.

    A command checks, then lets events have happened, then asks for effects; one that raises a ``QueueError`` has changed
    nothing. After each command ``take_effects()``, and call ``tick`` at ``next_deadline()``. Effects say which event they wait for.

    A connection is anything hashable; one may be sender, receiver and subscription at once. ``now`` is in seconds on a
    clock that never goes back, ``wall_us`` the time of day in microseconds since the epoch.
    """

    __slots__ = ()

    def execute(self, command: commands.Command, now: float, wall_us: int) -> Any:
        """Carry out one command; returns the answer to one that the broker asks, None of all others.

        Raises:
            QueueError: it is refused, and nothing has changed.
        """
        self.wall_us = wall_us
        kind = type(command)
        if self.incoming and kind not in BESIDE_INCOMING:
            # What was accepted comes first: no other command may see the queue without it.
            sending.store(self, now, wall_us)
        if self.ready.known != self.log.next_sequence:
            self.catch_up(now)
        return _OPERATIONS[kind](self, command, now)

    def forget(self, connection: Connection, now: float, wall_us: int | None = None) -> None:
        """``Left`` of a connection that is gone already: what was accepted is not stored before, for it cannot be delivered there."""
        self.wall_us = self.clocks.time_us(now) if wall_us is None else wall_us
        _leave(self, commands.Left(connection=cast("Any", connection)), now)

    def store(self, now: float, wall_us: int) -> None:
        """Store what was accepted, in as few batches as it takes, and confirm it."""
        sending.store(self, now, wall_us)

    def catch_up(self, now: float) -> None:
        """Notice what others have written to the log, and deliver it. Every command, ``store`` and ``tick`` do so by themselves."""
        catch_up(self, now)
        dispatch(self, now)
        if self.drops:
            drop_over(self, now)

    def tick(self, now: float, wall_us: int | None = None) -> None:
        """Do what is due: room of who has left, expired leases and messages, ended delays, absences, waits that end, deliveries put off.

        ``wall_us`` is the time of day, where it may have been set since anything was stored.
        """
        self.wall_us = self.clocks.time_us(now) if wall_us is None else wall_us
        if self.ready.known != self.log.next_sequence:
            catch_up(self, now)
        sending.grant_put_off(self)
        receiving.expire_leases(self, now)
        receiving.end_delays(self, now)
        if self.feeder is not None:
            self.note_time(now, self.wall_us)
            calendar.feed(self, now)
        dead_letters.hand_over_again(self, now)
        subscribing.end_ownerships(self, now)
        subscribing.forget_unused(self, now)
        staging.end_absences(self, now)
        in_line.look_at_line(self)
        forget_ids(self, now)
        if self.groups is not None:
            cast("GroupedReady", self.ready).step()
        resume(self, now)
        if self.drops:
            drop_over(self, now)
        self._end_waits(now)

    def _end_waits(self, now: float) -> None:
        """Answer the reservations and requests that have waited long enough."""
        not_looked_at: list[Take] = []
        due: Iterator[Reservation | Take] = each_due(self.wait_deadlines.pop_due, now, TIMER_BUDGET)
        for waiting in due:
            if not isinstance(waiting, Take):
                subscribing.answer_empty(self, waiting, now)
            elif self.unfinished_at is not None and waiting in self.ring.waiting:
                # What it asks for may be there: its turn comes.
                not_looked_at.append(waiting)
            elif self.ring.reading and waiting in self.ring.waiting:
                taking.answer_late(self, waiting)
            else:
                taking.answer_empty(self, waiting)
        for waiting in not_looked_at:
            self.wait_deadlines.push(waiting, now)
        taking.answer_those_late(self)

    def next_deadline(self) -> float | None:
        """When ``tick`` has something to do; it may have been already, and None is never."""
        earliest = self.unfinished_at
        put_off = self.capacity.put_off
        if put_off is not None and (earliest is None or put_off < earliest):
            earliest = put_off
        for heap in self.heaps:
            if heap.live:
                deadline = heap.earliest()
                if deadline is not None and (earliest is None or deadline < earliest):
                    earliest = deadline
        for deadline in (
            (self.outbox.next_hand_over(), next_expiry(self)) if self.ttl_below or self.outbox.waiting else ()
        ):
            if deadline is not None and (earliest is None or deadline < earliest):
                earliest = deadline
        return earliest


def _attach_sender(core: QueueCore, command: commands.AttachSender, now: float) -> None:
    (sending.attach_sender if command.stage is None else staging.attach_stage)(core, command, now)


def _leave(core: QueueCore, command: commands.Left, now: float) -> None:
    staging.detach_stage(core, command.connection, now)
    receiving.detach_receiver(core, command, now)
    subscribing.detach_subscriber(core, command.connection, now)


def _mark(core: QueueCore, command: commands.CaughtUp, _now: float) -> None:
    core.effects.append(Tell(command.connection, MarkReached(), core.last_event if command.answered else 0))


def _pause(core: QueueCore, command: commands.PauseSenders, _now: float) -> None:
    core.paused = command.reason
    core.grant()


def _store_dead_letters(core: QueueCore, command: letters.StoreDeadLetters, now: float) -> None:
    dead_letters.store_dead_letters(core, command, now)
    dispatch(core, now)
    if core.drops:
        drop_over(core, now)


def _dead_letters_moved(core: QueueCore, command: letters.DeadLettersMoved, now: float) -> None:
    dead_letters.dead_letters_moved(core, command, now)
    # What is expired at the head may have waited for these to leave, or what is over a limit.
    dispatch(core, now)
    if core.drops:
        drop_over(core, now)


BESIDE_INCOMING = frozenset({commands.OfferBatch, commands.CaughtUp})
"""What may come between a batch that is accepted and its being stored: others that are stored with it, and a mark."""

_OPERATIONS: dict[type, Callable[[QueueCore, Any, float], Any]] = {
    commands.AttachSender: _attach_sender,
    commands.RequestCapacity: sending.request_capacity,
    commands.OfferBatch: sending.accept,
    commands.AttachReceiver: receiving.attach_receiver,
    commands.DemandSignalled: receiving.receive,
    prefetch.DemandWithdrawn: receiving.withdraw_demand,
    prefetch.LimitDemand: receiving.limit_demand,
    prefetch.ReturnedForMore: receiving.return_for_more,
    prefetch.AcknowledgedForMore: receiving.acknowledge_for_more,
    turns.HearTurns: in_line.hear_turns,
    commands.Acknowledged: receiving.acknowledge,
    commands.Rejected: receiving.reject,
    commands.Extended: receiving.extend,
    commands.Left: _leave,
    commands.CaughtUp: _mark,
    commands.ExplainWait: explaining.explain,
    commands.OpenSubscription: subscribing.open_subscription,
    commands.ReserveRequested: subscribing.reserve,
    commands.CommitRequested: subscribing.commit,
    commands.FetchRequested: subscribing.fetch,
    commands.BrowseRequested: browsing.browse,
    letters.StoreDeadLetters: _store_dead_letters,
    letters.DeadLettersMoved: _dead_letters_moved,
    takes.AttachTaker: taking.attach_taker,
    takes.TakeMessages: taking.take_messages,
    takes.CancelTake: taking.cancel_take,
    takes.TakenSeen: taking.taken_seen,
    takes.GiveBackUnseen: taking.give_back_unseen,
    takes.SettleTaken: taking.settle_taken,
    moves.PeekMessages: peeking.peek,
    moves.StoreParcels: moving.store_parcels,
    commands.EndStages: staging.end_stages,
    distributed.DropStages: staging.drop_stages,
    distributed.SettledBeside: settling.settled_beside,
    commands.DiscardTransaction: staging.discard_transaction,
    commands.PauseSenders: _pause,
    commands.AlterQueue: altering.alter,
    commands.ReleaseSubscription: subscribing.release_or_delete,
}
OPERATIONS = frozenset(_OPERATIONS)
"""The commands that ``QueueState`` carries out; the others ask for its statistics, and for a purge in steps."""
