"""The time of day in a run that sets it forward now and then: by the loop's time, and back."""

from __future__ import annotations

from bisect import bisect_right

START = 1_700_000_000.0
"""Seconds since the epoch when a run begins."""


class Wall:
    """Seconds since the run began, as the clock on the wall has them; it is only ever set forward."""

    def __init__(self) -> None:
        self._times = [0.0]
        self._ahead = [0.0]

    def leapt(self, time: float, seconds: float) -> None:
        """It is set forward, at a time of the loop behind all that are known."""
        self._times.append(time)
        self._ahead.append(self._ahead[-1] + seconds)

    def at(self, time: float) -> float:
        """What it shows at a time of the loop."""
        return time + self._ahead[bisect_right(self._times, time) - 1]

    def first(self, shown: float) -> float:
        """The first time of the loop at which it shows so much."""
        for index in range(len(self._times) - 1, -1, -1):
            if self._times[index] + self._ahead[index] <= shown:
                end = self._times[index + 1] if index + 1 < len(self._times) else shown
                return min(shown - self._ahead[index], end)
        return shown
