"""Who consumes from which queue, of all connections of one gateway, by the names that the broker has for queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import TYPE_CHECKING

from transport.gateways.amqp.errors import InUseError

if TYPE_CHECKING:
    from actors.queue.queue_figures import FoundQueue
    from transport.gateways.amqp.names import Names


class Claims:
    """Those of one gateway.

    Attributes:
        getters: receivers of each queue that are no consumers: they ask for single messages, or only hold what is not settled.
    """

    def __init__(self) -> None:
        self.getters: Counter[str] = Counter()
        self._consumers: Counter[str] = Counter()
        self._exclusive: dict[str, Hashable] = {}

    def check(self, names: Names, queue: str, found: FoundQueue, *, exclusive: bool) -> None:
        """Whether one more may receive from a queue, or have it for itself.

        Args:
            names: of the virtual host.
            queue: its name there.
            found: what was found by that.
            exclusive: whether it shall be for one.

        Raises:
            InUseError: another has it for itself, or it shall be for one while others receive, or where they wait for their turn.
        """
        # Those too of which the queue has not heard yet.
        known = names.queue(queue)
        ours, may = self._consumers[known], known not in self._exclusive
        if may and not exclusive:
            return
        one = found.settings.single_active_consumer
        if not may or one or max(found.receivers - self.getters[known], ours) > 0:
            raise InUseError(names.queue_text(queue), perhaps_left=may and not ours and not one)

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
