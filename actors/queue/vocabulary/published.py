"""Where messages come from that were published to an exchange."""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """What all messages of a batch have in common that was published to an exchange.

    Attributes:
        exchange: its name; empty for the default exchange.
        routing_key: of each message that has no key of its own, which would be its routing key; at most 255 bytes of UTF-8.
    """

    exchange: str
    routing_key: str

    def key_of(self, own: bytes) -> str:
        """The routing key of a message with this key of its own; empty for none."""
        return own.decode("utf-8", "replace") if own else self.routing_key
