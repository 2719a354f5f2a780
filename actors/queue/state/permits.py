"""What one sender may send, and what of a thing may be granted to all of them; ``capacity`` has the rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.queue.vocabulary.replies import Connection

WINDOWED_MESSAGES = 256
WINDOWED_BYTES = 1024 * 1024
"""In a smaller queue each sender may hold all there is: shares of so little are no better than one message at a time."""
IDLE_SHARE = 4
"""Of a queue's limit, one part in so many is for senders that have sent nothing lately,"""
STEP_SHARE = 4
"""of which each gets one part in so many of what is left: the first gets a good batch, the five-hundredth a message."""
HOLD_SHARE = 8
"""A busy sender holds unused, at most, one part in so many of what the others leave of all that may be granted, so that whoever rests
leaves most of it. Where they leave more than the limit, as to a sender alone, it may hold what is above."""
GROWTH = 4
"""By which what a sender may hold is multiplied each time that it has used as much."""
LENT_SHARE = 2
"""What idle senders hold is lent to those who send. All permits together may exceed the limit by one part in so many of it."""
UNBOUNDED = 1 << 62


class Unit:
    """One of the two things that are counted, messages or bytes, over all senders.

    Args:
        limit: stored and granted together.
        lends: whether senders have windows, and what the idle hold is lent to the others.

    Attributes:
        limit: see above.
        most: what may be granted together, whatever is stored: the limit, and what is lent on top of it.
        granted: permits not used.
        idle: of these, those of idle senders.
    """

    __slots__ = ("_lends", "granted", "idle", "limit", "most")
    endless = False

    def __init__(self, limit: int, lends: bool) -> None:
        self.limit = limit
        self._lends = lends
        self.most = limit + limit // LENT_SHARE if lends else limit
        self.granted = 0
        self.idle = 0

    def room(self, stored: int) -> int:
        """What may be granted now. What idle senders hold counts only towards what may be granted at all."""
        lent = self.idle if self._lends else 0
        return min(self.limit - stored + lent, self.most) - self.granted

    def left(self, stored: int) -> int:
        """What may come beside what is stored, whatever was granted; below zero where that is too much."""
        return self.limit - stored

    def first_window(self) -> int:
        """What a sender may hold that has sent nothing lately."""
        if not self._lends:
            return UNBOUNDED
        return max(1, (self.limit // IDLE_SHARE - self.idle) // STEP_SHARE)

    def grown(self, window: int, held: int) -> int:
        """What a sender may hold that has used ``window``, and holds ``held``; less the more others hold."""
        if not self._lends:
            return UNBOUNDED
        left = self.most - self.granted + held
        return max(window, min(window * GROWTH, max(left // HOLD_SHARE, left - self.limit)))


class EndlessUnit(Unit):
    """One that a queue has no limit of, whatever is stored.

    Its ``limit`` is the usual one: by that windows are measured, and what may be granted at a time. So what still comes when a watermark
    has the senders pause has a bound.
    """

    __slots__ = ()
    endless = True

    def room(self, stored: int) -> int:  # noqa: ARG002 - it is nothing to it
        """As of one with the usual limit of which nothing is stored."""
        return super().room(0)

    def left(self, stored: int) -> int:  # noqa: ARG002 - as above
        """Whatever comes."""
        return UNBOUNDED


@dataclass(eq=False, slots=True)
class Permits:
    """What one sender may send and what more it wants.

    Attributes:
        messages: messages granted and not used.
        bytes: bytes granted and not used; below zero when the last message led beyond them.
        wanted_messages: messages asked for and not granted.
        wanted_bytes: bytes asked for and not granted.
        message_window: messages that it may hold; 0 until it asks for some.
        byte_window: bytes likewise.
        used_messages: messages used since the window grew.
        used_bytes: bytes likewise.
        idle: whether it has used nothing lately.
        used: messages ever used, which is what was sent.
        queue: the queue's name where its sender has room of several queues, so that it knows whose this is; else None.
    """

    connection: Connection
    messages: int = 0
    bytes: int = 0
    wanted_messages: int = 0
    wanted_bytes: int = 0
    message_window: int = 0
    byte_window: int = 0
    used_messages: int = 0
    used_bytes: int = 0
    idle: bool = True
    used: int = 0
    queue: str | None = None

    def wants(self) -> bool:
        """Whether it is to be granted more where there is room: when half of what it may hold is used, so that it gets batches."""
        return (self.wanted_messages > 0 and self.messages * 2 <= self.message_window) or (
            self.wanted_bytes > 0 and self.bytes * 2 <= self.byte_window
        )

    def is_stuck(self) -> bool:
        """Whether it can send nothing for want of what it asked for."""
        return (self.messages <= 0 < self.wanted_messages) or (self.bytes <= 0 < self.wanted_bytes)
