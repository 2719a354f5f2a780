"""The broker's end of one connection: the handshake, then frames to its actor and the actor's words to frames.

Each role has a port: it starts the connection's actor, translates what the client says for it, and writes what it answers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pykka import ActorDeadError

from actors import (
    Acknowledged,
    CaughtUp,
    CommitRequested,
    DemandSignalled,
    DemandWithdrawn,
    Extended,
    FetchedMessages,
    FetchRequested,
    InboxOverflowError,
    Left,
    LoopActorRef,
    MessagesReserved,
    ReceivedMessages,
    ReceiveFromQueuePublisher,
    Rejected,
    ReservationCommitted,
    ReserveRequested,
    StorageError,
    SubscriptionOpened,
    SubscriptionOptions,
    SubscriptionPublisher,
    Writable,
)
from transport.broker.port import Port
from transport.broker.sending_ports import AdministrationPort, SendingPort, TransactionPort
from transport.broker.under_way import UnderWay
from transport.errors import BrokerError, LimitExceededError, RemoteProtocolError, UnreadError
from transport.wire import messages as wire
from transport.wire.cumulative import CumulativeDemand, GrantedDemand
from transport.wire.field_checks import is_uint_or_nil
from transport.wire.frames import MAX_FRAME_BYTES
from transport.wire.names import check_name
from transport.wire.protocol import Protocol

if TYPE_CHECKING:
    from transport.broker.broker import Broker
    from transport.shell.connection import FrameConnection

MAX_WAIT_MS = 10_000

logger = logging.getLogger("penstock.broker")


class RefusalError(BrokerError):
    """An actor's refusal on its way to the client; the text goes as it is."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(code, text)
        self.args = (text,)


class BrokerConnection:
    """Handler of one accepted connection.

    Attributes:
        number: this connection's number in the broker's life.
        role: the role, once HELLO has named it.
        queue: the queue's name, once HELLO has named it.
        client_id: the client's name, if it gave one.
        opened_at: monotonic seconds.
        actor: the connection's actor, once there is one.
    """

    def __init__(self, broker: Broker, protocol: Protocol, number: int, now: float) -> None:
        self._broker = broker
        self._protocol = protocol
        self.number = number
        self.opened_at = now
        self.role: str | None = None
        self.queue: str | None = None
        self.client_id: str | None = None
        self.connection: FrameConnection | None = None
        self.actor: LoopActorRef[Any] | None = None
        self._port: Port | None = None
        self._under_way = UnderWay()

    # ConnectionHandler

    def connection_opened(self, connection: FrameConnection) -> None:
        """Take the connection in, or say that there are too many."""
        self.connection = connection
        self._broker.add_connection(self)

    def frame_received(self, frame: wire.Frame, work: int) -> None:
        """HELLO opens; everything else is the role's."""
        port = self._port
        if port is None or type(frame) is wire.Error:
            self._not_for_the_role(frame)
            return
        try:
            port.received(frame)
            if self.actor is not None and self._under_way.add(work):
                self._much_under_way(self.actor)
        except InboxOverflowError as error:
            raise LimitExceededError(f"more requests than this connection may have waiting: {error}") from error
        except ActorDeadError:
            # Its actor has failed and is about to say so, or the broker is closing.
            self.refused("internal-error", "this connection's actor has stopped; connect again")

    def caught_up(self) -> None:
        """The queue has handled what it had of this client when the mark was sent: go on."""
        if self._under_way.handled() and self.actor is not None and self.actor.is_alive():
            self.actor.tell(CaughtUp())
        if not self._under_way.full:
            self.go_on()

    def hold(self) -> None:
        """Handle nothing more of this client, and read nothing, until `go_on`."""
        if self.connection is not None:
            self.connection.pause_reading()

    def go_on(self) -> None:
        """Handle again what the client says."""
        if self.connection is not None:
            self.connection.resume_reading()

    def writable_changed(self, writable: bool) -> None:
        """Back-pressure from the socket reaches the actor that publishes."""
        if self.actor is not None and self.role in ("receiver", "subscription") and self.actor.is_alive():
            self.actor.tell(Writable(writable))

    def connection_ending(self) -> None:
        """Stop the actor, which gives everything back to its queue, without waiting for the peer to take its leave."""
        if self.actor is not None:
            self.actor.stop_nowait()
        if self._port is not None:
            self._port.ended()

    def connection_closed(self, error: Exception | None) -> None:
        """Stop the actor and forget the connection."""
        if isinstance(error, UnreadError):
            # Cut without a word to the client, which would not read it.
            peer = self.connection.peer if self.connection is not None else "?"
            who = f"{self.role} {self.client_id!r} of queue {self.queue!r}" if self.queue else f"{self.role}"
            logger.warning("the connection of the %s from %s is cut: %s", who, peer, error)
        self.connection_ending()
        self._broker.remove_connection(self)
        # Each of them knows this one; without a cycle all are free at once.
        self.connection = self._port = self.actor = None

    # For the ports

    def hold_to(self, granted: GrantedDemand) -> None:
        """What the client sends is refused unseen where it exceeds this."""
        self._protocol.granted = granted

    def send(self, frame: wire.Frame) -> None:
        """Write ``frame``."""
        if self.connection is not None:
            self.connection.send(frame)

    def welcome(self, options: wire.Options) -> None:
        """Answer HELLO; what every role is told is added to ``options``."""
        config = self._broker.config
        options |= {"max_frame": MAX_FRAME_BYTES, "heartbeat_ms": max(1, round(config.heartbeat * 1000))}
        self.send(wire.Welcome(wire.VERSION, self._broker.epoch, options))

    def refused(self, code: str, text: str) -> None:
        """End the connection with ERROR."""
        if self.connection is not None:
            self.connection.fail(RefusalError(code, text))

    def failed(self, error: Exception) -> None:
        """End the connection on a defect of ours, which goes into the log."""
        if self.connection is not None:
            self.connection.fail(error)

    def finished(self) -> None:
        """The client has said its last word: close in good order."""
        if self.connection is not None:
            self.connection.close()

    def _not_for_the_role(self, frame: wire.Frame) -> None:
        if isinstance(frame, wire.Hello):
            try:
                self._open(frame)
            except StorageError as error:
                self.refused("journal-failed", f"the broker can store nothing any more and stops: {error}")
        elif isinstance(frame, wire.Error):
            if self.connection is not None:
                self.connection.close()
        else:
            raise RemoteProtocolError(f"{type(frame).__name__.upper()} came before WELCOME")

    def _much_under_way(self, actor: LoopActorRef[Any]) -> None:
        if self._under_way.mark():
            actor.tell(CaughtUp())
        if self._under_way.full:
            self.hold()

    def _open(self, hello: wire.Hello) -> None:
        assert self._protocol.role is not None, "the protocol has checked HELLO"
        self.role = hello.role
        self.queue = hello.queue
        self.client_id = hello.client_id
        self._port = PORTS[hello.role](self, self._broker, hello)
        self.actor = self._port.actor


class ReceivingPort(Port):
    """Role ``receiver``."""

    def __init__(self, connection: BrokerConnection, broker: Broker, hello: wire.Hello) -> None:
        self._connection = connection
        name = hello.queue or ""
        self._demand = CumulativeDemand()
        queue = broker.queues.get_or_create(name)
        # Of the queue that is there now: when it answers, another may have its name, or none.
        self._visibility_timeout = broker.queues.settings_of(name).visibility_timeout
        self._id_prefix = broker.id_prefix(name)
        self.actor = ReceiveFromQueuePublisher.start(queue, self)

    def received(self, frame: wire.Frame) -> None:
        """REQUEST, ACK, NACK, EXTEND, CANCEL."""
        assert self.actor is not None
        match frame:
            case wire.Ack():
                self.actor.tell(Acknowledged(frame.ranges, self.actor))
            case wire.Request(messages=0, bytes=0) if self._demand.messages:
                self.actor.tell(DemandWithdrawn())
            case wire.Request():
                self.actor.tell(DemandSignalled(*self._demand.growth(frame.messages, frame.bytes)))
            case wire.Nack():
                self.actor.tell(Rejected(frame.ranges, _seconds(frame.delay_ms, "delay_ms"), frame.failed, self.actor))
            case wire.Extend():
                self.actor.tell(Extended(frame.ranges, _seconds(frame.ms, "ms"), self.actor))
            case wire.Cancel():
                self.actor.tell(Left(frame.failed))
                self._connection.finished()

    def attached(self, waiting: bool) -> None:
        """The queue knows the receiver; ``waiting`` behind another, where the queue is exclusive."""
        visibility_ms = round(self._visibility_timeout * 1000)
        self._connection.welcome(
            {"visibility_timeout_ms": visibility_ms, "id_prefix": self._id_prefix, "waiting": waiting}
        )

    def deliver(self, message: ReceivedMessages) -> None:
        """Messages for the client."""
        self._connection.send(
            wire.Deliver(
                message.first, message.enqueued_us, message.delivery_count, message.possibly_replayed, message.batch
            )
        )


class SubscribingPort(Port):
    """Role ``subscription``, and its mode ``browse``, which has none."""

    def __init__(self, connection: BrokerConnection, broker: Broker, hello: wire.Hello) -> None:
        self._connection = connection
        name = hello.queue or ""
        self._demand = CumulativeDemand()
        options = _subscription_options(hello)
        self._created = name not in broker.queues
        if not options.may_make_queue:
            broker.queues.get(name)
        queue = broker.queues.get_or_create(name)
        self._id_prefix = broker.id_prefix(name)
        self.actor = SubscriptionPublisher.start(queue, options, self)

    def received(self, frame: wire.Frame) -> None:
        """RESERVE, COMMIT, FETCH, REQUEST, CANCEL."""
        assert self.actor is not None
        match frame:
            case wire.Reserve():
                wait = _seconds(min(frame.wait_ms, MAX_WAIT_MS), "wait_ms")
                self.actor.tell(
                    ReserveRequested(frame.request, frame.start, frame.messages, frame.bytes, wait, frame.below)
                )
            case wire.Commit():
                self.actor.tell(CommitRequested(frame.request, frame.position))
            case wire.Fetch():
                self.actor.tell(FetchRequested(frame.request, frame.start, frame.stop))
            case wire.Request():
                self.actor.tell(DemandSignalled(*self._demand.growth(frame.messages, frame.bytes)))
            case wire.Cancel():
                self._connection.finished()

    def opened(self, message: SubscriptionOpened) -> None:
        """The subscription is open."""
        facts = {
            "epoch": message.epoch,
            "base": message.base,
            "high": message.high,
            "high_water": message.high_water,
            "id_prefix": self._id_prefix,
            "created": self._created,
        }
        self._connection.welcome(facts)

    def reserved(self, message: MessagesReserved) -> None:
        """The answer to RESERVE."""
        self._connection.send(wire.Reserved(message.request, message.end, dict(message.facts)))

    def committed(self, message: ReservationCommitted) -> None:
        """The answer to COMMIT."""
        self._connection.send(wire.Committed(message.request, message.base))

    def fetched(self, request: int, message: FetchedMessages) -> None:
        """Reserved messages."""
        self._connection.send(
            wire.Fetched(
                request,
                message.position,
                message.first,
                message.enqueued_us,
                message.delivery_count,
                message.possibly_replayed,
                message.batch,
            )
        )

    def fetch_ended(self, request: int, messages: int) -> None:
        """A fetch is complete."""
        self._connection.send(wire.FetchEnd(request, messages))


PORTS: dict[str, Callable[[BrokerConnection, Any, wire.Hello], Port]] = {
    "sender": SendingPort,
    "transaction": TransactionPort,
    "receiver": ReceivingPort,
    "subscription": SubscribingPort,
    "admin": AdministrationPort,
}


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
        if not is_uint_or_nil(number):
            raise RemoteProtocolError(f"HELLO: {what} is {wire.brief(number)}, not a number of zero or more")
    for flag, what in ((take_over, "take_over"), (must_exist, "must_exist")):
        if not isinstance(flag, bool):
            raise RemoteProtocolError(f"HELLO: {what} is {wire.brief(flag)}, neither true nor false")
    timeout = None if timeout_ms is None else timeout_ms / 1000
    return SubscriptionOptions(name, mode, epoch, starting, timeout, take_over, hello.client_id or "", must_exist)
