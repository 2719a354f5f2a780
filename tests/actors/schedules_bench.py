"""A broker's queues with schedules, whose time of day goes with the loop's and can be set."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

from actors.scheduling.schedule import TIME_HEADER, Schedule
from streams.testkit import elapse
from tests.actors.letters_bench import Letters
from tests.actors.stored_queues import turns

START = 1_700_000_000


class Schedules(Letters):
    """Queues, and what is stored in them at times."""

    _begun = 0.0
    _base = 0.0

    @property
    def time_of_day(self) -> float:
        return self._base + asyncio.get_running_loop().time() - self._begun

    @time_of_day.setter
    def time_of_day(self, now: float) -> None:
        self._base, self._begun = now, asyncio.get_running_loop().time()

    def __init__(self, folder: Path | None, *, at: float | None = None, **storage: Any) -> None:
        self._at = at
        super().__init__(folder, **storage)

    @property
    def schedules(self) -> Any:
        return self.queues.schedules

    def declare(self, expression: str = "every 10s", name: str = "s", *, replaces: bool = False, **said: Any) -> bool:
        to = said if said.keys() & {"queue", "exchange"} else {"queue": "q", **said}
        changed: bool = self.schedules.declare(Schedule(name, expression, **to), replaces=replaces)
        return changed

    def times(self, queue: str = "q") -> list[int]:
        """The seconds from the start for which messages of a queue are, in order."""
        said = [datetime.fromisoformat(headers[TIME_HEADER]) for headers in self.headers(queue)]
        return [int(time.timestamp()) - START for time in said]

    async def passes(self, seconds: float) -> None:
        """So much time, with all that comes of it durable."""
        await elapse(seconds)
        await turns()
        if self._storage is not None:
            await self.settled()
