"""Who has a queue that one receiver has at a time, and who stands in line for it: by priority, and then in the order in which they came."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.queue.structures.levels import Levels

if TYPE_CHECKING:
    from actors.queue.state.receivers import Receiver
    from actors.queue.vocabulary.settings import QueueSettings


@dataclass(eq=False, repr=False, slots=True)
class Line:
    """The line of one queue, which may be among its heaps of deadlines: it has something to do at once, or nothing.

    Args:
        exclusive: who has an exclusive queue has it until it leaves. Of one with a single active consumer it gives way to a higher
            priority: it gets nothing more, and the other is served when it holds nothing. So no two are at work at a time.

    Attributes:
        exclusive: as given.
        holder: who has the queue.
        served: who gets messages: who has it, but for one that gives way.
    """

    exclusive: bool
    holder: Receiver | None = None
    served: Receiver | None = None
    _waiting: Levels[OrderedDict[Receiver, None]] = field(default_factory=lambda: Levels(OrderedDict))

    def __contains__(self, receiver: Receiver) -> bool:
        level = self._waiting.find(receiver.priority)
        return receiver is self.holder or (level is not None and receiver in level)

    def come(self, receiver: Receiver) -> None:
        """A receiver has come."""
        if self.holder is None:
            self.holder = self.served = receiver
        else:
            self._waiting.at(receiver.priority)[receiver] = None
            self.look()

    def go(self, receiver: Receiver) -> None:
        """One leaves the line, wherever it stands; nothing happens to one that does not."""
        if receiver is self.holder:
            self.holder = self.served = self._first() if self._waiting else None
        elif receiver in self:
            level = self._waiting.at(receiver.priority)
            del level[receiver]
            if not level:
                self._waiting.take(receiver.priority)
            self.look()

    def look(self) -> None:
        """Find who is served, by who waits, who has the queue and what that holds."""
        holder = self.holder
        if holder is None or self.exclusive or not self._waiting or self._waiting.top <= holder.priority:
            self.served = holder
        elif holder.in_flight:
            self.served = None
        else:
            self.holder = self.served = self._first()
            level = self._waiting.at(holder.priority)
            level[holder] = None
            # It was there before all others of its priority.
            level.move_to_end(holder, last=False)

    @property
    def live(self) -> bool:
        """Whether who gives way holds nothing any more, and somebody is to `look`."""
        return self.served is None and self.holder is not None and not self.holder.in_flight

    def earliest(self) -> float:
        """When that is to be done: it is time."""
        return 0.0

    def _first(self) -> Receiver:
        """Take out who is first."""
        level = self._waiting.highest
        receiver = level.popitem(last=False)[0]
        if not level:
            self._waiting.take(receiver.priority)
        return receiver


def line_of(settings: QueueSettings) -> Line | None:
    """The line of a queue with these settings; None where receivers share it."""
    return Line(settings.exclusive) if settings.exclusive or settings.single_active_consumer else None
