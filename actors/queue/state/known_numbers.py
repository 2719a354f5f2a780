"""What queues know of a sender that has come again: what they have stored of it is not stored twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple


class Known(NamedTuple):
    """What the queues know of a producer that has come again.

    Attributes:
        by_queue: the number behind the last message that each has stored of it.
        below: the greatest of these.
        event: by which the last of that was stored.
        least: what is below is in each queue that it went to.
    """

    by_queue: Mapping[str, int]
    below: int
    event: int
    least: int = 0

    def new(
        self, queues: tuple[str, ...], start: int, stop: int, sequence: int
    ) -> Iterator[tuple[tuple[str, ...], int, int]]:
        """Of these queues those that have not stored them, for each part of some messages of which that is the same; else as `_runs`."""
        numbers = {queue: max(self.by_queue.get(queue, 0), self.least) for queue in queues}
        ends = {number - sequence for number in numbers.values()}
        for first, end in pairwise(sorted({start, stop, *(each for each in ends if start < each < stop)})):
            found = tuple([queue for queue in queues if numbers[queue] <= sequence + first])
            if found:
                yield found, first, end
