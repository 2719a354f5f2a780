"""When acknowledgements leave: at once after a pause, else with those of the next few milliseconds. Without I/O and clock.

To the broker a frame costs more than the messages that it names. Whoever acknowledges a thousand messages a second one by one would send
a thousand frames; gathered they are two hundred. docs/protocol.md, "Receiving", says what that means for a receiver that dies.
"""

from __future__ import annotations

from dataclasses import dataclass

GATHER_SECONDS = 0.005
"""The longest that an acknowledgement waits here for others."""
GATHER_MESSAGES = 64
"""So many messages wait for no others."""
MOST_STRAIGHT = 4096
"""Turns at most in which nothing is gathered, after it has brought nothing."""


@dataclass(eq=False, slots=True)
class AcknowledgementGathering:
    """Whether the acknowledgements of one connection are to leave now.

    Where no delivery comes while some are held back, the queue may be waiting for just these: a queue of one message, say, has no room
    for the next. So then they leave straight for a while, each time for twice as long, until gathering has brought something again.
    """

    _said: float = float("-inf")
    _held_since: int | None = None
    _straight: int = 0
    _penalty: int = GATHER_MESSAGES

    def due(self, messages: int, received: int, now: float) -> float:
        """Seconds for which ``messages`` acknowledgements are to be held back still; 0 where they are to leave now.

        Args:
            messages: how many wait.
            received: messages delivered on this connection up to now.
            now: seconds of a clock that only goes forward.
        """
        wait = self._said + GATHER_SECONDS - now
        if self._held_since is None:
            if self._straight:
                self._straight -= 1
            elif wait > 0 and messages < GATHER_MESSAGES:
                self._held_since = received
                return wait
        elif received > self._held_since:
            self._penalty = GATHER_MESSAGES
            if wait > 0 and messages < GATHER_MESSAGES:
                return wait
        elif messages < GATHER_MESSAGES:
            if wait > 0:
                return wait
            self._straight, self._penalty = self._penalty, min(2 * self._penalty, MOST_STRAIGHT)
        self.said(now)
        return 0.0

    def said(self, now: float) -> None:
        """All that waited leaves now, for whatever reason."""
        self._held_since = None
        self._said = now
