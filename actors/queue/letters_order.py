"""The order in which dead letters that were handed over are stored: that in which they left their queue.

Of a queue without levels it is that of their numbers. Of one with levels the oldest of the highest level leaves first. What comes again,
since nothing was heard of it, keeps its place, whole or in parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from actors.queue.vocabulary.replies import DeadLetter


class Placed(NamedTuple):
    """Letters in order.

    Attributes:
        letters: by their first numbers.
        again: whether some came that were there.
    """

    letters: dict[int, DeadLetter]
    again: bool


def placed(there: Iterable[DeadLetter], come: Sequence[DeadLetter]) -> Placed:
    """Those that are there in order, and those that have come: in the place of what they overlap, or behind all."""
    known = list(there)
    rows: list[tuple[int, int, DeadLetter]] = []
    replaced: set[int] = set()
    for number, letter in enumerate(come):
        ((start, stop),) = letter.ranges
        among = [at for at, one in enumerate(known) if one.ranges[0][0] < stop and start < one.ranges[0][1]]
        replaced.update(among)
        rows.append((among[0], start, letter) if among else (len(known), number, letter))
    rows += [(at, one.ranges[0][0], one) for at, one in enumerate(known) if at not in replaced]
    rows.sort(key=lambda row: row[:2])
    return Placed({letter.ranges[0][0]: letter for _, _, letter in rows}, bool(replaced))
