"""Parts that are made again and again, for tests of restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from streams import RestartSettings, Source

EXACT = RestartSettings(min_backoff=1, max_backoff=8, random_factor=0)

ONCE = RestartSettings(min_backoff=1, max_backoff=8, random_factor=0, max_restarts=1)


def now() -> float:
    return asyncio.get_running_loop().time()


def failing() -> Source[int]:
    return Source.failed(OSError("broken"))


class Made:
    """A factory that counts what it has made, and when."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        self.make = make
        self.times: list[float] = []

    def __call__(self) -> Any:
        self.times.append(now())
        return self.make(len(self.times))
