"""Facts of a run that have to do with limits that drop, and with a time of day that is set forward."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Leapt:
    """The time of day was set forward by so many seconds."""

    time: float
    seconds: float


@dataclass(frozen=True, slots=True)
class DroppedInAll:
    """How many messages a queue says at the end that it has dropped."""

    time: float
    queue: str
    total: int
