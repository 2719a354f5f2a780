"""Some hundred places with a number each: the least from a place on, and the last place with no more than so much, are found at once."""

from __future__ import annotations

from math import inf


class Minima:
    """A tree of minima: to change one place, or to ask, costs the logarithm of how many there are.

    Args:
        places: how many there are; each has ``inf`` at first.
    """

    __slots__ = ("_size", "_tree")

    def __init__(self, places: int) -> None:
        self._size = 1 << (places - 1).bit_length()
        # The root is the first, and the children of n are 2n and 2n + 1; nothing is at 0.
        self._tree = [inf] * (2 * self._size)

    def set(self, place: int, value: float) -> None:
        """Have a place have another number."""
        tree = self._tree
        at = self._size + place
        tree[at] = value
        while at > 1:
            least = min(tree[at], tree[at ^ 1])
            at >>= 1
            if tree[at] == least:
                return
            tree[at] = least

    def least(self, start: int = 0) -> float:
        """The least of all from a place on; ``inf`` where there is none."""
        tree = self._tree
        if not start:
            return tree[1]
        if start >= self._size:
            return inf
        at = self._size + start
        found = tree[at]
        while at > 1:
            if not at & 1:
                found = min(found, tree[at + 1])
            at >>= 1
        return found

    def last_within(self, most: float) -> int | None:
        """The last place that has ``most`` or less; None where there is none."""
        tree, at = self._tree, 1
        if tree[1] > most:
            return None
        while at < self._size:
            at = 2 * at + (tree[2 * at + 1] <= most)
        return at - self._size
