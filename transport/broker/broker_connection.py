"""The broker's end of one connection: the handshake, then frames to its actor and the actor's words to frames.

Each role has a port: it starts the connection's actor, translates what the client says for it, and writes what it answers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pykka import ActorDeadError

from actors import CaughtUp, InboxOverflowError, LoopActorRef, StorageError, Writable
from transport.broker.connections import Connections, RefusalError
from transport.broker.port import Port, PortMaker
from transport.broker.under_way import UnderWay
from transport.errors import LimitExceededError, RemoteProtocolError, UnreadError
from transport.wire import messages as wire
from transport.wire.cumulative import GrantedDemand
from transport.wire.protocol import Protocol

if TYPE_CHECKING:
    from transport.shell.connection import FrameConnection

logger = logging.getLogger("penstock.broker")


Greeting = Callable[[wire.Options], wire.Welcome]
"""Makes WELCOME of what a role is told: every role is told more."""


class BrokerConnection:
    """Handler of one accepted connection, and the `Client` that its port sees.

    Args:
        connections: where it counts.
        ports: what each role's port is made by.
        greeting: makes WELCOME.
        protocol: its state.
        now: monotonic seconds.

    Attributes:
        number: this connection's number in the broker's life.
        role: the role, once HELLO has named it.
        queue: the queue's name, once HELLO has named it.
        client_id: the client's name, if it gave one.
        opened_at: monotonic seconds.
        actor: the connection's actor, once there is one.
    """

    def __init__(
        self,
        connections: Connections[BrokerConnection],
        ports: Mapping[str, PortMaker],
        greeting: Greeting,
        protocol: Protocol,
        now: float,
    ) -> None:
        self._connections = connections
        self._ports = ports
        self._greeting = greeting
        self._protocol = protocol
        self.number = connections.accept()
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
        self._connections.add(self)

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

    def connection_ending(self, error: Exception | None) -> None:  # noqa: ARG002 - it comes once more
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
        self.connection_ending(error)
        self._connections.remove(self)
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
        self.send(self._greeting(options))

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
        self._port = self._ports[hello.role](self, hello)
        self.actor = self._port.actor
