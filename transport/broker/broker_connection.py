"""The broker's end of one connection: who it is, the handshake, then frames to its actor and the actor's words to frames.

Each role has a port: it starts the connection's actor, translates what the client says for it, and writes what it answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from pykka import ActorDeadError

from actors import CaughtUp, InboxOverflowError, LoopActorRef, StorageError, Writable
from transport.broker.authentication import Authentication
from transport.broker.listener import Host, Listener
from transport.broker.operations import Operations
from transport.broker.port import Client, Port
from transport.broker.receiving_ports import ReceivingPort, SubscribingPort
from transport.broker.sending_ports import AdministrationPort, SendingPort, TransactionPort
from transport.errors import (
    AuthenticationError,
    AuthenticationRequiredError,
    LimitExceededError,
    PeerTimeoutError,
    RemoteProtocolError,
    UnreadError,
)
from transport.security.principal import Principal
from transport.security.subject import subject_of
from transport.wire import messages as wire
from transport.wire.exchange_named import read_target
from transport.wire.frame_protocol import FrameProtocol
from transport.wire.liveness import DEFAULT_HEARTBEAT, SILENT_INTERVALS
from transport.wire.protocol import RECEIVING_ROLES, SENDING_ROLES, Protocol, Side, State
from transport.wire.queue_named import with_queue
from transport.wire.shown import shown

ATTACH_SECONDS = 10.0
"""Beside what the client has: for the queue to answer, which may have much to read from the disk first."""
LEAST_SIGN_SECONDS = 0.1
"""More often nobody is told that this side is there, who waits for WELCOME."""

logger = logging.getLogger("penstock.broker")

PortMaker = Callable[[Operations, Client, wire.Hello], Port]
PORTS: dict[str, PortMaker] = {
    "sender": SendingPort,
    "transaction": TransactionPort,
    "receiver": ReceivingPort,
    "subscription": SubscribingPort,
    "admin": AdministrationPort,
}
"""What each role's port is made by."""

_OF_NO_ROLE = frozenset({wire.Error, wire.Pong})
"""Frames of every role that mean the same in each."""


class BrokerConnection(Client):
    """Handler of one accepted connection that carries frames.

    Args:
        host: what the broker gives.
        states: the connection's state machine.
        known: who it is known to be before it says HELLO; None where HELLO is to say it.
    """

    def __init__(self, host: Host, states: Protocol, known: Principal | None = None) -> None:
        super().__init__(host.connections, host.greeting, states, host.loop.time())
        self._door = host.operations
        self._loop = host.loop
        self._entrance = host.entrance
        # Until it is let in: what it has shown is not kept.
        self._authentication: Authentication | None = Authentication(
            lambda: host.entrance.users, host.entrance.now, known
        )
        self._waits: asyncio.TimerHandle | None = None
        self._signs: asyncio.TimerHandle | None = None
        self._hello: wire.Hello | None = None
        self._port: Port | None = None

    # ConnectionHandler

    def event_received(self, event: wire.Frame, work: int) -> None:
        """HELLO opens; everything else is the role's."""
        port = self._port
        if port is None or type(event) in _OF_NO_ROLE:
            self._not_for_the_role(event)
            return
        try:
            port.received(event)
            if self.actor is not None and self._under_way.add(work):
                self._much_under_way(self.actor)
        except InboxOverflowError as error:
            raise LimitExceededError(f"more requests than this connection may have waiting: {error}") from error
        except ActorDeadError:
            # Its actor has failed and is about to say so, or the broker is closing.
            self.refused("internal-error", "this connection's actor has stopped; connect again")

    def drain(self) -> None:
        """Answer what the client has said, what is on its way included, and end."""
        port = self._port
        if port is None or self._states.state is not State.OPEN:
            super().drain()
            return
        try:
            port.drain()
        except (ActorDeadError, InboxOverflowError):
            # It ends already, or will never have a moment for it.
            super().drain()
        else:
            self.ask_for_a_sign()

    def owes_nothing(self) -> bool:
        """As the port says."""
        return self._port is None or not self._port.owes

    def writable_changed(self, writable: bool) -> None:
        """Back-pressure from the socket reaches the actor that publishes."""
        if self.actor is not None and self.role in ("receiver", "subscription") and self.actor.is_alive():
            self.actor.tell(Writable(writable))

    def welcome(self, options: wire.Options) -> None:
        """As `Client.welcome`; from now on the heartbeat is what says that this side is there."""
        self._end_signs()
        super().welcome(options)

    def not_leading(self, text: str, leader: str) -> None:
        """As `Served.not_leading`; its client goes there by itself."""
        self._states.leader = leader
        self.refused(wire.NOT_LEADER, text)

    def connection_ending(self, error: Exception | None) -> None:
        """Stop the actor without waiting for the peer to take its leave, and tell the port."""
        super().connection_ending(error)
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None
        self._end_signs()
        if self._port is not None:
            self._port.ended()

    def connection_closed(self, error: Exception | None) -> None:
        """Stop the actor and forget the connection."""
        if isinstance(error, UnreadError):
            # Cut without a word to the client, which would not read it.
            peer = self._peer
            who = (
                f"{self.role} {shown(self.client_id or '')!r} of queue {shown(self.queue)!r}"
                if self.queue
                else f"{self.role}"
            )
            logger.warning("the connection of the %s from %s is cut: %s", who, peer, error, extra={"peer": peer})
        super().connection_closed(error)
        self._port = None

    def _not_for_the_role(self, frame: wire.Frame) -> None:
        if isinstance(frame, wire.Hello | wire.Auth):
            self._introduce(frame)
        elif isinstance(frame, wire.Error):
            self.finished()
        elif isinstance(frame, wire.Pong):
            self.heard_out()
        else:
            raise RemoteProtocolError(f"{type(frame).__name__.upper()} came before WELCOME")

    def _much_under_way(self, actor: LoopActorRef[Any]) -> None:
        if self._under_way.mark():
            actor.tell(CaughtUp())
        if self._under_way.full:
            self.hold()

    def _introduce(self, frame: wire.Hello | wire.Auth) -> None:
        """Hear who it is, at once or, where the peer's address has failed too often, after a while."""
        assert self.connection is not None, "it stands"
        assert self._authentication is not None, "the protocol lets nobody in twice"
        options = frame.options if isinstance(frame, wire.Hello) else None
        wait = self._entrance.wait(self.connection.peer) if self._authentication.decides(options) else 0.0
        if not wait:
            self._judge(frame)
            return
        self.hold()
        self.connection.more_time(wait)
        self._waits = self._loop.call_later(wait, self._waited, frame)

    def _waited(self, frame: wire.Hello | wire.Auth) -> None:
        self._waits = None
        try:
            self._judge(frame)
        except Exception as error:  # noqa: BLE001 - as the shell does with what it hands over
            self.failed(error)
        else:
            self.go_on()

    def _judge(self, frame: wire.Hello | wire.Auth) -> None:
        """Whoever has shown who they are is let in."""
        proof = self._authentication
        assert proof is not None, "as above"
        try:
            if isinstance(frame, wire.Hello):
                self._hello = frame
                principal = proof.hello(frame.options, self._subject)
            else:
                answer, principal = proof.answer(frame.data)
                self.send(wire.Auth(answer))
        except AuthenticationError:
            self._entrance.failed(self._peer, proof.name, proof.certificate)
            raise
        except AuthenticationRequiredError:
            self._entrance.nothing_shown(self._peer)
            raise
        if principal is not None:
            try:
                self._open(principal)
            except StorageError as error:
                self.refused("journal-failed", f"the broker can store nothing any more and stops: {error}")

    @property
    def _peer(self) -> str:
        return "?" if self.connection is None else self.connection.peer

    def _subject(self) -> str | None:
        return None if self.connection is None else subject_of(self.connection.certificate)

    def _open(self, principal: Principal) -> None:
        hello, self._hello, self._authentication = self._hello, None, None
        assert hello is not None, "it comes first"
        self.opened()
        if self._entrance.bars(self, hello):
            return
        if self.connection is not None:
            # The client has said what it has to: until WELCOME it is for the broker to be quick.
            self.connection.more_time(ATTACH_SECONDS)
            if (seconds := _seconds_of_a_sign(hello.options)) is not None:
                self._sign_in(seconds)
        operations = self._door(principal)
        self.operations = operations
        hello, _ = with_queue(hello)
        self.role = hello.role
        self.queue = hello.queue
        if hello.queue is None and (to := read_target(hello)) is not None:
            self.exchange = to.exchange
        self.client_id = hello.client_id
        if self.connection is not None:
            operations.peer = self.connection.peer
        operations.number = self.number
        self._port = PORTS[hello.role](operations, self, hello)
        self.actor = self._port.actor

    def _sign_in(self, seconds: float) -> None:
        self._signs = self._loop.call_later(seconds, self._give_sign, seconds, self._loop.time())

    def _give_sign(self, seconds: float, since: float) -> None:
        """WELCOME waits, for what it says is not durable yet; the client waits for it as long as it hears of this side."""
        connection = self.connection
        assert connection is not None, "its end ends this too"
        now = self._loop.time()
        if now - connection.heard >= DEFAULT_HEARTBEAT * SILENT_INTERVALS:
            connection.fail(PeerTimeoutError("it has answered no sign, and was not let in yet"))
            return
        self.send(wire.Ping(0))
        # As much as has passed: each timer of a busy loop is late, and what they are late together is not the client's doing.
        connection.more_time(now - since)
        self._sign_in(seconds)

    def _end_signs(self) -> None:
        if self._signs is not None:
            self._signs.cancel()
            self._signs = None


def _seconds_of_a_sign(options: wire.Options) -> float | None:
    """After how many seconds each the client wants a sign until it is answered; None for none."""
    value = options.get(wire.SIGN)
    if value is None:
        return None
    if type(value) is not int or value < 1:
        raise RemoteProtocolError(f"HELLO: {wire.SIGN} is {wire.brief(value)}, and not an integer above zero")
    return max(LEAST_SIGN_SECONDS, value / 1000)


def native_listeners(
    send_address: str, receive_address: str
) -> tuple[Listener[FrameProtocol], Listener[FrameProtocol]]:
    """Where Penstock's own clients connect: to send, and to receive."""
    return _native("send", send_address, SENDING_ROLES), _native("receive", receive_address, RECEIVING_ROLES)


def _native(name: str, address: str, roles: frozenset[str]) -> Listener[FrameProtocol]:
    def protocol() -> FrameProtocol:
        return FrameProtocol(Protocol(Side.BROKER, roles))

    def handler(host: Host, protocol: FrameProtocol) -> BrokerConnection:
        return BrokerConnection(host, protocol.states)

    return Listener(name, address, protocol, handler, protected=True)
