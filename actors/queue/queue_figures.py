"""The figures of a broker's queues, read as they stand: no queue is asked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from actors.errors import QueueError, StorageError
from actors.queue.directory_errors import QueueNotFoundError
from actors.queue.operations.browsing import describe, parties_of, receiving_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator
    from typing import Any

    from actors.queue.counts import Count, Counts
    from actors.queue.operations.counting import Counters
    from actors.queue.owned_queues import OwnedQueues
    from actors.queue.queue_actor import QueueActor
    from actors.queue.queue_state import QueueState
    from actors.queue.state.use import Use
    from actors.queue.vocabulary.settings import QueueSettings
    from actors.queue.vocabulary.statistics import ConnectionStatistics, QueueStatistics
    from actors.runtime.loop_ref import LoopActorRef
    from actors.storage import Storage
    from actors.storage.measures import JournalMeasures


class FoundQueue(NamedTuple):
    """A queue that is there, as whoever finds it has to know it.

    Attributes:
        name: its name.
        number: its own among all that there ever were: one that is made anew has another.
        settings: those that it has.
        declared: whether they are its own, and not the broker's.
        arguments: what it was declared with, as it came; empty for none.
        owner: the actor that it goes with, and that alone may receive from it; None for a queue of everybody's.
        ready: messages that a receiver could have now, but for what is on its way to the queue.
        receivers: how many connections receive, take or own subscriptions.
    """

    name: str
    number: int
    settings: QueueSettings
    declared: bool
    arguments: bytes
    owner: LoopActorRef[Any] | None
    ready: int
    receivers: int


class QueueFigures:
    """What can be read of the queues of a ``QueueDirectory``."""

    owned: OwnedQueues
    _queues: dict[str, LoopActorRef[QueueActor]]
    _states: dict[str, QueueState]
    _numbers: dict[str, int]
    _declared: dict[str, QueueSettings]
    _arguments: dict[str, bytes]
    _counts: Counts
    _storage: Storage | None
    _paused: str | None
    has_levels: bool = False
    """Whether some queue has had levels since the start: if none, nobody need look at priorities."""

    def settings_of(self, name: str) -> QueueSettings:
        """The settings that the queue ``name`` has, or would get."""
        raise NotImplementedError

    def find(self, name: str) -> FoundQueue:
        """The queue ``name`` where it is; nothing is made.

        Raises:
            QueueNotFoundError: there is none.
        """
        if name not in self._numbers:
            raise QueueNotFoundError(name)
        queue = self._queues.get(name)
        alive = queue is not None and queue.is_alive()
        return FoundQueue(
            name,
            self._numbers[name],
            self.settings_of(name),
            name in self._declared,
            self._arguments.get(name, b""),
            self.owned.owner_of(name),
            *(_used(self._states[name]) if alive else (0, 0)),
        )

    def at_once(self, name: str) -> tuple[int, int] | None:
        """Messages that are ready, and connections that receive, behind all that a queue was told; None where it is to be asked.

        What has nothing to do would answer what can be read here. Whoever has more on the way to it, in actors of their own, asks it.
        """
        queue = self._queues.get(name)
        if queue is None or not queue.actor_inbox.idle:
            return None
        state = self._states[name]
        return None if state.incoming or state.ready.known != state.log.next_sequence else _used(state)

    def read(self, name: str, *, parties: bool = True) -> QueueStatistics | None:
        """A queue's figures, read as they stand: it is not asked, and what waits in its inbox is not counted yet.

        Args:
            name: the queue's.
            parties: whether each of its connections and subscriptions is among them, ``held_ms`` and ``oldest_ms``; without, it costs
                the same however many there are, and nothing is read from the disk.

        Returns:
            None where there is no such queue, or it has failed for good.
        """
        queue = self._queues.get(name)
        if queue is None or not queue.is_alive():
            return None
        return describe(self._states[name], asyncio.get_running_loop().time(), parties=parties)

    def parties(self, name: str) -> Iterator[ConnectionStatistics]:
        """The connections of a queue, as of `read`, one by one; none where there is no such queue."""
        state = self._states.get(name)
        return iter(()) if state is None else parties_of(state, asyncio.get_running_loop().time())

    def party(self, name: str, connection: Hashable) -> ConnectionStatistics | None:
        """One that receives from a queue, as of `parties`; None where it does not."""
        state = self._states.get(name)
        return None if state is None else receiving_of(state, connection, asyncio.get_running_loop().time())

    def oldest_ms(self, name: str) -> int:
        """The age of the message that is next, milliseconds, which is read from the disk if it never was; 0 where nobody can have one."""
        queue = self._queues.get(name)
        if queue is None or not queue.is_alive():
            return 0
        try:
            return self._states[name].oldest_ms(asyncio.get_running_loop().time())
        except (QueueError, StorageError):
            # The broker has been told, and the queue hears of it.
            return 0

    def count(self) -> Count:
        """What all queues have counted beside what those that there are say themselves."""
        return self._counts.begin()

    @property
    def names(self) -> list[str]:
        """Of all queues, in no order: to put very many in one takes a turn of the loop."""
        return list(self._numbers)

    def is_declared_elsewhere(self, name: str) -> bool:
        """Whether another protocol has declared a queue, in words of its own."""
        return name in self._arguments

    def state(self, name: str) -> QueueState | None:
        """A queue's state, to be looked at only, as it stands; None where there is no such queue."""
        return self._states.get(name)

    def use(self, name: str) -> Use | None:
        """Who uses a queue; None where there is no such queue."""
        state = self._states.get(name)
        return None if state is None else state.use

    def base(self, name: str) -> Counters:
        """What a queue had counted when it was found at the start."""
        return self._counts.base(name)

    def storage_statistics(self) -> dict[str, Any] | None:
        """What ``penstock stats`` shows of the storage; None for queues in memory."""
        return None if self._storage is None else self._storage.statistics() | {"paused": self._paused}

    def storage_measures(self) -> JournalMeasures | None:
        """What the journal's syncs and writes were like; None for queues in memory."""
        return None if self._storage is None else self._storage.measures


def _used(state: QueueState) -> tuple[int, int]:
    """Messages that are ready, and connections that receive."""
    return state.ready.messages, len(state.receivers) + len(state.subscribers)
