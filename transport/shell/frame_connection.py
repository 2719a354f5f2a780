"""A connection that carries Penstock's own protocol."""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from transport.shell.connection import Connection
from transport.shell.connection_handler import ConnectionHandler
from transport.shell.partial_frames import PartialFrames, PartialRoom
from transport.shell.turns import Turns
from transport.shell.unsent import UnsentTotal
from transport.wire.frame_protocol import FrameProtocol
from transport.wire.liveness import DEFAULT_HEARTBEAT
from transport.wire.messages import Frame
from transport.wire.protocol import Protocol

FrameConnection: TypeAlias = Connection[Frame]


def frame_connection(
    states: Protocol,
    handler: ConnectionHandler[Frame],
    loop: asyncio.AbstractEventLoop,
    heartbeat: float = DEFAULT_HEARTBEAT,
    turns: Turns | None = None,
    partial: PartialFrames | None = None,
    unsent: UnsentTotal | None = None,
) -> FrameConnection:
    """A connection whose state machine is ``states``; the rest as of `Connection`.

    ``partial`` is shared by all connections whose frames that are not complete are bounded together; not bounded by default.
    """
    protocol = FrameProtocol(states, heartbeat)
    connection = Connection(protocol, handler, loop, heartbeat, turns, unsent)
    if partial is not None:
        protocol.receiver.keep_in(PartialRoom(partial, connection))
    return connection
