"""Which queues have changed: what somebody who looks at all of them has to read again, and nothing beside."""

from __future__ import annotations


class Changes:
    """The names of queues that have changed, as long as somebody wants to know; the queues of a broker share one.

    Attributes:
        names: those that have changed since they were taken last; None while nobody wants to know, so that nothing is kept.
    """

    __slots__ = ("names",)

    def __init__(self) -> None:
        self.names: set[str] | None = None

    def begin(self) -> None:
        """Note what changes from now on."""
        self.names = set()

    def take(self) -> set[str]:
        """What has changed since this was called last; empty where nobody wanted to know."""
        names = self.names
        if names is None:
            return set()
        self.names = set()
        return names

    def end(self) -> None:
        """Nobody wants to know any more."""
        self.names = None
