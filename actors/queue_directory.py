"""The broker's queues by name: created on first use or declared, deleted on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from actors.errors import QueueError
from actors.loop_ref import LoopActorRef
from actors.messages import DeleteQueue
from actors.queue_actor import QueueActor
from actors.queue_state import QueueSettings, QueueState

DEFAULT_MAX_QUEUES = 10_000
"""Queues of one broker; a client that makes up names cannot make up memory."""

WallClock = Callable[[], float]


class TooManyQueuesError(QueueError):
    """The broker has as many queues as it may have."""

    code = "limit-exceeded"

    def __init__(self, name: str, limit: int) -> None:
        super().__init__(
            f"queue {name!r} would be number {limit + 1}; {limit} is the limit: delete one, or raise max_queues"
        )
        self.limit = limit


class QueueExistsError(QueueError):
    """A queue is declared that exists with other settings."""

    code = "already-exists"


class QueueNotFoundError(QueueError):
    """A command names a queue that does not exist."""

    code = "not-found"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no queue {name!r}")


class QueueDirectory:
    """Every queue actor of a broker. Lives on the broker's loop; it is no actor, because nobody else changes it.

    Args:
        settings: what a queue gets that is not declared otherwise.
        wall_clock: seconds since the epoch, for enqueue times.
        max_queues: how many there can be.
    """

    def __init__(self, settings: QueueSettings, wall_clock: WallClock, max_queues: int = DEFAULT_MAX_QUEUES) -> None:
        self.settings = settings
        self._wall_clock = wall_clock
        self._max_queues = max_queues
        self._queues: dict[str, LoopActorRef[QueueActor]] = {}
        self._declared: dict[str, QueueSettings] = {}
        self._numbers: dict[str, int] = {}
        self._next_number = 0

    def __len__(self) -> int:
        return len(self._queues)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._queues))

    def get_or_create(self, name: str) -> LoopActorRef[QueueActor]:
        """The queue ``name``; a new one gets the broker's settings.

        Raises:
            TooManyQueuesError: there is no room for another.
        """
        queue = self._queues.get(name)
        # A queue actor that failed for good is gone with what it held; its successor begins empty.
        if queue is None or not queue.is_alive():
            queue = self._create(name, self._declared.get(name, self.settings))
        return queue

    def declare(self, name: str, settings: QueueSettings) -> LoopActorRef[QueueActor]:
        """Create the queue ``name`` with ``settings``; again with the same settings is no error.

        Raises:
            QueueExistsError: it exists with others.
            TooManyQueuesError: there is no room for another.
        """
        if name in self._queues:
            if self._declared.get(name, self.settings) != settings:
                raise QueueExistsError(
                    f"queue {name!r} exists with other settings; delete it first, or declare it as it is"
                )
            return self._queues[name]
        queue = self._create(name, settings)
        self._declared[name] = settings
        return queue

    def get(self, name: str) -> LoopActorRef[QueueActor]:
        """The queue ``name``; raises QueueNotFoundError where there is none."""
        try:
            return self._queues[name]
        except KeyError:
            raise QueueNotFoundError(name) from None

    def settings_of(self, name: str) -> QueueSettings:
        """The settings that the queue ``name`` has, or would get."""
        return self._declared.get(name, self.settings)

    def number_of(self, name: str) -> int:
        """The number of the queue ``name`` in this broker's life, part of its messages' generated ids."""
        return self._numbers[name]

    def delete(self, name: str) -> LoopActorRef[QueueActor]:
        """Remove the queue ``name`` and end its connections; what it held is gone."""
        queue = self.get(name)
        del self._queues[name]
        self._declared.pop(name, None)
        self._numbers.pop(name, None)
        queue.tell(DeleteQueue())
        return queue

    def values(self) -> list[LoopActorRef[Any]]:
        """Queues, by name."""
        return [queue for _, queue in self.items()]

    def items(self) -> list[tuple[str, LoopActorRef[Any]]]:
        """Names and queues, by name."""
        return sorted(self._queues.items())

    def _create(self, name: str, settings: QueueSettings) -> LoopActorRef[QueueActor]:
        if name not in self._queues and len(self._queues) >= self._max_queues:
            raise TooManyQueuesError(name, self._max_queues)
        number = self._next_number
        self._next_number += 1
        queue = QueueActor.start(QueueState(name, number, settings), self._wall_clock)
        self._queues[name] = queue
        self._numbers[name] = number
        return queue
