"""An event loop whose clock can be put forward: what waits for hours is due at once, and all else takes the time that it takes."""

from __future__ import annotations

import asyncio
import time

MOST_AHEAD = 100 * 366 * 86_400
"""Seconds: a hundred years. What is further ahead is no date, and fits no field of a message."""


class JumpingLoop(asyncio.SelectorEventLoop):
    """A loop on real time, ahead by all that `advance` was told.

    Args:
        ahead: seconds that it is ahead from the start.

    Attributes:
        ahead: seconds that its clock is ahead of the real one.
    """

    def __init__(self, ahead: float = 0.0) -> None:
        self.ahead = ahead
        super().__init__()

    def time(self) -> float:
        """Monotonic seconds."""
        return super().time() + self.ahead

    def wall_time(self) -> float:
        """Seconds since 1970, as far ahead."""
        return time.time() + self.ahead

    def advance(self, seconds: float) -> None:
        """Put the clock forward in one step, from a callback of the loop: every timer until then fires once, in order.

        Raises:
            ValueError: it would go back, or be ahead by more than `MOST_AHEAD`.
        """
        if not seconds >= 0:
            raise ValueError(f"a clock cannot be put forward by {seconds} s: give 0 or more")
        if not self.ahead + seconds <= MOST_AHEAD:
            raise ValueError(f"a clock cannot be put forward by {seconds} s: {MOST_AHEAD} s, in all, are the most")
        self.ahead += seconds
