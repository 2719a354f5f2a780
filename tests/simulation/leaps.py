"""Sets the time of day forward, now and then: to about when something is due, so that what waits for a year comes in a minute."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, Final

from streams.testkit import elapse
from tests.simulation.history import Arrived, History, Leapt

if TYPE_CHECKING:
    from tests.simulation.cluster import BrokerHost
    from tests.simulation.faults import WallClock
    from tests.simulation.loop import SimulatedLoop

BEFORE: Final = 75.0
"""Seconds before something is due to which the time is set, at most: a slot of the calendar is opened some seconds before its time."""
BEHIND: Final = 15.0
"""Seconds that a step takes at most: how long it takes a broker to see that the time was set, and a little more."""
MOST_STEPS: Final = 12
"""At the end; then all of it is due."""
LONGEST_DOWN: Final = 3.0


class Leaps:
    """Those of one run."""

    def __init__(
        self, seed: int, loop: SimulatedLoop, wall_clock: WallClock, host: BrokerHost, history: History
    ) -> None:
        self.over = False
        self._random = Random(f"leaps {seed}")
        self._loop = loop
        self._wall_clock = wall_clock
        self._host = host
        self._history = history
        self._looked_at = 0
        self._due: list[float] = []

    async def meanwhile(self, pause: float) -> None:
        """Leap while other things happen, until told that they are over."""
        while not self.over:
            await elapse(self._random.expovariate(1 / pause))
            if not self.over:
                self._leap()

    async def until(self, done: Callable[[], bool]) -> None:
        """Leap, with a broker that ends now and then, until that is so: what waits may leave no room for others."""
        steps = 0
        while not done():
            steps += 1
            await self._step(done, last=steps > MOST_STEPS and steps % 2 == 0)

    async def to_the_end(self) -> None:
        """Leap until all that waits is due."""
        steps = 0
        while self._waiting():
            steps += 1
            if steps > MOST_STEPS:
                self._forward(max(self._due) - self._wall_clock())
            await self._step(lambda: False, last=False)

    # Inside

    async def _step(self, done: Callable[[], bool], *, last: bool) -> None:
        for _ in range(self._random.randint(1, int(BEHIND))):
            await elapse(1.0)
            if done():
                return
        if self._random.random() < 0.25:
            await self._restart()
        else:
            self._leap(last=last)

    async def _restart(self) -> None:
        """End the broker, and leap while it is down or not."""
        how = self._random.choice((self._stop, self._kill, self._power_off))
        await how()
        await elapse(self._random.uniform(0, LONGEST_DOWN))
        if self._random.random() < 0.5:
            self._leap()
        await self._host.start()

    def _stop(self) -> Awaitable[None]:
        return self._host.stop()

    async def _kill(self) -> None:
        self._host.kill()

    async def _power_off(self) -> None:
        self._host.power_off()

    def _waiting(self) -> list[float]:
        """When what has come is due, of what is not yet, in order."""
        events = self._history.events
        for event in events[self._looked_at :]:
            if isinstance(event, Arrived) and (event.at is not None or event.delay):
                # A little late where the time was set since.
                at = event.at if event.at is not None else self._wall_clock() + (event.delay or 0.0)
                self._due.append(at)
        self._looked_at = len(events)
        now = self._wall_clock()
        self._due = sorted(due for due in self._due if due > now)
        return self._due

    def _leap(self, *, last: bool = False) -> None:
        waiting = self._waiting()
        if not waiting:
            return
        due = waiting[0] if self._random.random() < 0.5 else self._random.choice(waiting)
        if last:
            due = waiting[-1]
        self._forward(due - self._wall_clock() - self._random.choice((-0.5, 0.0, self._random.uniform(0, BEFORE))))

    def _forward(self, seconds: float) -> None:
        if seconds > 0:
            self._history.add(Leapt(self._loop.time(), seconds))
            self._wall_clock.jump(seconds)
