"""Which queues have changed: what somebody who looks at all of them has to read again, and nothing beside."""

from __future__ import annotations

from typing import Final

MOST_NAMES: Final = 50_000
"""Names that are kept for one who does not take them. Beyond, it is told that anything may have changed: queues that come and go make
names without end."""


class Changes:
    """The names of queues that have changed, as long as somebody wants to know; the queues of a broker share one.

    Attributes:
        names: those that have changed since anybody took them; None while nobody wants to know, so that nothing is kept.
    """

    __slots__ = ("_readers", "names")

    def __init__(self) -> None:
        self.names: set[str] | None = None
        self._readers: set[Reader] = set()

    def note(self, name: str) -> None:
        """A queue is made, or is no more; one that changes puts its name in by itself."""
        if self.names is not None:
            self.names.add(name)
            if len(self.names) > MOST_NAMES:
                self.hand_out()

    def read(self) -> Reader:
        """Begin to want to know."""
        if self.names is None:
            self.names = set()
        else:
            # What was so before is none of its business.
            self.hand_out()
        reader = Reader(self)
        self._readers.add(reader)
        return reader

    def hand_out(self) -> None:
        """To each reader what it has not had."""
        if self.names:
            for reader in self._readers:
                reader.add(self.names)
            self.names = set()

    def leave(self, reader: Reader) -> None:
        """One wants to know no more; behind the last nothing is kept."""
        self._readers.discard(reader)
        if not self._readers:
            self.names = None


class Reader:
    """One who wants to know; to be ended.

    Args:
        changes: of all queues.
    """

    __slots__ = ("_changes", "_names")

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        # None where they are too many.
        self._names: set[str] | None = set()

    def add(self, names: set[str]) -> None:
        """These have changed, too."""
        if self._names is not None:
            self._names |= names
            if len(self._names) > MOST_NAMES:
                self._names = None

    def take(self) -> set[str] | None:
        """What has changed since this was called last; None where any queue may have, and any may be gone."""
        self._changes.hand_out()
        names, self._names = self._names, set()
        return names

    def end(self) -> None:
        """Want to know no more."""
        self._changes.leave(self)
