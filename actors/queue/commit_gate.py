"""What may not be seen outside of a queue before the events that it depends on are durable."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from actors.runtime.later_reply import LaterReply

if TYPE_CHECKING:
    from actors.storage import Storage

Held: TypeAlias = tuple[int, Any, Any]
"""The number of the event it waits for, the ref or LaterReply it is for, and what is told."""


class CommitGate:
    """Holds back what waits for the journal; without one everything passes.

    Nothing passes before what is held and may be told. The disk can be further than the queue has heard, and then a
    later delivery would overtake an earlier one. What is durable does not wait for what is not. So messages that go
    out together go out in the order in which they came, and only what depends on a lower event can go out before
    something that came first.

    What it holds is bounded by what the queue's connections may have under way: demand for deliveries, permits for confirmations, one
    request at a time for the rest.

    Args:
        storage: where events are made durable; None for a queue in memory.
        wake: has the queue call ``release`` soon.
        tell: tells a target a message that was held; it must not ask the gate again.
    """

    __slots__ = ("_held", "_looked_at", "_storage", "_tell", "_wake")

    def __init__(self, storage: Storage | None, wake: Callable[[], None], tell: Callable[[Any, Any], None]) -> None:
        self._storage = storage
        self._wake = wake
        self._tell = tell
        self._held: list[Held] = []
        # What was durable when it last looked through what it holds: until more is, there is nothing in it that may go.
        self._looked_at = 0

    def __len__(self) -> int:
        return len(self._held)

    def passes(self, after: int) -> bool:
        """Whether what depends on event ``after`` may be told now; tells first what is held and may be told."""
        storage = self._storage
        if storage is None:
            return True
        if self._held and storage.durable > self._looked_at:
            self.release()
        return after <= storage.durable

    def hold(self, after: int, target: Any, message: Any) -> None:
        """Keep a message that does not pass until its event is durable."""
        assert self._storage is not None, "without a journal everything passes"
        if not self._held:
            self._looked_at = self._storage.durable
            self._storage.when_durable(self._wake)
        self._held.append((after, target, message))

    def release(self) -> None:
        """Tell what may be told, in the order in which it came; the rest goes on waiting."""
        held, storage = self._held, self._storage
        if not held or storage is None:
            return
        durable = self._looked_at = storage.durable
        # Looked through whole: it need not be sorted by event, and what is durable must not wait behind what is not.
        self._held = [item for item in held if item[0] > durable]
        if self._held:
            storage.when_durable(self._wake)
        for after, target, message in held:
            if after <= durable:
                self._tell(target, message)

    def clear(self, reason: BaseException) -> None:
        """Tell nobody what is held; whoever asked gets ``reason``."""
        held, self._held = self._held, []
        for _, target, _ in held:
            if isinstance(target, LaterReply):
                target.fail(reason)

    def end(self) -> None:
        """Nothing is held and nothing will be: lead back to nobody."""
        self._held.clear()
        self._tell = self._wake = _ended


def _ended(*_unused: object) -> None:
    """A gate whose queue has stopped wakes nobody, and tells nobody."""
