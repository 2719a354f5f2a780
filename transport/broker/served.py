"""The broker's end of one accepted connection, whatever protocol it carries: it counts, is listed, and is told when the broker stops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from transport.broker.connections import RefusalError

if TYPE_CHECKING:
    from actors import LoopActorRef
    from transport.broker.connections import Connections
    from transport.shell.connection import Connection

E = TypeVar("E")


class Served(ABC, Generic[E]):
    """Handler of one accepted connection.

    Args:
        connections: where it counts.
        now: monotonic seconds.
        role: what it is for, where that is known from the start.

    Attributes:
        number: this connection's number in the broker's life.
        role: what it is for, once that is known.
        queue: the queue's name, once it has one.
        client_id: the client's name, if it gave one.
        opened_at: monotonic seconds.
        connection: its shell, while it stands.
        actor: its actor, if it has one; it ends with the connection.
    """

    def __init__(self, connections: Connections[Served[Any]], now: float, role: str | None = None) -> None:
        self._connections = connections
        self.number = connections.accept()
        self.opened_at = now
        self.role = role
        self.queue: str | None = None
        self.client_id: str | None = None
        self.connection: Connection[E] | None = None
        self.actor: LoopActorRef[Any] | None = None

    def connection_opened(self, connection: Connection[E]) -> None:
        """Take the connection in, or say that there are too many."""
        self.connection = connection
        self._connections.add(self)

    @abstractmethod
    def event_received(self, event: E, work: int) -> None:
        """What the client says; an error raised ends the connection with its ``code``; one that has none is a defect of ours."""

    def writable_changed(self, writable: bool) -> None:
        """The client takes less, or again more, than is written to it. Meanwhile nothing more that it says is handled."""

    def connection_ending(self, error: Exception | None) -> None:  # noqa: ARG002 - it comes once more
        """Nothing more is taken or given. Its actor, if it has one, stops, which gives everything back to its queue."""
        if self.actor is not None:
            self.actor.stop_nowait()

    def connection_closed(self, error: Exception | None) -> None:
        """Forget the connection."""
        try:
            self.connection_ending(error)
        finally:
            self._connections.remove(self)
            # Each of them knows this one; without a cycle all are free at once.
            self.connection = self.actor = None

    def refused(self, code: str, text: str) -> None:
        """End the connection with its protocol's last words."""
        if self.connection is not None:
            self.connection.fail(RefusalError(code, text))
