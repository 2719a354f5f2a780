"""What was offered to exchanges and is not stored yet: of each sender in order, and senders take turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.queue.exchange_port import Publisher
    from actors.queue.state.routed import Routed
    from actors.queue.vocabulary.distributed import OfferThere, Unroutable


class Offered:
    """A batch on its way, and what has become of it so far.

    Attributes:
        parts: what of it goes where, as far as that is found.
        steps: finds more of that; None where that is not begun, or there is nothing to find.
        event: what it waits for until it is confirmed.
        rejected: why a queue, or what is behind one that did, takes nothing of it.
        failed: whether some of it could not be stored, or nothing of it, since its sender has failed.
        lost: how many of its messages no queue takes.
        unroutable: which these are, for a sender that wants to know.
        records: how many it, or what it was stored with, became.
    """

    __slots__ = (
        "event",
        "failed",
        "lost",
        "offer",
        "parts",
        "records",
        "rejected",
        "sender",
        "steps",
        "unroutable",
    )

    def __init__(self, sender: Publisher, offer: OfferThere) -> None:
        self.sender = sender
        self.offer = offer
        self.parts: list[Routed] = []
        self.steps: Iterator[None] | None = None
        self.event = 0
        self.rejected: str | None = None
        self.failed = False
        self.lost = 0
        self.unroutable: Unroutable | None = None
        self.records = 0

    @property
    def up_to(self) -> int:
        """The sender's number behind it."""
        return self.offer.sequence + self.offer.batch.count

    def begin_anew(self) -> None:
        """Nothing is found of where it goes: where that leads may be another place by now."""
        self.parts = []
        self.steps, self.lost, self.unroutable = None, 0, None

    def refuse(self, reason: str) -> None:
        """A queue rejects some of it: none of the rest is stored, nor what its sender has sent behind it."""
        self.rejected = reason
        self.sender.rejected(self.offer.sequence)


class Tally:
    """Whoever stages asks how much each queue holds of that, behind all that it has offered."""

    __slots__ = ("request", "sender")

    def __init__(self, sender: Publisher, request: int) -> None:
        self.sender = sender
        self.request = request


class Line:
    """What waits to be stored, and what is held since a queue that it goes to has no room."""

    __slots__ = ("_held", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[Publisher, deque[Offered | Tally]] = {}
        self._held: dict[Publisher, deque[Offered | Tally]] = {}

    def __bool__(self) -> bool:
        """Whether anything waits that is not held."""
        return bool(self._waiting)

    def put(self, item: Offered | Tally) -> None:
        """Something more of a sender."""
        waiting = self._held.get(item.sender) or self._waiting.get(item.sender)
        if waiting is None:
            waiting = self._waiting[item.sender] = deque()
        waiting.append(item)

    def release(self, sender: Publisher) -> None:
        """Nothing of a sender is held any more."""
        held = self._held.pop(sender, None)
        if held is not None:
            self._waiting[sender] = held

    def clear(self) -> None:
        """Nothing is to be stored any more."""
        self._waiting.clear()
        self._held.clear()

    def take(self, ready: Callable[[Offered, bool], bool], time_is_up: Callable[[], bool]) -> list[Offered | Tally]:
        """What is to be stored next, all together.

        A sender whose first batch is not ready keeps nobody else waiting: the others come before it when this is asked again.

        Args:
            ready: works on a batch until it can be stored, and says whether it can; told whether nothing of its sender is taken yet.
            time_is_up: whether to stop where this is.
        """
        taken: list[Offered | Tally] = []
        for sender in list(self._waiting):
            waiting, before = self._waiting.pop(sender), len(taken)
            while waiting:
                first = waiting[0]
                if isinstance(first, Offered) and not ready(first, len(taken) == before):
                    break
                taken.append(waiting.popleft())
                if isinstance(first, Tally) or time_is_up():
                    # What comes behind a tally is not to be counted.
                    break
            if waiting:
                held = sender.awaits_room
                (self._held if held else self._waiting)[sender] = waiting
            if time_is_up():
                break
        return taken
