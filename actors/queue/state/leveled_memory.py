"""The table of a queue with levels in memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from actors.queue.state.entries import MIN_COMPACTED, NEVER_ASKED, Entry, MemoryEntryTable
from actors.queue.state.leveled_log import LeveledLog
from actors.queue.state.levels import LeveledExtent
from actors.queue.state.log import QueueLog
from actors.queue.vocabulary.settings import ENTRY_OVERHEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.queue.state.entries import EntryTable
    from actors.queue.vocabulary.events import MessagesAdded
    from actors.queue.vocabulary.settings import QueueSettings


class LeveledEntry(Entry):
    """An entry that knows its level."""

    __slots__ = ("level",)

    def __init__(self, first: int, stop: int, table: EntryTable, level: int) -> None:
        super().__init__(first, stop, table)
        self.level = level


class _Batches:
    """The numbers of a level's batches, ascending; those of batches that are gone stay until half are."""

    __slots__ = ("firsts", "stops", "there")

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.stops: list[int] = []
        self.there = 0


class LeveledMemoryTable(MemoryEntryTable):
    """See ``LeveledTable`` and ``MemoryEntryTable``."""

    __slots__ = ("_levels",)

    def __init__(self, overhead: int) -> None:
        super().__init__(overhead)
        self._levels: dict[int, _Batches] = {}

    def add(self, event: MessagesAdded, number: int) -> int:
        """See ``EntryTable``."""
        first, stop = event.first, event.first + event.batch.count
        entry = LeveledEntry(first, stop, NEVER_ASKED, event.priority)
        entry.know(
            event.batch,
            event=number,
            enqueued_us=event.enqueued_us,
            ttl_us=event.ttl_us,
            published=event.published,
        )
        batches = self._levels.setdefault(event.priority, _Batches())
        batches.firsts.append(first)
        batches.stops.append(stop)
        batches.there += 1
        self._entries[first] = entry
        self._firsts.append(first)
        return entry.size

    def discard(self, first: int) -> None:
        """See ``EntryTable``."""
        entry = self._entries.get(first)
        if entry is None:
            return
        batches = self._levels[entry.level]
        batches.there -= 1
        super().discard(first)
        if len(batches.firsts) > MIN_COMPACTED and len(batches.firsts) > 2 * batches.there:
            kept = [
                (low, stop) for low, stop in zip(batches.firsts, batches.stops, strict=True) if low in self._entries
            ]
            batches.firsts = [low for low, _ in kept]
            batches.stops = [stop for _, stop in kept]

    def leveled(self, start: int, stop: int) -> Iterator[LeveledExtent]:
        """See ``LeveledTable``."""
        for first, after, size in self.extents(start, stop):
            yield LeveledExtent(self._entries[first].level, first, after, size)

    def next_in(self, level: int, position: int) -> Entry | None:
        """See ``LeveledTable``."""
        first = self.nearest(level, position)
        return None if first is None else self._entries[first]

    def nearest(self, level: int, position: int) -> int | None:
        """See ``LeveledTable``."""
        batches = self._levels.get(level)
        if batches is None:
            return None
        firsts, stops, entries = batches.firsts, batches.stops, self._entries
        for at in range(max(0, bisect_right(firsts, position) - 1), len(firsts)):
            if stops[at] > position and firsts[at] in entries:
                return firsts[at]
        return None

    def stop_before(self, level: int, first: int) -> int:
        """See ``LeveledTable``."""
        batches = self._levels.get(level)
        if batches is None:
            return 0
        # Be it gone: there is none of the level between.
        at = bisect_left(batches.firsts, first) - 1
        return batches.stops[at] if at >= 0 else 0

    def count_in(self, level: int, start: int, stop: int) -> int:
        """See ``LeveledTable``."""
        batches = self._levels.get(level)
        if batches is None:
            return 0
        count = 0
        for at in range(max(0, bisect_right(batches.firsts, start) - 1), len(batches.firsts)):
            low, high = batches.firsts[at], batches.stops[at]
            if low >= stop:
                break
            if low in self._entries:
                count += max(0, min(high, stop) - max(low, start))
        return count


def log_in_memory(settings: QueueSettings) -> QueueLog:
    """The log of a new queue in memory, with the levels that its settings say."""
    if settings.max_priority is None:
        return QueueLog()
    return LeveledLog(LeveledMemoryTable(ENTRY_OVERHEAD_BYTES))
