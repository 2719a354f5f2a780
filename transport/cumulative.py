"""Demand as it stands on the wire: DEMAND and REQUEST say totals since the connection opened, each side works with their growth."""

from __future__ import annotations


class CumulativeDemand:
    """The demand of one connection, one direction.

    Attributes:
        messages: granted in total.
        bytes: granted in total.
    """

    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.messages = 0
        self.bytes = 0

    def growth(self, messages: int, size: int) -> tuple[int, int]:
        """How much more (messages, bytes) these totals grant than all before them; a lower number than before grants nothing."""
        more_messages = max(0, messages - self.messages)
        more_bytes = max(0, size - self.bytes)
        self.messages += more_messages
        self.bytes += more_bytes
        return more_messages, more_bytes

    def grow(self, messages: int, size: int) -> tuple[int, int]:
        """The totals (messages, bytes) to say when this many more are granted."""
        self.messages += messages
        self.bytes += size
        return self.messages, self.bytes
