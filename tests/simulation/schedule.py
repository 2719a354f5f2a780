"""In which order things happen that nobody orders: drawn from the seed, turn by turn.

asyncio promises that ``call_soon`` is first in, first out, and code may rely on it. Everything else that is ready in a turn
comes from outside: bytes that arrive, sockets that can be written, timers that are due, the disk that is done, other
programs. On a real machine each of these falls anywhere among the callbacks of a turn, or comes a turn later.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Final, TypeVar

T = TypeVar("T")

STALLS: Final = (0.0, 0.001, 0.01, 0.05)
"""Seconds that a long turn takes: what is planned to come by then has come. 0 is for just the next thing."""


@dataclass(slots=True)
class Schedule:
    """The order of a run.

    Attributes:
        random: where it comes from.
        rush: the chance that a turn takes so long that more arrives meanwhile: else it would always find everybody idle.
        pause: the chance that a program, or an event from outside, lets a turn pass.
    """

    random: Random
    rush: float
    pause: float

    def stall(self) -> float | None:
        """How many seconds ahead of its time something arrives in this turn; None if nothing does."""
        return self.random.choice(STALLS) if self.random.random() < self.rush else None

    def pauses(self) -> bool:
        """Whether somebody lets this turn pass."""
        return self.random.random() < self.pause

    def interleave(self, ready: Iterable[tuple[Hashable, T]]) -> list[T]:
        """One of all orders in which what has the same lane stays in its order."""
        lanes: dict[Hashable, list[T]] = {}
        for lane, item in ready:
            lanes.setdefault(lane, []).append(item)
        turns: list[Iterator[T]] = []
        for items in lanes.values():
            turns += [iter(items)] * len(items)
        # As `Random.shuffle`, which has a call for each draw.
        draw = self.random.getrandbits
        for last in range(len(turns) - 1, 0, -1):
            bits = (last + 1).bit_length()
            while (other := draw(bits)) > last:
                pass
            turns[last], turns[other] = turns[other], turns[last]
        return list(map(next, turns))
