"""What every role's port has: the broker's translation between one connection's frames and its actor's messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from actors import LoopActorRef
from actors.queue.vocabulary.replies import Reply
from transport.errors import RemoteProtocolError
from transport.wire import messages as wire
from transport.wire.cumulative import GrantedDemand


class Client(Protocol):
    """The broker's end of a connection, as its role's port sees it."""

    def hold_to(self, granted: GrantedDemand) -> None:
        """What the client sends is refused unseen where it exceeds this."""

    def send(self, frame: wire.Frame) -> None:
        """Write ``frame``."""

    def welcome(self, options: wire.Options) -> None:
        """Answer HELLO; what every role is told is added to ``options``."""

    def refused(self, code: str, text: str) -> None:
        """End the connection with ERROR."""

    def failed(self, error: Exception) -> None:
        """End the connection on a defect of ours, which goes into the log."""

    def finished(self) -> None:
        """The client has said its last word: close in good order."""

    def hold(self) -> None:
        """Handle nothing more of this client, and read nothing, until `go_on`."""

    def go_on(self) -> None:
        """Handle again what the client says."""

    def caught_up(self) -> None:
        """The queue has handled what it had of this client when the last mark was told."""


class Port:
    """One role's translation; `received` is told only frames that the protocol allows the role."""

    actor: LoopActorRef[Any] | None = None

    def __init__(self, client: Client) -> None:
        self._client = client

    def tell(self, reply: Reply) -> None:
        """What the queue says, as frames for the client."""

    def caught_up(self) -> None:
        """The queue has handled all that came before the last mark."""
        self._client.caught_up()

    def refused(self, code: str, text: str, close: bool) -> None:
        """Refuse one request, or end the connection."""
        if close:
            self._client.refused(code, text)
        else:
            self._client.send(wire.Error(code, text, close=False))

    def received(self, frame: wire.Frame) -> None:
        """Translate what the client says for the actor."""
        raise RemoteProtocolError(f"{type(frame).__name__.upper()} means nothing in this role")

    def ended(self) -> None:
        """The connection is over; the actor is told by itself."""


PortMaker = Callable[[Client, wire.Hello], Port]
"""Makes the port of a client that has said HELLO."""
