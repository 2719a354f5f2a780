"""Routes that were found, by exchange and keys: a bounded memory of what definitions come to."""

from __future__ import annotations

from typing import TypeAlias

Key: TypeAlias = tuple[str, tuple[str, ...]]
Queues: TypeAlias = tuple[str, ...]


class RouteCache:
    """The routes that were asked for last.

    They are in two halves. What is asked for is put into the newer one. When that is full it becomes the older one, and what was the older
    one is forgotten. So a route that is used stays, one that is not goes, and none needs to be told from the others by its age.

    Args:
        max_keys: how many routes it may have.
        max_destinations: how many queues they may name, all together.

    Attributes:
        misses: how often a route was asked for that was not there.
    """

    __slots__ = ("_key_bound", "_newer", "_newer_queues", "_older", "_older_queues", "_queue_bound", "misses")

    def __init__(self, max_keys: int, max_destinations: int) -> None:
        self._key_bound = max_keys // 2
        self._queue_bound = max_destinations // 2
        self.misses = 0
        self.clear()

    def __len__(self) -> int:
        return len(self._newer) + len(self._older)

    @property
    def destinations(self) -> int:
        """How many queues the routes name, all together; at most so many."""
        return self._newer_queues + self._older_queues

    def clear(self) -> None:
        """Forget all of it."""
        self._newer: dict[Key, Queues] = {}
        self._older: dict[Key, Queues] = {}
        self._newer_queues = 0
        self._older_queues = 0

    def get(self, key: Key) -> Queues | None:
        """The route, or None where it is not there."""
        found = self._newer.get(key)
        if found is None:
            found = self._older.pop(key, None)
            if found is None:
                self.misses += 1
            else:
                self.put(key, found)
        return found

    def put(self, key: Key, queues: Queues) -> None:
        """Keep a route that is not there, if it is not too large."""
        if len(queues) > self._queue_bound or not self._key_bound:
            return
        if len(self._newer) >= self._key_bound or self._newer_queues + len(queues) > self._queue_bound:
            self._older, self._older_queues = self._newer, self._newer_queues
            self._newer, self._newer_queues = {}, 0
        self._newer[key] = queues
        self._newer_queues += len(queues)
