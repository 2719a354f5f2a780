"""A client's connection that carries Penstock's own protocol."""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from transport.shell.connection import Connection
from transport.shell.connection_handler import ConnectionHandler
from transport.wire.frame_protocol import FrameProtocol
from transport.wire.messages import Frame
from transport.wire.protocol import Protocol

FrameConnection: TypeAlias = Connection[Frame]


def frame_connection(
    states: Protocol, handler: ConnectionHandler[Frame], loop: asyncio.AbstractEventLoop
) -> FrameConnection:
    """A connection whose state machine is ``states``, and which shares nothing with others."""
    return Connection(FrameProtocol(states), handler, loop)
