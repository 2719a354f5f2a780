"""uvloop's event loop with a clock that is as exact as asyncio's, and timers that are never early by it.

The clock of uvloop's own loop counts whole milliseconds, rounded down, and its timers round to the nearest. So whoever compares it with
the time of day, as delays do, is up to a millisecond wrong, and a message could be received that much before its time.
"""

from __future__ import annotations

import time
from math import ceil
from typing import TYPE_CHECKING, Any, cast

import uvloop

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from contextvars import Context

MS_PER_SECOND = 1_000
FAR = 1e9
"""Seconds on the clock: a time behind it, infinity too, is not counted in milliseconds."""


class ExactLoop(uvloop.Loop):  # type: ignore[misc]  # it may be absent, and has no types then
    """A loop of uvloop that tells the time exactly."""

    # What uvloop's own clock reads too, before it rounds it. A built-in function costs less than one of ours.
    time = staticmethod(time.monotonic)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call at a time of this clock, or up to a millisecond later."""
        if not when < FAR:
            return cast("asyncio.TimerHandle", super().call_at(when, callback, *args, context=context))
        # Counted in uvloop's milliseconds from its own now, so that the one in which it is called begins at the time or behind it.
        milliseconds = ceil(when * MS_PER_SECOND) - round(super().time() * MS_PER_SECOND)
        return cast(
            "asyncio.TimerHandle", self.call_later(milliseconds / MS_PER_SECOND, callback, *args, context=context)
        )
