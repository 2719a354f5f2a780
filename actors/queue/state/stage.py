"""What a queue holds back of a transaction: the messages of one stage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.queue.structures.ranges import RangeSet

if TYPE_CHECKING:
    from actors.queue.state.accepted_ids import Digest
    from actors.queue.vocabulary.stages import StageNumbers


@dataclass(slots=True)
class Stage:
    """The messages of one stage in one queue, as whole batches.

    Attributes:
        ranges: their numbers.
        messages: how many there are.
        batches: how many batches they were stored in.
        bytes: what these count for towards a limit, each with the table's overhead.
        delayed: batches that can be received only later, whenever they are published: first number to the number after the last and
            microseconds since the epoch.
        numbers: how far this queue has it, where it is written through an exchange; None where its sender sends to this queue.
        ids: of its messages that have an id that counts, by their numbers, the digests.
    """

    ranges: RangeSet = field(default_factory=RangeSet)
    messages: int = 0
    batches: int = 0
    bytes: int = 0
    delayed: dict[int, tuple[int, int]] = field(default_factory=dict)
    numbers: StageNumbers | None = None
    ids: dict[int, Digest] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Stage({list(self.ranges)}, bytes={self.bytes})"

    @property
    def first(self) -> int:
        """The lowest of its numbers."""
        return next(iter(self.ranges))[0]

    def add(self, start: int, stop: int, size: int) -> None:
        """Take in a batch of ``size`` bytes."""
        self.ranges.add(start, stop)
        self.messages += stop - start
        self.batches += 1
        self.bytes += size
