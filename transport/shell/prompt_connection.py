"""The shell of a connection whose peer waits for the acknowledgement of an event's beginning before it writes the rest.

A client that writes a head and its payload apart, and leaves Nagle's algorithm on, has the system keep the payload back until the head is
acknowledged. The system here puts that off, by 40 ms on Linux, for it expects an answer that takes the acknowledgement along. None comes,
for the event is not complete.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any, Final

from transport.shell.connection import Connection, E

_AT_ONCE: Final = getattr(socket, "TCP_QUICKACK", None)
"""Linux has it. It holds for a while only, so it is said again each time."""


class PromptConnection(Connection[E]):
    """As `Connection`; the beginning of an event is acknowledged as it comes."""

    _socket: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio: the connection stands."""
        self._socket = transport.get_extra_info("socket")
        super().connection_made(transport)

    def buffer_updated(self, nbytes: int) -> None:
        """Called by asyncio: ``nbytes`` have arrived."""
        super().buffer_updated(nbytes)
        if self._receiver.mid_event and _AT_ONCE is not None and self._socket is not None:
            with suppress(OSError):
                self._socket.setsockopt(socket.IPPROTO_TCP, _AT_ONCE, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio: the connection is over."""
        self._socket = None
        super().connection_lost(exc)
