"""The stored batches of a queue with levels in the journal: each level is a stream, and all of them share the queue's numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue.state.entries import Extent
from actors.queue.state.levels import LeveledExtent
from actors.storage.entry_cache import JournalEntry
from actors.storage.table import JournalEntryTable
from journal import JournalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.errors import StorageError
    from actors.queue.state.entries import Entry
    from actors.queue.vocabulary.events import MessagesAdded
    from actors.storage.entry_cache import EntryCache
    from actors.storage.large_batches import Table
    from journal import Journal, Located


class LevelStream:
    """A level as what has batches in a stream."""

    __slots__ = ("_table", "stream")

    def __init__(self, table: JournalEntryTable, level: int) -> None:
        self._table = table
        self.stream = table.stream + level

    @property
    def wake(self) -> Callable[[], None] | None:
        """The queue's."""
        return self._table.wake


class LeveledJournalEntry(JournalEntry):
    """An entry that knows its level."""

    __slots__ = ("level",)


class LeveledJournalTable(JournalEntryTable):
    """See ``LeveledTable`` and ``JournalEntryTable``.

    Args:
        levels: the highest of them; 0 is the lowest.
        *others: as of ``JournalEntryTable``.

    Attributes:
        streams: those of the levels, by level; the lowest has the queue's number.
    """

    __slots__ = ("_found", "streams")

    def __init__(
        self,
        levels: int,
        journal: Journal,
        stream: int,
        cache: EntryCache,
        failed: Callable[[StorageError], None],
        lost: Callable[[int], StorageError],
    ) -> None:
        super().__init__(journal, stream, cache, failed, lost)
        self.streams = range(stream, stream + levels + 1)
        # The batch that was looked up last: its messages are often asked for one after another.
        self._found: LeveledExtent | None = None

    def add(self, event: MessagesAdded, number: int) -> int:
        """See ``EntryTable``."""
        first, stream = event.first, self.stream + event.priority
        if self.replaying:
            return self.appended
        entry = self._leveled_entry(event.priority, first, first + len(event.batch), self.appended)
        entry.know(
            event.batch,
            event=number,
            enqueued_us=event.enqueued_us,
            ttl_us=event.ttl_us,
            published=event.published,
        )
        self._entries[first] = entry
        shared, self.shared = self.shared, None
        if entry.large:
            self._large.fresh[stream, first] = event, number
            entry.forget()
        elif shared is None:
            self._cache.keep(entry, event.batch)
        else:
            self._cache.share(*shared, stream, entry, event.batch)
        return self.appended

    def at(self, sequence: int) -> Entry | None:
        """See ``EntryTable``."""
        entry = self._entries.get(sequence)
        if entry is not None:
            return entry
        try:
            held = self._journal.holder(self.streams, sequence)
        except (JournalError, OSError) as error:
            raise self._unreadable(error) from error
        return None if held is None else self._entry_of(*held)

    def extents(self, start: int, stop: int) -> Iterator[Extent]:
        """See ``EntryTable``."""
        for _, first, after, size in self.leveled(start, stop):
            yield Extent(first, after, size)

    def leveled(self, start: int, stop: int) -> Iterator[LeveledExtent]:
        """See ``LeveledTable``."""
        if start >= stop:
            return
        entry = self._entries.get(start)
        if entry is not None and stop <= entry.stop:
            # The usual case: what was delivered is acknowledged.
            yield LeveledExtent(entry.level, start, entry.stop, entry.stored)
            return
        found = self._found
        if found is not None and found.first <= start and stop <= found.stop:
            yield found
            return
        try:
            for stream, (first, after, size) in self._journal.spans_of_all(self.streams, start, stop):
                self._found = found = LeveledExtent(stream - self.stream, first, after, size)
                yield found
        except (JournalError, OSError) as error:
            raise self._unreadable(error) from error

    def next_in(self, level: int, position: int) -> Entry | None:
        """See ``LeveledTable``."""
        entry = self._entries.get(position)
        if entry is not None and entry.level == level:
            return entry
        stream = self.stream + level
        try:
            first = self._journal.nearest(stream, position)
            located = None if first is None else self._journal.locate(stream, first)
        except (JournalError, OSError) as error:
            raise self._unreadable(error) from error
        return None if located is None else self._entry_of(stream, located)

    def nearest(self, level: int, position: int) -> int | None:
        """See ``LeveledTable``."""
        try:
            return self._journal.nearest(self.stream + level, position)
        except (JournalError, OSError) as error:
            raise self._unreadable(error) from error

    def stop_before(self, level: int, first: int) -> int:
        """See ``LeveledTable``."""
        try:
            return self._journal.stop_before(self.stream + level, first)
        except (JournalError, OSError) as error:
            raise self._unreadable(error) from error

    def count_in(self, level: int, start: int, stop: int) -> int:
        """See ``LeveledTable``."""
        try:
            return self._journal.items_within(self.stream + level, start, stop)
        except (JournalError, OSError) as error:
            raise self._unreadable(error) from error

    def discard(self, first: int) -> None:
        """See ``EntryTable``."""
        cache, large, entry = self._cache, self._large, self._entries.get(first)
        if large.fresh or large.read:
            for stream in self.streams:
                large.discard((stream, first))
        if entry is not None:
            cache.discard(self.stream + entry.level, first, entry if cache.shares else None)

    def leave(self) -> bool:
        """See ``JournalEntryTable``."""
        try:
            first, entry = self._entries.popitem()
        except KeyError:
            return False
        self._cache.discard(self.stream + entry.level, first, entry)
        return True

    def _whose(self, entry: Entry) -> Table:
        return LevelStream(self, entry.level)

    def _entry_of(self, stream: int, located: Located) -> JournalEntry:
        entry = self._entries.get(located.first)
        if entry is None:
            entry = self._leveled_entry(stream - self.stream, located.first, located.stop, located.payload_bytes)
            self._entries[located.first] = entry
        return entry

    def _leveled_entry(self, level: int, first: int, stop: int, stored: int) -> LeveledJournalEntry:
        entry = LeveledJournalEntry(first, stop, self, (self.stream + level, first), self._cache, stored)
        entry.level = level
        return entry


def new_table(
    levels: int | None,
    journal: Journal,
    number: int,
    cache: EntryCache,
    failed: Callable[[StorageError], None],
    lost: Callable[[int], StorageError],
) -> JournalEntryTable:
    """The table of queue ``number``, with so many levels above its lowest; None for a queue without levels."""
    if levels is None:
        return JournalEntryTable(journal, number, cache, failed, lost)
    return LeveledJournalTable(levels, journal, number, cache, failed, lost)
