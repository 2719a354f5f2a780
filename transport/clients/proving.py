"""How a link's connections prove themselves on an event loop: keys that are to be made are made in a thread, one at a time.

What is made is remembered, also where the connection it was for is gone by then: the next one needs the same.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from transport.clients.authentication import Credentials, Exchange, KeysNeededError, unexpected
from transport.wire.messages import Auth, Frame

if TYPE_CHECKING:
    from transport.shell.connection import Connection


class Proving:
    """The exchange of whichever connection is being opened.

    There is no deadline of its own: the connection's handshake has one, and goes on while the thread works.

    Args:
        credentials: of the link.
        loop: where it lives.
    """

    def __init__(self, credentials: Credentials, loop: asyncio.AbstractEventLoop) -> None:
        self._credentials = credentials
        self._loop = loop
        self._connection: Connection[Frame] | None = None
        self._exchange: Exchange | None = None
        # The broker's first message, while keys are made to answer it.
        self._asked: Auth | None = None
        self._deriving: asyncio.Future[None] | None = None

    def begin(self, connection: Connection[Frame]) -> None:
        """HELLO was said on ``connection``: say the first message, if there is an exchange to have."""
        self._asked = None
        self._exchange = exchange = self._credentials.exchange()
        if exchange is not None:
            self._connection = connection
            connection.send(exchange.first)

    def end(self) -> None:
        """The connection is over."""
        self._connection = self._exchange = self._asked = None

    def received(self, frame: Auth) -> None:
        """AUTH has come.

        Raises:
            AuthenticationError: the broker has not proved itself.
            RemoteProtocolError: it did not wait for the answer.
        """
        if self._asked is not None:
            raise unexpected(frame)
        exchange, connection = self._exchange, self._connection
        assert exchange is not None, "without an exchange the protocol allows no AUTH"
        assert connection is not None, "an exchange is of a connection"
        try:
            answer = exchange.received(frame)
        except KeysNeededError as needed:
            self._asked = frame
            # Where those of a connection that is gone are still being made, that comes first.
            if self._deriving is None:
                self._derive(needed)
            return
        if answer is not None:
            connection.send(answer)

    def _derive(self, needed: KeysNeededError) -> None:
        self._deriving = self._loop.run_in_executor(None, self._credentials.derive, needed.salt, needed.iterations)
        self._deriving.add_done_callback(self._derived)

    def _derived(self, deriving: asyncio.Future[None]) -> None:
        self._deriving = None
        failure = None if deriving.cancelled() else deriving.exception()
        frame, self._asked = self._asked, None
        connection = self._connection
        if frame is None or connection is None:
            return
        try:
            if failure is not None:
                raise failure
            self.received(frame)
        except Exception as error:  # noqa: BLE001 - whatever it is ends this connection, as where an event is handled
            connection.fail(error)
