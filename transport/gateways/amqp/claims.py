"""Who consumes from which queue, of all connections of one gateway, by the names that the broker has for queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import TYPE_CHECKING

from transport.gateways.amqp.errors import InUseError

if TYPE_CHECKING:
    from actors.queue.queue_figures import FoundQueue


class Claims:
    """Those of one gateway.

    Attributes:
        getters: receivers of each queue that are no consumers: they ask for single messages, or only hold what is not settled.
    """

    def __init__(self) -> None:
        self.getters: Counter[str] = Counter()
        self._consumers: Counter[str] = Counter()
        self._exclusive: dict[str, Hashable] = {}

    def check(self, queue: str, found: FoundQueue, text: str, *, exclusive: bool) -> None:
        """Whether one more may receive from a queue, or have it for itself.

        Args:
            queue: its name.
            found: what was found by that.
            text: how texts speak of it.
            exclusive: whether it shall be for one.

        Raises:
            InUseError: another has it for itself, or it shall be for one while others receive, or where they wait for their turn.
        """
        # Those too of which the queue has not heard yet.
        ours, may = self._consumers[queue], queue not in self._exclusive
        others = max(found.receivers - self.getters[queue], ours)
        if exclusive and found.settings.single_active_consumer:
            raise InUseError(text, perhaps_left=False)
        if not may or (exclusive and others > 0):
            raise InUseError(text, perhaps_left=may and not ours)

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
