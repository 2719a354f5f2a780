"""``connection.blocked``: a client that wants to know hears that it is read no more, and why; and that it is read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from transport.gateways.amqp.connection_methods import ConnectionBlocked, ConnectionUnblocked
from transport.gateways.amqp.errors import short_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from transport.gateways.amqp.method import Method


class BlockedWord:
    """One connection's.

    Args:
        say: says a method of the connection.
        explain: asks a queue that keeps something waiting for its reason, which is told to `explained`; whether there is one.
    """

    def __init__(self, say: Callable[[Method], None], explain: Callable[[], bool]) -> None:
        self._say = say
        self._explain = explain
        # Whether it is read no more, a queue is asked for the reason, and the client is told.
        self._full = self._asks = self._told = False

    def settle(self, full: bool, *, wanted: bool) -> None:
        """Whether the client is read no more, and wants to know."""
        self._full = full
        self._asks &= full
        if full and wanted and not (self._told or self._asks):
            self._asks = self._explain()
        elif self._told and not full:
            self._told = False
            self._say(ConnectionUnblocked())

    def explained(self, reason: str | None) -> None:
        """A queue's reason; None where none keeps it waiting any more."""
        self._asks = False
        if self._full and not self._told and reason is not None:
            self._told = True
            self._say(ConnectionBlocked(reason=short_text(reason)))

    def end(self) -> None:
        """The connection is over: nothing more is told, and it is free at once, for nothing that it knows knows it."""
        self._say, self._explain = _say_nothing, bool


def _say_nothing(_: Method) -> None:
    """Told to nobody."""
