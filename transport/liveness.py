"""Heartbeats without a clock: when to ask whether the peer is there, and when to give it up.

PING goes out when this side has said nothing for one interval, so that a quiet connection costs one small frame an interval each
way; a peer that has said nothing for ``SILENT_INTERVALS`` intervals is gone. docs/protocol.md, "Opening and closing".
"""

from __future__ import annotations

from enum import Enum

DEFAULT_HEARTBEAT = 5.0
"""Seconds: a dead peer is noticed within three of them, and 10 000 idle connections cost 4 000 small frames a second."""
SILENT_INTERVALS = 3
HANDSHAKE_TIMEOUT = 10.0
"""Seconds in which HELLO, and its answer, must come."""


class Verdict(Enum):
    """What `Liveness.check` finds."""

    FINE = "fine"
    PING = "ping"
    SILENT = "silent"


class Liveness:
    """When each side was last heard; times are monotonic seconds.

    Attributes:
        interval: the heartbeat, seconds.
        frame_began: when the frame now arriving began, or None between frames.
    """

    __slots__ = ("frame_began", "heard", "interval", "said")

    def __init__(self, interval: float, now: float) -> None:
        self.interval = interval
        self.heard = now
        self.said = now
        self.frame_began: float | None = None

    def check(self, now: float) -> Verdict:
        """What to do at ``now``."""
        if now >= self._silent_at():
            return Verdict.SILENT
        if now >= self.said + self.interval:
            return Verdict.PING
        return Verdict.FINE

    def next_check(self) -> float:
        """The earliest time at which `check` can answer otherwise than FINE."""
        return min(self.said + self.interval, self._silent_at())

    def _silent_at(self) -> float:
        limit = self.interval * SILENT_INTERVALS
        if self.frame_began is not None:
            return min(self.heard, self.frame_began) + limit
        return self.heard + limit
