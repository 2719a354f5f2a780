"""Whether the senders of all queues of a broker are held back for a moment, whatever room there is.

That comes and goes a few times a second (`actors.replication.holding`), so not every queue is told of it: each looks when it would grant
something, and those that did not are known by their names.
"""

from __future__ import annotations


class Held:
    """The queues of a broker share one.

    Attributes:
        on: whether it is so.
    """

    __slots__ = ("_names", "on")

    def __init__(self) -> None:
        self.on = False
        self._names: dict[str, None] = {}

    def holds(self, name: str, rejects: bool) -> bool:
        """Whether a queue grants nothing for a moment: it is noted, and looks again behind it. Who is refused does not wait."""
        if not self.on or rejects:
            return False
        self._names[name] = None
        return True

    def take(self) -> list[str]:
        """Which they were."""
        names, self._names = list(self._names), {}
        return names
