"""What the probes at both ends share: how long they wait for what is expected, and how a test bounds that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from streams.testkit.virtual_time import pass_time

DEFAULT_TIMEOUT: Final = 3.0
"""Seconds (of the loop's time) within which what is expected must come."""

SETTLING_TURNS: Final = 10
"""Turns of the loop after which what was ready has run: a few stages that each put something off to the next turn."""


class Expectations:
    """Waits for what a probe is to see.

    Args:
        timeout: seconds of the loop's time within which what is expected must come, unless `within` says otherwise.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._arrival = asyncio.Event()
        self._awaited: str | None = None
        self._deadlines: list[float] = []

    @property
    def remaining(self) -> float:
        """Seconds left of the `within` that the test is in; outside of one, the timeout."""
        if not self._deadlines:
            return self._timeout
        return max(0.0, min(self._deadlines) - asyncio.get_running_loop().time())

    @asynccontextmanager
    async def within(self, seconds: float, at_least: float = 0.0) -> AsyncGenerator[None, None]:
        """Bounds what is inside by the loop's time; expectations inside have all of it, rather than the probe's timeout.

        Args:
            seconds: what is inside may take that long.
            at_least: it must take that long.

        Raises:
            AssertionError: it has taken longer, or not as long.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._deadlines.append(began + seconds)
        try:
            async with asyncio.timeout(seconds) as limit:
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            awaited = f": expected {self._awaited}, but nothing came" if self._awaited else ""
            raise AssertionError(f"this was to take {seconds:g} s at most{awaited}") from None
        finally:
            self._awaited = None
            self._deadlines.pop()
        took = loop.time() - began
        if took < at_least:
            raise AssertionError(f"this was to take at least {at_least:g} s, but took {took:g} s")

    async def _wait(self, what: str) -> None:
        """Waits until something has arrived, which ``what`` is hoped to be."""
        self._arrival.clear()
        self._awaited = what
        try:
            async with asyncio.timeout(None if self._deadlines else self._timeout):
                await self._arrival.wait()
        except TimeoutError:
            raise AssertionError(f"expected {what}, but nothing came for {self._timeout:g} s") from None
        self._awaited = None


async def settle(seconds: float = 0.0) -> None:
    """Lets ``seconds`` of the loop's time pass, then gives the loop a few turns to run what is ready.

    On an ordinary loop the time is real: there it is a sleep, and `elapse` is the one that refuses.
    """
    if seconds:
        await pass_time(asyncio.get_running_loop(), seconds)
    for _ in range(SETTLING_TURNS):
        await asyncio.sleep(0)
