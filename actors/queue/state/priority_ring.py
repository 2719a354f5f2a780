"""Consumers with demand where some go before others: a ring for each priority, and its turn is that of the highest with demand.

A queue has this in the place of its `DemandRing` while a receiver is attached that has another priority than 0. Requests and reservations
have none of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.queue.state.receivers import DemandRing
from actors.queue.structures.levels import Levels

if TYPE_CHECKING:
    from actors.queue.state.receivers import Consumer, Take


@dataclass(eq=False, repr=False, slots=True)
class PriorityRing:
    """What a `DemandRing` is, with the same names.

    Its ``waiting`` is the ring itself: it has whoever waits, and its length is that of the level whose turn it is.

    Attributes:
        demand: the sum of the demands of all.
        receivers: how many are attached that have another priority than 0.
        reading: as of `DemandRing`.
        late: likewise.
    """

    demand: int = 0
    receivers: int = 0
    reading: bool = False
    late: list[Take] = field(default_factory=list)
    _levels: Levels[DemandRing] = field(default_factory=lambda: Levels(DemandRing))

    @classmethod
    def of(cls, ring: DemandRing) -> PriorityRing:
        """One with those who wait in ``ring``, none of whom has a priority."""
        made = cls(ring.total, 0, ring.reading, ring.late)
        if ring.waiting:
            made._levels.put(0, ring)
        return made

    def plain(self) -> DemandRing:
        """The ring of those who wait here, none of whom has a priority."""
        ring = self._levels.find(0) or DemandRing()
        ring.reading, ring.late = self.reading, self.late
        return ring

    @property
    def waiting(self) -> PriorityRing:
        """Those who wait."""
        return self

    def __len__(self) -> int:
        return len(self._levels.highest) if self._levels else 0

    def __contains__(self, consumer: Consumer) -> bool:
        level = self._levels.find(consumer.priority)
        return level is not None and consumer in level.waiting

    @property
    def total(self) -> int:
        """The sum of the demands of the level whose turn it is."""
        return self._levels.highest.total if self._levels else 0

    def join(self, consumer: Consumer) -> None:
        """As of `DemandRing`."""
        self._levels.at(consumer.priority).join(consumer)
        self.demand += consumer.demand

    def want_more(self, consumer: Consumer, messages: int) -> None:
        """As of `DemandRing`."""
        if consumer in self:
            self._levels.at(consumer.priority).want_more(consumer, messages)
            self.demand += messages
        else:
            consumer.demand += messages

    def leave(self, consumer: Consumer) -> None:
        """As of `DemandRing`."""
        if consumer in self:
            level = self._levels.at(consumer.priority)
            level.leave(consumer)
            self.demand -= consumer.demand
            if not level:
                self._levels.take(consumer.priority)

    def next(self) -> Consumer:
        """As of `DemandRing`: of the highest level that has somebody."""
        level = self._levels.highest
        consumer = level.next()
        self.demand -= consumer.demand
        if not level:
            self._levels.take(consumer.priority)
        return consumer

    def set_aside(self) -> tuple[int, DemandRing]:
        """Take the highest level out: it is the next one's turn until that is put back."""
        priority = self._levels.top
        level = self._levels.take(priority)
        self.demand -= level.total
        return priority, level

    def put_back(self, priority: int, level: DemandRing) -> None:
        """Have the level wait again that was set aside."""
        self._levels.put(priority, level)
        self.demand += level.total
