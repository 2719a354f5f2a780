"""What the transports of event loops do differently, made alike: asyncio's of every version, and uvloop's.

The contract is held by tests/transport/test_event_loops.py, on each loop and each Python.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from transport.errors import ConnectionLostError

if TYPE_CHECKING:
    import ssl

SMALL_PARTS = 16
"""So many parts are written as they are, whatever their size: what they take beside their bytes does not matter."""
SMALL_PART_BYTES = 1024
"""Bytes of a part that is large enough on the average: what it takes beside them, 150 bytes in uvloop, does not matter either."""


class Connectable(asyncio.BufferedProtocol):
    """A protocol that `connect` can connect. Its ``connection_lost`` may be called twice, and then does nothing the second time.

    Attributes:
        made: whether it was ever told of a connection.
    """

    made: bool = False

    def give_up(self, error: Exception) -> None:
        """The attempt is over, and so is the connection that was made meanwhile."""
        self.connection_lost(error)


@dataclass(frozen=True, slots=True)
class ClientTls:
    """How one connection speaks TLS.

    Attributes:
        context: with what; made once for many connections.
        server_name: the name that the peer's certificate must have.
        handshake_timeout: seconds.
        shutdown_timeout: seconds for the peer's answer to the end of TLS.
    """

    context: ssl.SSLContext
    server_name: str
    handshake_timeout: float
    shutdown_timeout: float


async def connect(
    protocol: Connectable,
    host: str,
    port: int,
    seconds: float,
    loop: asyncio.AbstractEventLoop,
    tls: ClientTls | None = None,
) -> None:
    """Connect ``protocol`` to ``host`` and ``port`` within ``seconds``, for all of the host's addresses, and TLS, together.

    Each attempt has one end. Where this raises OSError, TimeoutError or UnicodeError, no connection was made. One that was made ends with
    ``connection_lost``. That holds also if time is up, or the task cancelled, between ``connection_made`` and the task's next step. There
    asyncio's loop closes it and says so later; uvloop closes it and tells nobody.
    """
    try:
        async with asyncio.timeout(seconds):
            if tls is None:
                await loop.create_connection(lambda: protocol, host, port)
            else:
                await loop.create_connection(
                    lambda: protocol,
                    host,
                    port,
                    ssl=tls.context,
                    server_hostname=tls.server_name,
                    ssl_handshake_timeout=tls.handshake_timeout,
                    ssl_shutdown_timeout=tls.shutdown_timeout,
                )
    except BaseException as error:
        if not protocol.made:
            raise
        protocol.give_up(ConnectionLostError("given up as it was made"))
        if not isinstance(error, Exception):
            raise


def write_parts(
    transport: asyncio.Transport, parts: Sequence[bytes | bytearray | memoryview], size: int, high: int
) -> int:
    """Write ``parts``, of ``size`` bytes together, in order, and return how many bytes wait.

    Above ``high`` of them the protocol is told to pause writing. Each part is a view of bytes and none is empty: asyncio counts
    what has left by ``len``, and would wait for ever to write nothing.
    Many small ones are joined. Where the peer does not read, a megabyte of short answers would take ten or more.
    """
    if len(parts) > SMALL_PARTS and size < len(parts) * SMALL_PART_BYTES:
        parts = (b"".join(parts),)
    transport.writelines(parts)
    # In asyncio of 3.12.0 to 3.12.8, 3.13.0 and 3.13.1 writelines never pauses the protocol. Setting the limits looks at them as well.
    unsent = transport.get_write_buffer_size()
    if unsent > high:
        transport.set_write_buffer_limits(high=high)
    return unsent


def peer_of(transport: asyncio.BaseTransport) -> str:
    """The peer's address as text."""
    peer = transport.get_extra_info("peername")
    return f"{peer[0]}:{peer[1]}" if peer else "?"


def pause_reading(transport: asyncio.Transport) -> None:
    """Pause reading, also where it is said to be paused and is not (see `pause_from_the_start`)."""
    if not transport.is_reading():
        transport.resume_reading()
    transport.pause_reading()


def pause_from_the_start(
    transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, is_wanted: Callable[[], bool]
) -> None:
    """Pause reading from within ``connection_made``; ``is_wanted`` tells in the next turn whether it is to stay paused.

    asyncio of 3.11.2 and uvloop begin to read after ``connection_made``, whatever was said in it. So it is said again behind that.
    Where the loop looks at its sockets in between, as uvloop does, one receive may come all the same: the protocol has to take it.
    """
    transport.pause_reading()

    def again() -> None:
        if is_wanted() and not transport.is_closing():
            pause_reading(transport)

    loop.call_soon(again)
