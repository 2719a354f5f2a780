"""The durable part of a queue with levels: the fold over its events, as of every queue, and beside it what each level holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from actors.queue.state.levels import Levels
from actors.queue.state.log import QueueLog
from actors.queue.structures.ranges import RangeSet
from actors.queue.vocabulary import events

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.queue.state.levels import LeveledTable
    from actors.queue.state.stage import Stage
    from actors.queue.structures.ranges import Range


@dataclass(repr=False, slots=True)
class LeveledLog(QueueLog):
    """See ``QueueLog``.

    Attributes:
        levels: what is done with and what is stored, by level; ``acknowledged`` is the same object.
    """

    levels: Levels = field(init=False, compare=False)

    def __post_init__(self) -> None:
        self.levels = Levels(self.leveled_table)
        # It is asked as the other is, and nobody but this module changes it.
        self.acknowledged = cast("RangeSet", self.levels)

    @property
    def leveled_table(self) -> LeveledTable:
        """The stored batches, which know their levels."""
        return cast("LeveledTable", self.table)

    def apply(self, event: events.Event, number: int = 0) -> None:
        """See ``QueueLog``."""
        if isinstance(event, events.MessagesAdded):
            before, count = self.next_sequence, event.batch.count
            super(LeveledLog, self).apply(event, number)
            if self.next_sequence > before:
                self.levels.stop = self.next_sequence
                level = self.levels.at(event.priority)
                if event.stage is None:
                    level.stored += count
        elif type(event) is events.StagesEnded:
            published = [self.stages[key] for key in event.published if key in self.stages]
            super(LeveledLog, self).apply(event, number)
            for stage in published:
                self._count(stage)
        else:
            super(LeveledLog, self).apply(event, number)

    def unwanted(self) -> RangeSet:
        """See ``QueueLog``; it has as many ranges as the levels alternate."""
        ranges = RangeSet(self.levels.meeting(0, self.next_sequence))
        for stage in self.stages.values():
            ranges.extend(stage.ranges)
        return ranges

    def count_anew(self) -> int:
        """Have stored what there are batches of, where some were lost and nothing is staged; returns how many messages were lost."""
        before, table = self.stored_messages, self.leveled_table
        self.stored_messages = self.stored_batches = self.stored_bytes = 0
        for level in self.levels.by_number.values():
            level.stored = 0
        for number, first, stop, size in table.leveled(0, self.next_sequence):
            level = self.levels.at(number)
            wanted = stop - first - level.acknowledged.count_within(first, stop)
            if wanted:
                level.stored += wanted
                self.stored_messages += wanted
                self.stored_batches += 1
                self.stored_bytes += size + table.overhead
        if self.calendar is not None:
            self.stored_messages += self.calendar.messages
            self.stored_bytes += self.calendar.bytes
        self.total_purged += before - self.stored_messages
        return before - self.stored_messages

    def _count(self, stage: Stage) -> None:
        """What a stage held is stored from here on, each batch in its level."""
        for start, stop in stage.ranges:
            for level, first, after, _ in self.leveled_table.leveled(start, stop):
                self.levels.at(level).stored += min(stop, after) - max(start, first)

    def _remove(self, ranges: Iterable[Range]) -> int:
        removed = 0
        levels, table = self.levels, self.leveled_table
        for start, end in ranges:
            stop = min(end, self.next_sequence)
            for extent in table.leveled(start, stop):
                number, first, after, size = extent
                low, high = max(start, first), min(stop, after)
                new = levels.end(extent, low, high)
                if not new:
                    continue
                level = levels.at(number)
                level.stored -= new
                removed += new
                if self.returns:
                    self.returns.forget(low, high)
                    if self.retries:
                        self.retries.forget(low, high)
                if level.acknowledged.reach(first) >= after:
                    self.stored_batches -= 1
                    self.stored_bytes -= size + table.overhead
                    table.discard(first)
                    self.delayed.pop(first, None)
        self.stored_messages -= removed
        return removed
