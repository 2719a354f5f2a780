"""Long work on the loop, cut into slices: others have their turns in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from transport.picture.sampler import SLICE_SECONDS, TURNS_BETWEEN


class Slices:
    """Says when a slice is over; `pause` is to be called behind each piece of the work, some tenths of a millisecond long.

    Args:
        clock: seconds that go on while the loop stands.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._ends = clock() + SLICE_SECONDS

    async def pause(self) -> None:
        """Let others have their turns, if this slice is over."""
        if self._clock() >= self._ends:
            for _ in range(TURNS_BETWEEN):
                await asyncio.sleep(0)
            self._ends = self._clock() + SLICE_SECONDS
