"""What a connection tells its owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from transport.shell.connection import Connection

E = TypeVar("E")


class ConnectionHandler(Protocol[E]):
    """All of it is called on the loop's thread."""

    def connection_opened(self, connection: Connection[E]) -> None:
        """The TCP connection stands."""

    def event_received(self, event: E, work: int) -> None:
        """An event that the protocol allows here, and its work; a `TransportError` raised ends the connection with its code."""

    def writable_changed(self, writable: bool) -> None:
        """The socket takes less, or again more, than is written to it."""

    def connection_ending(self, error: Exception | None) -> None:
        """Nothing more is taken or given, because of ``error`` if of any; the last words may still be on their way to the peer."""

    def connection_closed(self, error: Exception | None) -> None:
        """It is over; ``error`` is None when this side or the peer closed it in good order. Comes once."""
