"""Who keeps a queue from expiring, and since when nobody does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Use:
    """The use of one queue: RabbitMQ's rule for ``x-expires``. Who only sends does not use it.

    Args:
        unused: told when nobody consumes any more; None where nobody wants to know.

    Attributes:
        consumers: receivers and subscriptions that are connected.
        since: when the last of them went, something was taken by request or the queue was declared anew, seconds.
    """

    __slots__ = ("_unused", "consumers", "since")

    def __init__(self, unused: Callable[[], None] | None = None) -> None:
        self.consumers = 0
        self.since = 0.0
        self._unused = unused

    def begin(self, now: float) -> None:
        """Nobody consumes: the time counts anew."""
        self.consumers = 1
        self.go(now)

    def come(self) -> None:
        """There is a consumer more."""
        self.consumers += 1

    def go(self, now: float) -> None:
        """There is one less."""
        self.consumers -= 1
        self.since = now
        if not self.consumers and self._unused is not None:
            self._unused()
