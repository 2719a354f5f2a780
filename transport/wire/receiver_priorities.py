"""How HELLO says a receiver's priority, and WELCOME that it counts. docs/protocol.md, section "Receiving"."""

from __future__ import annotations

from typing import Any, Final

from transport.errors import LocalProtocolError, RemoteProtocolError
from transport.wire.messages import Hello, brief

PRIORITY: Final = "priority"
"""The option of both. A broker from before it has receivers take turns, and says nothing of it in WELCOME."""
LEAST: Final = -(1 << 63)
MOST: Final = (1 << 63) - 1
"""What a priority can be, as in AMQP's ``x-priority``."""


def is_priority(value: Any) -> bool:
    """Whether a receiver can have it."""
    return type(value) is int and LEAST <= value <= MOST


def checked_priority(value: Any) -> int:
    """What a program gives as a receiver's priority; raises LocalProtocolError."""
    if not is_priority(value):
        raise LocalProtocolError(f"priority is {value!r:.40}; it is a whole number of 64 bits")
    return int(value)


def priority_of(hello: Hello) -> int:
    """The priority that a receiver asks for, 0 where it says none; raises RemoteProtocolError where none can be so."""
    priority = hello.options.get(PRIORITY, 0)
    if not is_priority(priority):
        raise RemoteProtocolError(f"HELLO: {PRIORITY} is {brief(priority)}, not a whole number of 64 bits")
    return int(priority)
