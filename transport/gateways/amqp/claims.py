"""Who consumes from which queue, of all connections of one gateway, by the names that the broker has for queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable


class Claims:
    """Those of one gateway.

    Attributes:
        getters: receivers of each queue that are no consumers: they ask for single messages, or only hold what is not settled.
    """

    def __init__(self) -> None:
        self.getters: Counter[str] = Counter()
        self._consumers: Counter[str] = Counter()
        self._exclusive: dict[str, Hashable] = {}

    def may_consume(self, queue: str) -> bool:
        """Whether nobody has the queue for themselves."""
        return queue not in self._exclusive

    def consumers(self, queue: str) -> int:
        """How many a queue has, those too of which it has not heard yet."""
        return self._consumers[queue]

    def come(self, queue: str, consumer: Hashable, *, exclusive: bool) -> None:
        """A consumer has come, perhaps to have the queue for itself."""
        self._consumers[queue] += 1
        if exclusive:
            self._exclusive[queue] = consumer

    def leave(self, queue: str, consumer: Hashable) -> bool:
        """A consumer has gone; whether it was the last one."""
        _less(self._consumers, queue)
        if self._exclusive.get(queue) is consumer:
            del self._exclusive[queue]
        return queue not in self._consumers

    def getter_comes(self, queue: str) -> None:
        """There is one more that is no consumer."""
        self.getters[queue] += 1

    def getter_leaves(self, queue: str) -> None:
        """There is one less."""
        _less(self.getters, queue)


def _less(counter: Counter[str], name: str) -> None:
    counter[name] -= 1
    if counter[name] <= 0:
        del counter[name]
