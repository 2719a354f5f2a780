"""How late a loop is: by how much a timer of ours comes after its time. It ticks only while somebody asks now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.queue.structures.histogram import Histogram

if TYPE_CHECKING:
    import asyncio

TICK_SECONDS: Final = 0.1
"""From one tick to the next; one takes some microseconds."""
LINGER_SECONDS: Final = 75.0
"""It ticks for so long behind the last question: Prometheus asks once a minute unless told otherwise."""
DELAY_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class LoopDelay:
    """Measures while somebody asks.

    Attributes:
        delays: seconds, by which ticks were late.
    """

    def __init__(self) -> None:
        self.delays = Histogram(DELAY_SECONDS)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = self._until = 0.0

    @property
    def running(self) -> bool:
        """Whether it ticks."""
        return self._timer is not None

    def asked(self, loop: asyncio.AbstractEventLoop) -> None:
        """Somebody wants to know, and may want to again."""
        self._until = loop.time() + LINGER_SECONDS
        if self._timer is None:
            self._loop = loop
            self._arm(loop.time())

    def end(self) -> None:
        """Tick no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, now: float) -> None:
        assert self._loop is not None, "somebody has asked"
        self._due = now + TICK_SECONDS
        self._timer = self._loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        assert self._loop is not None, "somebody has asked"
        now = self._loop.time()
        # A loop may call a timer before its time, by less than its clock's resolution.
        self.delays.observe(max(0.0, now - self._due))
        self._timer = None
        if now < self._until:
            self._arm(now)
