"""The ports of the receiving address: role ``receiver``, and role ``subscription``, whose mode ``browse`` has none."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from actors import SubscriptionOptions
from actors.limits import NO_DEADLINE
from actors.queue.vocabulary import commands, replies
from actors.queue.vocabulary.prefetch import DemandWithdrawn
from actors.queue.vocabulary.turns import HearTurns, TurnChanged
from transport.broker.binding_port import BindingPort
from transport.broker.operations import Operations
from transport.broker.oversized import CODE, is_oversized, oversized_text, skips_oversized
from transport.broker.port import Client
from transport.errors import LocalProtocolError, RemoteProtocolError
from transport.wire import messages as wire
from transport.wire.cumulative import CumulativeDemand
from transport.wire.field_checks import MAX_REASON_BYTES, is_uint
from transport.wire.names import check_name
from transport.wire.queue_named import EXISTING_QUEUE
from transport.wire.receiver_bindings import BIND, QUEUE, read_bindings, wants_own_queue
from transport.wire.receiver_deadlines import NO_VISIBILITY, VISIBILITY, wants_deadline
from transport.wire.receiver_priorities import PRIORITY, priority_of
from transport.wire.receiver_turns import TURNS, hears_turns

if TYPE_CHECKING:
    from actors.batch import MessageBatch


class ReceivingPort(BindingPort):
    """Role ``receiver``."""

    def __init__(self, operations: Operations, client: Client, hello: wire.Hello) -> None:
        super().__init__(client)
        self._demand = CumulativeDemand()
        make = hello.options.get(EXISTING_QUEUE) is None
        name, bindings, deadline = hello.queue or "", read_bindings(hello), wants_deadline(hello)
        priority, self._hears_turns = priority_of(hello), hears_turns(hello)
        if priority:
            self.greet({PRIORITY: priority})
        if self._hears_turns:
            self.greet({TURNS: True})
        if wants_own_queue(hello):
            name, receiving = operations.own_receiver(self, bindings, deadline=deadline)
            self.greet({QUEUE: name})
            client.queue = name
        else:
            receiving = operations.receiver(name, self, make=make, deadline=deadline, priority=priority)
        self.actor, self._visibility_timeout, self._id_prefix = receiving[:3]
        self.bind_first(operations, name, bindings)

    def received(self, frame: wire.Frame) -> None:
        """REQUEST, ACK, NACK, EXTEND, CANCEL, WHY."""
        assert self.actor is not None
        match frame:
            case wire.Ack():
                self.actor.deliver(commands.Acknowledged(frame.ranges, self.actor))
            case wire.Request(messages=0, bytes=0) if self._demand.messages:
                self.actor.deliver(DemandWithdrawn())
            case wire.Request():
                self.actor.deliver(commands.DemandSignalled(*self._demand.growth(frame.messages, frame.bytes)))
            case wire.Nack():
                delay = _seconds(frame.delay_ms, "delay_ms")
                reason, error = _checked("a reason", frame.reason), _checked("an error", frame.error)
                self.actor.deliver(commands.Rejected(frame.ranges, delay, frame.failed, self.actor, reason, error))
            case wire.Extend():
                self.actor.deliver(commands.Extended(frame.ranges, _seconds(frame.ms, "ms"), self.actor))
            case wire.Cancel():
                self.actor.deliver(commands.Left(frame.failed))
                self._client.finished()
            case wire.Why():
                self.actor.deliver(commands.ExplainWait(frame.request, self.actor))

    def drain(self) -> None:
        """Deliver nothing more. What the client holds goes back when its connection is over, and is no failure."""
        assert self.actor is not None
        self.actor.deliver(DemandWithdrawn())
        self.actor.deliver(commands.Left(failed=False))

    def tell(self, reply: replies.Reply) -> None:
        """DELIVER, BECAUSE, and WELCOME once the queue knows the receiver."""
        match reply:
            case replies.ReceivedMessages():
                first, batch, enqueued_us, delivery_count, possibly_replayed, published, failures, priority = reply
                try:
                    if published is None and not failures and not priority:
                        self._client.send(wire.Deliver(first, enqueued_us, delivery_count, possibly_replayed, batch))
                        return
                    exchange, key = published or (None, None)
                    facts = first, enqueued_us, delivery_count, possibly_replayed, batch
                    self._client.send(wire.Deliver(*facts, exchange, key, failures, priority))
                except LocalProtocolError as error:
                    self._does_not_fit(first, batch, error)
            case replies.WaitExplained():
                self._client.send(wire.Because(reply.request, reply.reason, reply.text[: wire.MAX_ERROR_TEXT]))
            case TurnChanged():
                self._client.send(wire.Turn(reply.waiting))
            case replies.ReceiverAttached():
                if self._hears_turns:
                    assert self.actor is not None
                    self.actor.deliver(HearTurns(reply.waiting))
                visibility = self._visibility_timeout
                self.attached(
                    {
                        VISIBILITY: NO_VISIBILITY if visibility == NO_DEADLINE else round(visibility * 1000),
                        "id_prefix": self._id_prefix,
                        "waiting": reply.waiting,
                        "dead_letters": reply.dead_letters,
                        wire.RETRIES: reply.retries,
                        wire.EXPLAINS: True,
                    }
                )

    def _does_not_fit(self, first: int, batch: MessageBatch, error: LocalProtocolError) -> None:
        """A message that came over AMQP is too large for a frame: it stays, and is no failure of whoever cannot have it."""
        assert self.actor is not None
        if not is_oversized(batch):
            raise error
        self.actor.deliver(commands.Left(failed=False))
        self.refused(CODE, oversized_text(self._client.queue or "", first, batch), close=True)


class SubscribingPort(BindingPort):
    """Role ``subscription``, and its mode ``browse``, which has none."""

    def __init__(self, operations: Operations, client: Client, hello: wire.Hello) -> None:
        super().__init__(client)
        name = check_name(hello.queue or "")
        self._demand = CumulativeDemand()
        self._bindings, options = read_bindings(hello), _subscription_options(hello)
        if self._bindings and options.mode != "own":
            raise RemoteProtocolError(f"HELLO: {BIND} belongs to the mode own, which reserves what the queue gets")
        self._queue, self._operations = name, operations
        self._skips, self._skipped = skips_oversized(hello.options), 0
        self.actor, self._id_prefix, self._created = operations.subscription(name, options, self)

    def received(self, frame: wire.Frame) -> None:
        """RESERVE, COMMIT, FETCH, REQUEST, CANCEL."""
        assert self.actor is not None
        match frame:
            case wire.Reserve():
                # The queue bounds how long it lets a reservation wait.
                wait = frame.wait_ms / 1000
                self.actor.deliver(
                    commands.ReserveRequested(
                        frame.request, frame.start, frame.messages, frame.bytes, wait, frame.below
                    )
                )
            case wire.Commit():
                self.actor.deliver(commands.CommitRequested(frame.request, frame.position))
            case wire.Fetch():
                self.actor.deliver(commands.FetchRequested(frame.request, frame.start, frame.stop))
            case wire.Request():
                self.actor.deliver(commands.DemandSignalled(*self._demand.growth(frame.messages, frame.bytes)))
            case wire.Cancel():
                self._client.finished()

    def tell(self, reply: replies.Reply) -> None:
        """RESERVED, COMMITTED, and WELCOME once the subscription is open."""
        match reply:
            case replies.MessagesReserved():
                self._client.send(wire.Reserved(reply.request, reply.end, dict(reply.facts)))
            case replies.ReservationCommitted():
                self._client.send(wire.Committed(reply.request, reply.base))
            case replies.SubscriptionOpened():
                # Not before: who is refused as another owns the subscription must not bind that one's queue otherwise.
                self.bind_first(self._operations, self._queue, self._bindings, only=True)
                self.attached(asdict(reply) | {"id_prefix": self._id_prefix, "created": self._created})

    def fetched(self, request: int, message: replies.FetchedMessages) -> None:
        """Reserved messages; one that fits no frame is left out, or ends the connection."""
        if is_oversized(message.batch):
            if self._skips:
                self._skipped += len(message.batch)
            else:
                self.refused(CODE, oversized_text(self._queue, message.first, message.batch), close=True)
            return
        self._client.send(
            wire.Fetched(
                request,
                message.position,
                message.first,
                message.enqueued_us,
                message.delivery_count,
                message.possibly_replayed,
                message.batch,
                *(message.published or ()),
            )
        )

    def fetch_ended(self, request: int, messages: int) -> None:
        """A fetch is complete."""
        skipped, self._skipped = self._skipped, 0
        self._client.send(wire.FetchEnd(request, messages - skipped))


def _checked(what: str, text: str | None) -> str | None:
    if text is not None and len(text.encode(errors="replace")) > MAX_REASON_BYTES:
        raise RemoteProtocolError(f"NACK: {what} of more than {MAX_REASON_BYTES} bytes")
    return text


def _seconds(ms: int, what: str) -> float:
    if ms > wire.MAX_EXTENSION_MS:
        raise RemoteProtocolError(f"{what} is {ms}; at most {wire.MAX_EXTENSION_MS} (12 hours) can be asked for")
    return ms / 1000


def _subscription_options(hello: wire.Hello) -> SubscriptionOptions:
    options = hello.options
    mode = options.get("mode", "own")
    name = "" if mode == "browse" else options.get("subscription")
    epoch = options.get("epoch")
    starting = options.get("starting", "earliest")
    timeout_ms = options.get("owner_timeout_ms")
    take_over, must_exist = options.get("take_over", False), options.get("must_exist", False)
    if not isinstance(name, str):
        raise RemoteProtocolError("HELLO: a subscription needs the option subscription, its name")
    if mode != "browse":
        check_name(name, "subscription")
    for value, allowed, what in (
        (mode, ("own", "read", "browse"), "mode"),
        (starting, ("earliest", "latest"), "starting"),
    ):
        if value not in allowed:
            raise RemoteProtocolError(f"HELLO: {what} is {wire.brief(value)}, not one of {', '.join(allowed)}")
    for number, what in ((epoch, "epoch"), (timeout_ms, "owner_timeout_ms")):
        if number is not None and not is_uint(number):
            raise RemoteProtocolError(f"HELLO: {what} is {wire.brief(number)}, not a number of zero or more")
    for flag, what in ((take_over, "take_over"), (must_exist, "must_exist")):
        if not isinstance(flag, bool):
            raise RemoteProtocolError(f"HELLO: {what} is {wire.brief(flag)}, neither true nor false")
    timeout = None if timeout_ms is None else timeout_ms / 1000
    return SubscriptionOptions(name, mode, epoch, starting, timeout, take_over, hello.client_id or "", must_exist)
