"""How fast it went between two moments, from what producers logged: for what is promised of throughput and of a message's time."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Final, NamedTuple

from tests.fault.machines.judge import SECOND, numbers_of
from tests.fault.machines.records import SENT, Confirmed, Handed, read_log


class Figures(NamedTuple):
    """Of all producers together.

    Attributes:
        confirmed: messages confirmed in between.
        rate: of them a second.
        median: seconds from when a producer took a batch to its confirmation, of those confirmed in between; None for none.
        p99: what 99 of 100 of them took at most.
        longest: what the slowest took.
    """

    confirmed: int
    rate: float
    median: float | None
    p99: float | None
    longest: float | None


def between(folder: Path, start: int, end: int) -> Figures:
    """Of the logs of a load, from one time to another: those of marks, or `records.now`."""
    if end <= start:
        raise ValueError("the end is not after the start")
    confirmed, times = 0, []
    for number in numbers_of(folder, SENT):
        waiting: deque[Handed] = deque()
        for event in read_log(folder / SENT.format(number)):
            if isinstance(event, Handed):
                waiting.append(event)
            elif isinstance(event, Confirmed):
                inside = start <= event.time < end
                confirmed += event.messages if inside else 0
                # A batch is done when the last of it is confirmed.
                while waiting and waiting[0].first + waiting[0].messages <= event.first + event.messages:
                    taken = waiting.popleft().time
                    if inside:
                        times.append((event.time - taken) / SECOND)
    times.sort()
    return Figures(confirmed, confirmed * SECOND / (end - start), *(of(times, share) for share in SHARES))


SHARES: Final = (0.5, 0.99, 1.0)


def of(times: list[float], share: float) -> float | None:
    """What this share of sorted times is at most."""
    return times[max(0, -(-len(times) * round(share * 100) // 100) - 1)] if times else None
