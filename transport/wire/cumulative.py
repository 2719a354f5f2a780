"""Demand as it stands on the wire: DEMAND and REQUEST say totals since the connection opened, each side works with their growth."""

from __future__ import annotations

from dataclasses import dataclass

from actors.errors import DemandExceededError


@dataclass(eq=False, slots=True)
class CumulativeDemand:
    """The demand of one connection, one direction.

    Attributes:
        messages: granted in total.
        bytes: granted in total.
    """

    messages: int = 0
    bytes: int = 0

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


@dataclass(eq=False, slots=True)
class GrantedDemand(CumulativeDemand):
    """Demand that this side has granted, and what the peer has used of it: what is beyond it is refused unseen.

    The queue judges what it grants exactly, where a batch's last message leads beyond the bytes. This is the first look, at numbers
    alone: whoever was granted nothing can have nothing checked.
    """

    used_messages: int = 0
    used_bytes: int = 0

    def use(self, messages: int, size: int) -> None:
        """The peer has sent so much; raises DemandExceededError where it may not."""
        have_messages, have_bytes = self.messages - self.used_messages, self.bytes - self.used_bytes
        if messages > have_messages or have_bytes <= 0:
            raise DemandExceededError(messages, size, have_messages, have_bytes)
        self.used_messages += messages
        self.used_bytes += size
