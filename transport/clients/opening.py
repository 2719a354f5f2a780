"""How long a client waits on one connection until the broker lets it in.

Whoever says nothing is soon left where there are others to ask. A broker that says that it is there, and cannot answer yet, is waited for:
a leader of a cluster cannot before it may confirm, and no other broker would answer sooner. docs/protocol.md, "Opening and closing".
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from transport.errors import PeerTimeoutError
from transport.wire.liveness import (
    DEFAULT_HEARTBEAT,
    HANDSHAKE_TIMEOUT,
    LONE_SIGN_SECONDS,
    SIGN_SECONDS,
    SIGNS_MISSED,
    Liveness,
    Verdict,
)
from transport.wire.protocol import State

if TYPE_CHECKING:
    from transport.clients.contacts import Contacts
    from transport.shell.connection import Connection
    from transport.wire.protocol import Protocol

NOTHING_SAID: Final = "the broker said nothing in time"
NOT_LET_IN: Final = (
    "the broker is there, and cannot let anybody in yet, as the leader of a cluster until it may confirm"
)


class Opening:
    """One attempt of a client.

    Args:
        states: the connection's state machine.
        contacts: where the client seeks its broker, and how long it waits for a first word there.
        until: the loop's time at which the client gives up; infinity for never.
        loop: where it lives.

    Attributes:
        sign: seconds after each of which the broker is to give a sign.
    """

    def __init__(self, states: Protocol, contacts: Contacts, until: float, loop: asyncio.AbstractEventLoop) -> None:
        self._states = states
        self._patience = contacts.patience if contacts.several else None
        self._until = until
        self._loop = loop
        self.sign = LONE_SIGN_SECONDS if self._patience is None else SIGN_SECONDS
        self._liveness = Liveness(DEFAULT_HEARTBEAT, loop.time())
        self._liveness.agree(DEFAULT_HEARTBEAT, SIGNS_MISSED * self.sign)
        self._began = self._looked = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def signed(self) -> bool:
        """Whether the broker has said that it is there, and not more."""
        return self._states.signed and self._states.state is State.OPENING

    def begin(self, connection: Connection[Any]) -> None:
        """The connection stands."""
        self._began = self._looked = self._loop.time()
        # As much as any broker has for its answer, at least.
        self._until = max(self._until, self._looked + HANDSHAKE_TIMEOUT)
        self._look_soon(connection)

    def end(self) -> None:
        """The client is let in, or the connection is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, connection: Connection[Any]) -> None:
        now, liveness = self._loop.time(), self._liveness
        if self._patience is not None and not connection.bytes_in and now >= self._began + self._patience:
            connection.abort(PeerTimeoutError(NOTHING_SAID))
            return
        if self.signed:
            liveness.heard = connection.heard
            if liveness.check(now) is Verdict.SILENT:
                connection.abort(PeerTimeoutError(f"silent for {now - liveness.heard:.1f} s, and nobody was let in"))
                return
            if now >= self._until:
                connection.abort(PeerTimeoutError(NOT_LET_IN))
                return
            connection.more_time(now - self._looked)
        self._looked = now
        self._look_soon(connection)

    def _look_soon(self, connection: Connection[Any]) -> None:
        """Each sign has the handshake's time be longer: the first look comes before that is over, however long the patience is."""
        due = self._looked + self.sign
        if self._patience is not None and not connection.bytes_in:
            due = min(due, self._began + self._patience)
        self._timer = self._loop.call_at(due, self._look, connection)
