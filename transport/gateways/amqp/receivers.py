"""The actors that receive for one connection, by the broker's names of their queues: by them a queue's receivers are known as its."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actors import LoopActorRef

    Ref = LoopActorRef[Any]


class Receivers(dict[str, set["Ref"]]):
    """Those of one connection; a queue that nobody receives from any more is left out."""

    __slots__ = ()

    def come(self, queue: str, actor: Ref) -> None:
        """An actor receives from a queue."""
        self.setdefault(queue, set()).add(actor)

    def go(self, queue: str, actor: Ref | None) -> None:
        """It does so no more; one that never did is passed over."""
        there = self.get(queue)
        if there is not None and actor in there:
            there.discard(actor)
            if not there:
                del self[queue]
