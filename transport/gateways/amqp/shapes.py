"""Shapes of properties that were checked: what has the same shape is properties too, and need not be walked through again.

Whether bytes are properties is said by a few of them alone: the flags, lengths, types, and what makes a float no number. A program's
messages mostly differ in other bytes. So one that was walked through leaves a mask of those that say it, and what they are. Celery's
messages have twenty headers: a walk through them takes as long as a fifth of all else that is done about one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

LEAST_BYTES: Final = 48
"""Of properties whose shape is remembered: a walk through less is as quick."""
MOST_BYTES: Final = 2_048
"""And of those at most."""
MOST_SHAPES: Final = 128
"""Each of properties of another length; they take four times that."""
ONE_IN: Final = 4
"""Of so many that have no known shape one is remembered: where no two are alike that is done in vain."""

Places = tuple[tuple[int, int], ...]
"""Begin and end of each property, by its position."""


class Shape(NamedTuple):
    """Of one length.

    Attributes:
        mask: the bits that say it.
        bits: these.
        places: where the properties are.
    """

    mask: int
    bits: int
    places: Places


class Shapes:
    """Those that were seen last.

    Attributes:
        due: how many more may be walked through before one of them is remembered.
    """

    __slots__ = ("_by_length", "due")

    def __init__(self) -> None:
        self._by_length: dict[int, Shape] = {}
        self.due = 0

    def find(self, raw: bytes) -> Shape | None:
        """The shape of these bytes, if it is known: then they are properties."""
        shape = self._by_length.get(len(raw))
        if shape is None or int.from_bytes(raw, "big") & shape.mask != shape.bits:
            return None
        return shape

    def wants(self, raw: bytes) -> bool:
        """Whether the shape of these properties is to be remembered; asked once of all that have none that is known."""
        self.due -= 1
        if self.due >= 0 or not LEAST_BYTES <= len(raw) <= MOST_BYTES:
            return False
        self.due = ONE_IN - 1
        return True

    def remember(self, raw: bytes, mask: bytes | bytearray, places: Places) -> None:
        """Remember the shape of properties; ``mask`` has the bits set that say it."""
        if len(self._by_length) >= MOST_SHAPES and len(raw) not in self._by_length:
            self._by_length.clear()
        bits = int.from_bytes(mask, "big")
        self._by_length[len(raw)] = Shape(bits, int.from_bytes(raw, "big") & bits, places)
