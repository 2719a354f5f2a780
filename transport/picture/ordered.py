"""All samples in order, and their sums, for whoever looks: kept up sample by sample, so that a look at many queues reads none of them."""

from __future__ import annotations

from collections.abc import Callable
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, Final, Protocol

from transport.picture.letting_go import let_go
from transport.picture.slices import others_turns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.queue.vocabulary.statistics import QueueStatistics
    from transport.picture.pressure import Pressure

Key = tuple[Any, ...]


class Sample(Protocol):
    """Of a sample (`transport.picture.sampler`) what is put in order and summed."""

    @property
    def figures(self) -> QueueStatistics:
        """What the queue counts."""

    @property
    def came(self) -> float:
        """Messages a second that came in."""

    @property
    def went(self) -> float:
        """Messages a second that went out."""

    @property
    def pressure(self) -> Pressure:
        """Who holds back whom."""


CHUNK: Final = 2_000
"""Keys that are looked through at once: some tenths of a millisecond's work;"""
MADE: Final = 500
"""and those that are made at once."""

ORDERS: Final[dict[str, Callable[[Sample], Key]]] = {
    "pressure": lambda sample: (-sample.pressure.kind.rank, -sample.figures.ready, sample.figures.name),
    "rate": lambda sample: (-sample.came - sample.went, sample.figures.name),
    "backlog": lambda sample: (-sample.figures.ready, sample.figures.name),
    "name": lambda sample: (sample.figures.name,),
}
"""What queues can be ordered by, as keys with the first the smallest: the most first, and names upwards. A key ends with the name."""


class Ordered:
    """The keys of all samples in the orders that somebody asks for, and the sums of the samples.

    Args:
        samples: by name, to be looked at only; each that is put there, or taken out, is told to `put`.
    """

    def __init__(self, samples: Mapping[str, Sample]) -> None:
        self._samples = samples
        self._keys: dict[str, dict[str, Key]] = {}
        # Orders whose keys are all there.
        self._whole: set[str] = set()
        self._moving: set[str] = set()
        self._ready = self._held = self._stored = self._bytes = 0

    def put(self, name: str, before: Sample | None, now: Sample | None) -> None:
        """A queue has another sample, or none any more."""
        if before is not None:
            self._add(before, -1)
        if now is None:
            self._moving.discard(name)
            for keys in self._keys.values():
                keys.pop(name, None)
            return
        self._add(now, 1)
        if now.came or now.went:
            self._moving.add(name)
        else:
            self._moving.discard(name)
        for order, keys in self._keys.items():
            keys[name] = ORDERS[order](now)

    def end(self) -> None:
        """Nobody looks any more."""
        for keys in self._keys.values():
            let_go(keys)
        self._keys = {}

    def totals(self) -> dict[str, Any]:
        """Sums over all queues."""
        # Those that stand still have no rates to add; a sum that went up and down with each would not come back to nothing.
        moving = [self._samples[name] for name in self._moving]
        return {
            "ready": self._ready,
            "held": self._held,
            "stored_messages": self._stored,
            "stored_bytes": self._bytes,
            "came": round(sum(sample.came for sample in moving), 2),
            "went": round(sum(sample.went for sample in moving), 2),
        }

    async def first(self, order: str, contains: str, count: int) -> tuple[list[str], int]:
        """The names of so many queues, the first in an order, of those that have ``contains`` in theirs; and how many have."""
        keys = list((await self._all(order)).values())
        top: list[Key] = []
        matching = 0
        for start in range(0, len(keys), CHUNK):
            chunk = keys[start : start + CHUNK]
            if contains:
                chunk = [key for key in chunk if contains in key[-1]]
            matching += len(chunk)
            top = nsmallest(count, (*top, *chunk))
            if len(keys) > CHUNK:
                await others_turns()
        return [key[-1] for key in top], matching

    async def _all(self, order: str) -> dict[str, Key]:
        """The keys of an order; the first who asks for it has them made."""
        keys = self._keys.setdefault(order, {})
        if order not in self._whole:
            names = list(self._samples)
            for start in range(0, len(names), MADE):
                for name in names[start : start + MADE]:
                    # Those that came meanwhile are put there as they come.
                    if (sample := self._samples.get(name)) is not None:
                        keys[name] = ORDERS[order](sample)
                if len(names) > MADE:
                    await others_turns()
            self._whole.add(order)
        return keys

    def _add(self, sample: Sample, times: int) -> None:
        figures = sample.figures
        self._ready += times * figures.ready
        self._held += times * (figures.in_flight + figures.reserved)
        self._stored += times * figures.stored_messages
        self._bytes += times * figures.stored_bytes
