"""What every role's port has: the broker's translation between one connection's frames and its actor's messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors import LoopActorRef
from transport.errors import RemoteProtocolError
from transport.wire import messages as wire

if TYPE_CHECKING:
    from transport.broker.broker_connection import BrokerConnection


class Port:
    """One role's translation; `received` is told only frames that the protocol allows the role."""

    actor: LoopActorRef[Any] | None = None
    _connection: BrokerConnection

    def caught_up(self) -> None:
        """The queue has handled all that came before the last mark."""
        self._connection.caught_up()

    def refused(self, code: str, text: str, close: bool) -> None:
        """Refuse one request, or end the connection."""
        if close:
            self._connection.refused(code, text)
        else:
            self._connection.send(wire.Error(code, text, close=False))

    def received(self, frame: wire.Frame) -> None:
        """Translate what the client says for the actor."""
        raise RemoteProtocolError(f"{type(frame).__name__.upper()} means nothing in this role")

    def ended(self) -> None:
        """The connection is over; the actor is told by itself."""
