"""Destinations, each with how many bindings lead there: it is one as long as there is one of them."""

from __future__ import annotations

from actors.exchanges.vocabulary import Destination


class Counted(dict[Destination, int]):
    """A count by destination, in the order in which they were added."""

    __slots__ = ()

    def add(self, destination: Destination) -> None:
        """One binding more leads there."""
        self[destination] = self.get(destination, 0) + 1

    def remove(self, destination: Destination) -> None:
        """One less: with the last the destination is none."""
        left = self[destination] - 1
        if left:
            self[destination] = left
        else:
            del self[destination]
