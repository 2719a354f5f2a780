"""What connections of every gateway have in common that are attached to a queue: each is its actor's port too."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeVar

from pykka import ActorDeadError

from actors import InboxOverflowError, QueueError, StorageError
from transport.broker.served import Served
from transport.errors import LimitExceededError

if TYPE_CHECKING:
    from actors.queue.vocabulary.replies import Reply
    from transport.broker.listener import Host
    from transport.broker.operations import Operations
    from transport.security.principal import Principal
    from transport.shell.connection import Connection

logger = logging.getLogger("penstock.broker")

E = TypeVar("E")


class Attached(Served[E]):
    """Handler of a connection that is attached to one queue from its beginning to its end.

    What ends it is told by its protocol's last words, if that has any, and stands in the log in any case.

    Args:
        host: what the broker gives.
        principal: who asks.
        role: what it is for.
        queue: the queue's name.

    Attributes:
        operations: the door, for the principal.
    """

    def __init__(self, host: Host, principal: Principal, role: str, queue: str) -> None:
        super().__init__(host.connections, host.loop.time(), role)
        self.queue = queue
        self._entrance = host.entrance
        self.operations: Operations = host.operations(principal)

    def attach(self) -> None:
        """Begin to use the queue: start the actor."""
        raise NotImplementedError

    def tell(self, reply: Reply) -> None:
        """As `Port.tell`: what the queue says."""
        raise NotImplementedError

    def connection_opened(self, connection: Connection[E]) -> None:
        """Take the connection in; errors as of `Served.connection_opened`, and of the door."""
        super().connection_opened(connection)
        if self._entrance.bars(self):
            return
        self.operations.peer, self.operations.number = connection.peer, self.number
        try:
            self.attach()
        except QueueError as error:
            self.refused(error.code, str(error))
        except StorageError as error:
            self.refused("journal-failed", f"the broker can store nothing any more and stops: {error}")

    def ask(self, *commands: Any) -> None:
        """Have the actor do something for the client.

        Raises:
            LimitExceededError: it, or its queue, has too much to do.
        """
        try:
            for each in commands:
                if self.actor is not None:
                    self.actor.deliver(each)
        except InboxOverflowError as error:
            raise LimitExceededError(f"more requests than may wait: {error}") from error
        except ActorDeadError:
            # It has failed and is about to say so, or the broker is closing.
            self.refused("internal-error", "this connection's actor has stopped")

    def caught_up(self) -> None:
        """As `Port.caught_up`: nobody has asked."""

    def refused(self, code: str, text: str, close: bool = True) -> None:  # noqa: ARG002 - a protocol that can say no more than one thing
        """As `Port.refused`: the connection ends."""
        super().refused(code, text)

    def connection_closed(self, error: Exception | None) -> None:
        """Forget the connection; where it was not the client who ended it, or a broker that stops, the log says why."""
        if self.connection is not None and self.is_news(error):
            logger.warning("the %s from %s is cut off: %s", self.role, self.connection.peer, error)
        super().connection_closed(error)
