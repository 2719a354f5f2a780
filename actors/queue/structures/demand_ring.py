"""Who waits for messages, and whose turn it is."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Protocol


class Consumer(Protocol):
    """What waits in the ring; ``demand`` is how many messages it would take."""

    demand: int


@dataclass(eq=False, repr=False, slots=True)
class DemandRing:
    """Consumers with demand, in turns.

    Attributes:
        waiting: those who wait, in the order of their turns; to be looked at only.
        total: the sum of their demands.
    """

    waiting: OrderedDict[Consumer, None] = field(default_factory=OrderedDict)
    total: int = 0

    def join(self, consumer: Consumer) -> None:
        """Wait, with ``consumer.demand``, behind the others; it does not wait already."""
        self.waiting[consumer] = None
        self.total += consumer.demand

    def want_more(self, consumer: Consumer, messages: int) -> None:
        """Add to a consumer's demand; one that waits keeps its turn."""
        consumer.demand += messages
        if consumer in self.waiting:
            self.total += messages

    def leave(self, consumer: Consumer) -> None:
        """Wait no more; nothing happens to one that does not. Its demand must not have changed since it joined."""
        if consumer in self.waiting:
            del self.waiting[consumer]
            self.total -= consumer.demand

    def next(self) -> Consumer:
        """Take out whose turn it is; whoever has demand left after it joins again."""
        consumer = self.waiting.popitem(last=False)[0]
        self.total -= consumer.demand
        return consumer
