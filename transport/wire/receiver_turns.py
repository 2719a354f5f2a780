"""How HELLO says that a receiver wants to hear whose turn it is. docs/protocol.md, section "Receiving"."""

from __future__ import annotations

from typing import Final

from transport.errors import RemoteProtocolError
from transport.wire.messages import Hello, brief

TURNS: Final = "turns"
"""The option. A broker from before it passes it over, and tells nothing."""


def hears_turns(hello: Hello) -> bool:
    """Whether a receiver is to be told of its turns; raises RemoteProtocolError."""
    told = hello.options.get(TURNS, False)
    if not isinstance(told, bool):
        raise RemoteProtocolError(f"HELLO: {TURNS} is {brief(told)}, neither true nor false")
    return told
