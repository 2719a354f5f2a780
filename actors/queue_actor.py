"""The queue actor: dispatches messages to the pure ``QueueState`` and carries out the effects it asks for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import pykka

from actors.errors import InboxOverflowError, QueueError
from actors.loop_actor import LoopActor
from actors.messages import (
    AttachReceiver,
    AttachSender,
    CancelDemand,
    CapacityGranted,
    CommitReservation,
    DeleteMessages,
    DeleteQueue,
    Detach,
    ExtendVisibility,
    FetchedRanges,
    FetchReserved,
    GetStatistics,
    MessagesReserved,
    OpenSubscription,
    PurgeQueue,
    QueueDeleted,
    ReceivedMessages,
    ReceiveMessages,
    ReceiverAttached,
    Refused,
    ReleaseSubscription,
    RequestCapacity,
    ReservationCommitted,
    ReserveMessages,
    ReturnMessages,
    SenderAttached,
    SendMessages,
    SentMessages,
    SubscriptionOpened,
    Superseded,
)
from actors.queue_state.effects import Confirm, Deliver, GrantCapacity, Refuse, Reserved, Supersede
from actors.supervision import Supervision

if TYPE_CHECKING:
    from actors._loop_timer import TimerHandle
    from actors._loop_watch import Watch
    from actors.messages import QueueReply, Ref
    from actors.queue_state import QueueState, QueueStatistics
    from actors.queue_state.effects import Connection

R = TypeVar("R", bound="QueueReply")

QUEUE_INBOX = 4_194_304
"""Messages that may wait for a queue: no bound to work with, but a last resort. What senders have under way is bounded by
their permits, a million by default, and what receivers answer by what they hold."""
US_PER_SECOND = 1_000_000


class _Tick:
    """To itself: the state's next deadline has come."""

    __slots__ = ()


_TICK = _Tick()


class QueueActor(LoopActor):
    """One queue. What it takes and answers is in ``actors.messages``.

    A connection is the ref that its messages carry; it is watched, and detached when its actor stops, or when its inbox
    is full. The state survives a failing handler: what was in flight is ready again, and the connections, which
    cannot know what became of their messages, are told to end.

    Args:
        state: the queue's state; the actor's own from now on.
        wall_clock: seconds since the epoch, for enqueue times. Deadlines are on the loop's clock.
    """

    supervision = Supervision.RESTART
    max_inbox: ClassVar[int] = QUEUE_INBOX

    def __init__(self, state: QueueState, wall_clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._state = state
        self._wall_clock = wall_clock
        self._timer: TimerHandle | None = None
        self._watches: dict[Connection, Watch] = {}
        self._ended: list[Ref] = []

    def on_receive(self, message: Any) -> Any:
        """Handle one message of ``actors.messages.QueueMessage``; the return value is the reply to an ask.

        Raises:
            QueueError: to an ask that carries no connection.
            TypeError: a message of another kind.
        """
        kind = type(message)
        handler = _HANDLERS.get(kind)
        if handler is None:
            raise TypeError(f"a queue actor does not handle {kind.__name__}; actors.messages has what it does")
        try:
            reply = handler(self, message)
        except QueueError as error:
            connection = getattr(message, "connection", None)
            if connection is None:
                raise
            reply = Refused(error.code, str(error), getattr(message, "request", None), error.close)
            self._tell(connection, reply)
        self._carry_out()
        return reply

    def on_restart(self, failure: BaseException) -> None:
        """Let go of every connection and take back what they held; the failure may have left either half done."""
        self._timer = None
        for watch in self._watches.values():
            watch.cancel()
        self._watches.clear()
        self._ended.clear()
        refused = Refused("internal-error", f"the queue failed on {type(failure).__name__} and went on: connect again")
        for connection in self._state.reset(self.loop.time()):
            self._tell(connection, refused)
        # Those who could not be told are detached already.
        self._ended.clear()
        self._carry_out()

    def on_stop(self) -> None:
        """Tell the connections that the queue is gone."""
        for connection in self._watches:
            self._tell(connection, QueueDeleted())

    def on_failure(self, *_args: object) -> None:
        """Too many restarts: the connections end, so that they do not wait for ever."""
        for connection in self._watches:
            self._tell(connection, Refused("internal-error", "the queue failed for good, with what it held"))

    # --- carrying out

    def _carry_out(self) -> None:
        """Do what the state asks for, until it asks for nothing: each connection found dead makes more of it."""
        state = self._state
        while True:
            for effect in state.take_effects():
                _EFFECTS[type(effect)](self, effect)
            if not self._ended:
                break
            self._detach(self._ended.pop())
        deadline = state.next_deadline()
        if deadline is not None and (self._timer is None or deadline < self._timer.when):
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self.schedule_at(deadline, _TICK)

    def _tell(self, connection: Any, message: QueueReply) -> None:
        try:
            connection.tell(message)
        except (pykka.ActorDeadError, InboxOverflowError):
            # Detaching it now would change the state under whoever reads its effects.
            self._ended.append(connection)

    def _deliver(self, effect: Deliver) -> None:
        message = ReceivedMessages(
            effect.first, effect.batch, effect.enqueued_us, effect.delivery_count, effect.possibly_replayed
        )
        self._tell(effect.receiver, message)

    def _grant(self, effect: GrantCapacity) -> None:
        self._tell(effect.sender, CapacityGranted(effect.messages, effect.bytes))

    def _confirm(self, effect: Confirm) -> None:
        self._tell(effect.sender, SentMessages(effect.up_to, effect.first))

    def _supersede(self, effect: Supersede) -> None:
        self._unwatch(effect.sender)
        self._tell(effect.sender, Superseded())

    def _reserved(self, effect: Reserved) -> None:
        self._tell(effect.consumer, MessagesReserved(effect.request, effect.end, asdict(effect.facts)))

    def _refuse(self, effect: Refuse) -> None:
        if effect.close:
            self._unwatch(effect.connection)
        self._tell(effect.connection, Refused(effect.code, effect.text, effect.request, effect.close))

    def _reply(self, connection: Ref, reply: R) -> R:
        self._tell(connection, reply)
        return reply

    # --- connections

    def _watch(self, connection: Ref) -> None:
        if connection not in self._watches:
            self._watches[connection] = self.watch(connection, lambda _failure: self._connection_ended(connection))

    def _unwatch(self, connection: Connection) -> None:
        watch = self._watches.pop(connection, None)
        if watch is not None:
            watch.cancel()

    def _connection_ended(self, connection: Ref) -> None:
        self._detach(connection)
        self._carry_out()

    def _detach(self, connection: Ref) -> None:
        self._unwatch(connection)
        self._state.detach(connection, self.loop.time())

    # --- handlers: senders

    def _attach_sender(self, message: AttachSender) -> SenderAttached:
        last = self._state.attach_sender(message.connection, message.producer)
        self._watch(message.connection)
        return self._reply(message.connection, SenderAttached(last))

    def _request_capacity(self, message: RequestCapacity) -> None:
        self._state.request_capacity(message.connection, message.messages, message.bytes)

    def _send(self, message: SendMessages) -> SentMessages:
        sequence, batch = message.client_sequence, message.batch
        wall_us = int(self._wall_clock() * US_PER_SECOND)
        first = self._state.send(message.connection, sequence, batch, now=self.loop.time(), wall_us=wall_us)
        # To the connection this goes as the effect; here it is for whoever asked.
        return SentMessages(sequence + len(batch), first)

    # --- handlers: receivers

    def _attach_receiver(self, message: AttachReceiver) -> ReceiverAttached:
        self._state.attach_receiver(message.connection)
        self._watch(message.connection)
        return self._reply(message.connection, ReceiverAttached())

    def _receive(self, message: ReceiveMessages) -> None:
        self._state.receive(message.connection, message.messages, message.bytes, self.loop.time())

    def _delete(self, message: DeleteMessages) -> None:
        self._state.acknowledge(message.connection, message.ranges)

    def _return(self, message: ReturnMessages) -> None:
        self._state.negative_acknowledge(message.connection, message.ranges, message.delay, self.loop.time())

    def _extend(self, message: ExtendVisibility) -> None:
        self._state.extend(message.connection, message.ranges, message.seconds, self.loop.time())

    def _cancel_demand(self, message: CancelDemand) -> None:
        self._state.cancel_demand(message.connection)

    def _detached(self, message: Detach) -> None:
        self._detach(message.connection)

    # --- handlers: subscriptions

    def _open_subscription(self, message: OpenSubscription) -> SubscriptionOpened:
        facts = self._state.open_subscription(
            message.connection,
            message.name,
            message.mode,
            epoch=message.epoch,
            starting=message.starting,
            owner_timeout=message.owner_timeout,
        )
        self._watch(message.connection)
        opened = SubscriptionOpened(facts.epoch, facts.base, facts.high, facts.high_water)
        return self._reply(message.connection, opened)

    def _reserve(self, message: ReserveMessages) -> None:
        self._state.reserve(
            message.connection,
            message.request,
            message.start,
            messages=message.messages,
            size=message.bytes,
            wait=message.wait,
            below=message.below,
            now=self.loop.time(),
        )

    def _commit(self, message: CommitReservation) -> ReservationCommitted:
        base = self._state.commit(message.connection, message.position)
        return self._reply(message.connection, ReservationCommitted(message.request, base))

    def _fetch(self, message: FetchReserved) -> FetchedRanges:
        ranges = self._state.fetch(message.connection, message.start, message.stop)
        return self._reply(message.connection, FetchedRanges(message.request, ranges))

    # --- handlers: the broker

    def _release(self, message: ReleaseSubscription) -> int:
        return self._state.release_subscription(message.name, self.loop.time())

    def _purge(self, _message: PurgeQueue) -> int:
        return self._state.purge()

    def _statistics(self, _message: GetStatistics) -> QueueStatistics:
        return self._state.statistics(self.loop.time())

    def _delete_queue(self, _message: DeleteQueue) -> int:
        self.stop()
        return self._state.statistics(self.loop.time()).stored_messages

    def _tick(self, _message: _Tick) -> None:
        self._timer = None
        self._state.tick(self.loop.time())


_HANDLERS: dict[type, Callable[[QueueActor, Any], Any]] = {
    AttachSender: QueueActor._attach_sender,
    RequestCapacity: QueueActor._request_capacity,
    SendMessages: QueueActor._send,
    AttachReceiver: QueueActor._attach_receiver,
    ReceiveMessages: QueueActor._receive,
    DeleteMessages: QueueActor._delete,
    ReturnMessages: QueueActor._return,
    ExtendVisibility: QueueActor._extend,
    CancelDemand: QueueActor._cancel_demand,
    Detach: QueueActor._detached,
    OpenSubscription: QueueActor._open_subscription,
    ReserveMessages: QueueActor._reserve,
    CommitReservation: QueueActor._commit,
    FetchReserved: QueueActor._fetch,
    ReleaseSubscription: QueueActor._release,
    PurgeQueue: QueueActor._purge,
    GetStatistics: QueueActor._statistics,
    DeleteQueue: QueueActor._delete_queue,
    _Tick: QueueActor._tick,
}

_EFFECTS: dict[type, Callable[[QueueActor, Any], None]] = {
    Deliver: QueueActor._deliver,
    GrantCapacity: QueueActor._grant,
    Confirm: QueueActor._confirm,
    Supersede: QueueActor._supersede,
    Reserved: QueueActor._reserved,
    Refuse: QueueActor._refuse,
}
