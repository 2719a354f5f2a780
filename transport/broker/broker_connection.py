"""The broker's end of one connection: the handshake, then frames to its actor and the actor's words to frames.

Each role has a port: it starts the connection's actor, translates what the client says for it, and writes what it answers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pykka import ActorDeadError

from actors import CaughtUp, InboxOverflowError, LoopActorRef, StorageError, Writable
from transport.broker.listener import Host, Listener
from transport.broker.operations import Operations
from transport.broker.port import Client, Greeting, Port
from transport.broker.receiving_ports import ReceivingPort, SubscribingPort
from transport.broker.sending_ports import AdministrationPort, SendingPort, TransactionPort
from transport.broker.served import Connections
from transport.errors import LimitExceededError, RemoteProtocolError, UnreadError
from transport.security.principal import ANYONE
from transport.wire import messages as wire
from transport.wire.frame_protocol import FrameProtocol
from transport.wire.protocol import RECEIVING_ROLES, SENDING_ROLES, Protocol, Side, State
from transport.wire.shown import shown

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
    """Handler of one accepted connection that carries frames; ``operations`` is the door, the rest as of `Client`."""

    def __init__(
        self, operations: Operations, connections: Connections, greeting: Greeting, states: Protocol, now: float
    ) -> None:
        super().__init__(connections, greeting, states, now)
        self._operations = operations
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

    def connection_ending(self, error: Exception | None) -> None:
        """Stop the actor without waiting for the peer to take its leave, and tell the port."""
        super().connection_ending(error)
        if self._port is not None:
            self._port.ended()

    def connection_closed(self, error: Exception | None) -> None:
        """Stop the actor and forget the connection."""
        if isinstance(error, UnreadError):
            # Cut without a word to the client, which would not read it.
            peer = self.connection.peer if self.connection is not None else "?"
            who = (
                f"{self.role} {shown(self.client_id or '')!r} of queue {shown(self.queue)!r}"
                if self.queue
                else f"{self.role}"
            )
            logger.warning("the connection of the %s from %s is cut: %s", who, peer, error, extra={"peer": peer})
        super().connection_closed(error)
        self._port = None

    def _not_for_the_role(self, frame: wire.Frame) -> None:
        if isinstance(frame, wire.Hello):
            try:
                self._open(frame)
            except StorageError as error:
                self.refused("journal-failed", f"the broker can store nothing any more and stops: {error}")
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

    def _open(self, hello: wire.Hello) -> None:
        assert self._states.role is not None, "the protocol has checked HELLO"
        self.role = hello.role
        self.queue = hello.queue
        self.client_id = hello.client_id
        if self.connection is not None:
            self._operations.peer = self.connection.peer
        self._port = PORTS[hello.role](self._operations, self, hello)
        self.actor = self._port.actor


def native_listeners(
    send_address: str, receive_address: str
) -> tuple[Listener[FrameProtocol], Listener[FrameProtocol]]:
    """Where Penstock's own clients connect: to send, and to receive."""
    return _native("send", send_address, SENDING_ROLES), _native("receive", receive_address, RECEIVING_ROLES)


def _native(name: str, address: str, roles: frozenset[str]) -> Listener[FrameProtocol]:
    def protocol() -> FrameProtocol:
        return FrameProtocol(Protocol(Side.BROKER, roles))

    def handler(host: Host, protocol: FrameProtocol) -> BrokerConnection:
        return BrokerConnection(
            host.operations(ANYONE), host.connections, host.greeting, protocol.states, host.loop.time()
        )

    return Listener(name, address, protocol, handler)
