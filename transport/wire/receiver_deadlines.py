"""How HELLO asks for leases without a deadline, and how WELCOME says that they have none. docs/protocol.md, section "Receiving"."""

from __future__ import annotations

from typing import Final

from transport.errors import OldBrokerError, RemoteProtocolError
from transport.wire.messages import Hello, brief

WITHOUT_DEADLINE: Final = "no_deadline"
"""HELLO's option: what this receiver gets it holds until it answers or its connection ends."""
VISIBILITY: Final = "visibility_timeout_ms"
"""WELCOME's: how long the receiver has for a message."""
NO_VISIBILITY: Final = 0
"""There, that its messages have no deadline. A broker from before the option says its queue's timeout."""


def wants_deadline(hello: Hello) -> bool:
    """Whether a receiver's messages are to have a deadline.

    Raises:
        RemoteProtocolError: the option is neither true nor false.
    """
    without = hello.options.get(WITHOUT_DEADLINE, False)
    if not isinstance(without, bool):
        raise RemoteProtocolError(f"HELLO: {WITHOUT_DEADLINE} is {brief(without)}, neither true nor false")
    return not without


def old_broker(address: object) -> OldBrokerError:
    """A broker has given deadlines to a receiver that asked for none."""
    return OldBrokerError(
        f"the broker at {address} is older than this client and gives every message a deadline: update it, or receive with deadline=True"
    )
