"""What may not be seen outside of a queue before the events that it depends on are durable."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from actors.later_reply import LaterReply

if TYPE_CHECKING:
    from actors.storage import Storage

Held: TypeAlias = tuple[int, Any, Any]
"""The number of the event it waits for, the ref or LaterReply it is for, and what is told."""


class CommitGate:
    """Holds back what waits for the journal, in order; without one everything passes.

    What it holds is bounded by what the queue's connections may have under way: demand for deliveries, permits for confirmations, one
    request at a time for the rest.

    Args:
        storage: where events are made durable; None for a queue in memory.
        wake: has the queue call ``released`` soon.
    """

    __slots__ = ("_held", "_storage", "_wake")

    def __init__(self, storage: Storage | None, wake: Callable[[], None]) -> None:
        self._storage = storage
        self._wake = wake
        self._held: deque[Held] = deque()

    def __len__(self) -> int:
        return len(self._held)

    def passes(self, after: int) -> bool:
        """Whether what depends on event ``after`` may be told now."""
        return not after or self._storage is None or after <= self._storage.durable

    def hold(self, after: int, target: Any, message: Any) -> None:
        """Keep a message until its event is durable."""
        assert self._storage is not None, "without a journal everything passes"
        if not self._held:
            self._storage.when_durable(self._wake)
        self._held.append((after, target, message))

    def released(self) -> list[Held]:
        """What may be told now; the rest goes on waiting, behind the first that has to, so that order is kept."""
        held, storage = self._held, self._storage
        if not held or storage is None:
            return []
        durable = storage.durable
        free: list[Held] = []
        while held and held[0][0] <= durable:
            free.append(held.popleft())
        if held:
            storage.when_durable(self._wake)
        return free

    def clear(self, reason: BaseException) -> None:
        """Tell nobody what is held; whoever asked gets ``reason``."""
        held, self._held = self._held, deque()
        for _, target, _ in held:
            if isinstance(target, LaterReply):
                target.fail(reason)
