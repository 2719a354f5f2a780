"""What senders were told of as lost: the leader that had it cuts it off its log and counts it, or has put its whole journal aside by then.

The latter where a bit of that leader's disk was flipped as well: it meets that when it comes back, before it knows what the others lack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.fault.machines.judge import numbers_of
from tests.fault.machines.records import SENT, Gone, payload_of, read_log

SEGMENTS: Final = "damaged-*/[0-9]*.segment"
"""Of journals that were put aside, in a node's directory; not their spare ones, which have what is of no use any more."""


def told_of(folder: Path) -> Iterator[tuple[int, int]]:
    """Each message that a load's producers were told of as lost: the producer's number, and its own."""
    for sender in numbers_of(folder, SENT):
        for event in read_log(folder / SENT.format(sender)):
            if isinstance(event, Gone):
                yield from ((sender, event.first + place) for place in range(event.messages))


def lie_aside(told: Iterable[tuple[int, int]], size: int, directories: Iterable[Path]) -> int:
    """How many of these messages, of ``size`` bytes each, lie in journals that were put aside whole in the nodes' directories."""
    contents = [path.read_bytes() for directory in directories for path in directory.glob(SEGMENTS)]
    payloads = {payload_of(sender, number, size) for sender, number in told}
    return sum(any(payload in content for content in contents) for payload in payloads)
