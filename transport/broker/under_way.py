"""What one client has under way in the broker: handed on for it, and not yet handled by its queue. Counted in units of work, without I/O.

A connection's actor passes on at once what it is told, so its own inbox says nothing of what waits. A mark does: it goes the way that
the client's words go, through the actor to the queue and back, and when it is back everything before it has been handled.
"""

from __future__ import annotations

MAX_UNDER_WAY = 2_048
"""Units above which nothing more of the client is handled: some hundred kilobytes as the queue's messages, or ten milliseconds of work."""
MARK_EVERY = MAX_UNDER_WAY // 2
"""Units after which a mark is sent: one that sends steadily never has to wait for it."""


class UnderWay:
    """The count of one connection.

    Attributes:
        units: what is handed on and not known to be handled.
    """

    __slots__ = ("_marked", "units")

    def __init__(self) -> None:
        self.units = 0
        self._marked = 0

    @property
    def full(self) -> bool:
        """Whether nothing more may be handed on."""
        return self.units >= MAX_UNDER_WAY

    @property
    def marks(self) -> int:
        """How many marks are on their way."""
        return int(self._marked > 0)

    def add(self, units: int) -> bool:
        """So much more is handed on; returns whether it is much by now: a `mark` may be due, or nothing more may follow."""
        self.units += units
        return self.units >= MARK_EVERY

    def mark(self) -> bool:
        """Whether a mark is to be sent now. One at a time: what it stands for is what came before it."""
        if self._marked or self.units < MARK_EVERY:
            return False
        self._marked = self.units
        return True

    def handled(self) -> bool:
        """The mark is back; returns whether another is to be sent."""
        self.units -= self._marked
        self._marked = 0
        return self.mark()
