"""A histogram: how often a figure was how large, in buckets that are known beforehand. It keeps nothing but the counts."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

STORING_SECONDS: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0
)  # fmt: skip
"""Bounds for how long it takes to store something: from memory to a disk that hardly answers."""


class Histogram:
    """Counts by size.

    One thread observes at a time. Any other may read meanwhile, and sees an observation whole or not at all in `counts`.

    Args:
        bounds: the greatest figure of each bucket, ascending; what is greater than all of them is counted too.

    Attributes:
        bounds: as given.
        counts: how many were observed in each bucket alone, and behind them those above all bounds.
        sum: of all that was observed.
    """

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        assert list(bounds) == sorted(set(bounds)), f"bounds ascend: {bounds}"
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, figure: float, times: int = 1) -> None:
        """Count a figure, ``times`` times at once: a batch costs what one message does."""
        self.counts[bisect_left(self.bounds, figure)] += times
        self.sum += figure * times
