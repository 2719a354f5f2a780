"""A cache of bounded size: what was used the longest ago goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class ByteBoundedCache(Generic[K, V]):
    """Values by key, of at most ``limit`` bytes together.

    Attributes:
        bytes: what the values take now, by the sizes they were put in with.
        hits: how many `get` found.
        misses: how many it did not.
    """

    def __init__(self, limit: int, on_evict: Callable[[K, V], None] | None = None) -> None:
        """``on_evict`` is told of each value that has to go for the limit's sake; not of one that is discarded or replaced."""
        self.bytes = 0
        self.hits = 0
        self.misses = 0
        self._limit = limit
        self._on_evict = on_evict
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    @property
    def limit(self) -> int:
        """Bytes; setting it lets go of what is too much at once, and 0 turns the cache off."""
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._limit = limit
        self._shrink()

    def put(self, key: K, value: V, size: int) -> None:
        """Keep a value of ``size`` bytes; one that is larger than the limit is not kept, and what it replaces is gone too."""
        self.discard(key)
        if size > self._limit or self._limit <= 0:
            return
        self._entries[key] = (value, size)
        self.bytes += size
        self._shrink()

    def get(self, key: K) -> V | None:
        """The value, which counts as used now; None where it is not kept."""
        entry = self._entries.get(key)
        if entry is None:
            self.misses += 1
            return None
        self.hits += 1
        self._entries.move_to_end(key)
        return entry[0]

    def discard(self, key: K) -> None:
        """Forget a value, if it is kept."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.bytes -= entry[1]

    def clear(self) -> None:
        """Forget everything; nobody is told."""
        self._entries.clear()
        self.bytes = 0

    def _shrink(self) -> None:
        while self._entries and (self.bytes > self._limit or self._limit <= 0):
            key, (value, size) = self._entries.popitem(last=False)
            self.bytes -= size
            if self._on_evict is not None:
                self._on_evict(key, value)
