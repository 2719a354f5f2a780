"""Declarations of what is there, said again and again: Celery says that of its queue for results before each task.

What a declaration comes to, and whether the queue is that, takes a thousand steps to find out. So a channel remembers what it has found
of some queues, until one of them is another. And a queue that has nothing to do need not be asked how many messages it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from actors.queue.queue_figures import FoundQueue
    from transport.gateways.amqp.channel_port import Link
    from transport.gateways.amqp.entity_methods import QueueDeclare

MOST_QUEUES: Final = 8
"""That one channel remembers; of more the last ones."""


class Redeclared:
    """What one channel has declared lately, and found to be there."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        # By name. Most channels declare nothing twice, and there may be thousands: made when something is remembered.
        self._known: dict[str, tuple[QueueDeclare, FoundQueue]] | None = None

    def knows(self, name: str, declared: QueueDeclare, there: FoundQueue) -> bool:
        """Whether this very declaration was found to be of this queue, as that still is."""
        known = None if self._known is None else self._known.get(name)
        if known is None:
            return False
        before, found = known
        return (
            found.number == there.number
            # What a queue is altered to are other settings. Of one without its own they may be made anew each time.
            and (found.settings is there.settings or found.settings == there.settings)
            and found.arguments == there.arguments
            and found.owner is there.owner
            and (before is declared or before == declared)
        )

    def remember(self, name: str, declared: QueueDeclare, there: FoundQueue) -> None:
        """This declaration was found to be of this queue."""
        if self._known is None:
            self._known = {}
        self._known.pop(name, None)
        if len(self._known) >= MOST_QUEUES:
            del self._known[next(iter(self._known))]
        self._known[name] = declared, there


def figures_at_once(link: Link, known: str) -> tuple[int, int] | None:
    """Messages that are ready and consumers, behind all that was told before to a queue that was just found; None where it is to be asked.

    Args:
        link: whose client asks: what it has on the way to the queue comes first.
        known: what the broker calls the queue.
    """
    if not all(actor.actor_inbox.idle for actor in link.receivers.get(known, ())):
        return None
    figures = link.operations.figures_at_once(known)
    return None if figures is None else (figures[0], max(0, figures[1] - link.claims.getters[known]))
