"""How a connection ends: what the peer is told of it, and how long it has to read that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from transport.errors import forget_variables
from transport.wire.carried import CarriedProtocol
from transport.wire.receiving import Part

if TYPE_CHECKING:
    from transport.shell.turns import Endings

LINGER = 2.0
"""Seconds that a refused peer has to read why; closing at once would reset the connection and destroy what tells it."""
CLOSE_TIMEOUT = 5.0
"""Seconds that what is written last has to leave; then the connection is aborted."""

logger = logging.getLogger("penstock.transport")


def last_words(protocol: CarriedProtocol[Any], error: Exception, peer: str) -> Sequence[Part]:
    """What ``peer`` is told of the ``error`` that ends its connection, whose traceback is dropped; a defect of ours is logged."""
    code = getattr(error, "code", None)
    if code is None:
        logger.error("connection from %s ends on a defect of ours", peer, exc_info=error)
        code = "internal-error"
    # While the peer is waited for, nothing of what it said is kept: a traceback has every variable on the way.
    forget_variables(error)
    try:
        return protocol.last_words(code, str(error))
    except Exception:
        logger.exception("there are no last words for the peer %s", peer)
        return ()


def end_writing(transport: asyncio.Transport, told: bool) -> None:
    """End this side of the connection, and leave the peer its own: it may have said something that nobody reads any more.

    TLS has no half of a connection. There a peer that was ``told`` why is left to end it, for at once would reset what tells it;
    one that was told nothing waits for nothing.
    """
    try:
        transport.write_eof()
    except NotImplementedError:
        if not told:
            transport.close()
    except OSError:
        # The peer has reset the connection: there is nobody to linger for.
        transport.abort()


def end_later(transport: asyncio.Transport, endings: Endings) -> bool:
    """What ``eof_received`` returns: whether the transport stays open, takes nothing more, and is closed in a turn to come.

    One of TLS is closed whatever it is told here.
    """
    return transport.get_extra_info("sslcontext") is None and endings.wait(transport.close)


def leave_no_cycle(transport: asyncio.BaseTransport | None) -> None:
    """Have a transport that is over be freed when nobody has it any more: asyncio's keeps methods of its own in itself.

    Without it only a look among all objects finds them, of which there is one in hours (`transport.broker.memory`).
    """
    kept = getattr(transport, "__dict__", {})
    for name in ("_read_ready_cb", "_write_ready"):
        if name in kept:
            kept[name] = _over


def _over(*_: object) -> None:
    """Nothing is read and nothing written any more."""
