"""Where the entries of a queue are: in memory, or behind the same interface in a journal."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple, Protocol

from actors.errors import StorageError
from actors.queue.state.entry import Entry, Loader, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.batch import MessageBatch
    from actors.errors import ActorError
    from actors.queue.vocabulary.events import MessagesAdded

MIN_COMPACTED = 64
"""Below so many numbers the index is not worth rebuilding."""


class Extent(NamedTuple):
    """A stored batch as it counts towards a queue's limit: its numbers ``first`` <= n < ``stop`` and its bytes."""

    first: int
    stop: int
    size: int


class EntryTable(Loader, Protocol):
    """The stored batches of one queue by sequence number.

    What it answers never changes while a message is stored, so asking it is no input or output to the queue's state, which stays a
    pure fold, wherever the answer comes from.

    Attributes:
        overhead: bytes that each batch counts for beside its size.
    """

    overhead: int

    def add(self, event: MessagesAdded, number: int) -> int:
        """Take in a batch that an event has stored; ``number`` is the event's. Returns its size as ``extents`` gives it."""

    def at(self, sequence: int) -> Entry | None:
        """The entry that holds a message, the same object as long as anybody has it; None when there is none any more."""

    def lost(self, sequence: int) -> ActorError:
        """The error to raise for a message that is stored, and that ``at`` finds no entry of."""

    def extents(self, start: int, stop: int) -> Iterator[Extent]:
        """The batches with a message in a range, ascending; those that are gone are passed over."""

    def discard(self, first: int) -> None:
        """Nobody wants a message of the batch that begins with ``first`` any more."""


class MemoryEntryTable:
    """Entries in memory, which have their messages until they are discarded."""

    __slots__ = ("_entries", "_firsts", "overhead")

    def __init__(self, overhead: int) -> None:
        self.overhead = overhead
        self._entries: dict[int, Entry] = {}
        # Ascending keys of entries; those of entries that are gone stay until half are, so that no deletion moves the rest.
        self._firsts: list[int] = []

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MemoryEntryTable):
            return NotImplemented
        return self._entries == other._entries

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def slots(self) -> int:
        """How many places the index takes, with those of entries that are gone."""
        return len(self._firsts)

    def add(self, event: MessagesAdded, number: int) -> int:
        """See ``EntryTable``."""
        first = event.first
        entry = Entry(first, first + len(event.batch), _NEVER_ASKED)
        entry.know(event.batch, event=number, enqueued_us=event.enqueued_us, ttl_us=event.ttl_us)
        self._entries[first] = entry
        self._firsts.append(first)
        return entry.size

    def at(self, sequence: int) -> Entry | None:
        """See ``EntryTable``."""
        entry = self._entries.get(sequence)
        if entry is not None:
            return entry
        index = bisect_right(self._firsts, sequence) - 1
        entry = self._entries.get(self._firsts[index]) if index >= 0 else None
        return entry if entry is not None and sequence < entry.stop else None

    def extents(self, start: int, stop: int) -> Iterator[Extent]:
        """See ``EntryTable``."""
        firsts, entries = self._firsts, self._entries
        for index in range(max(0, bisect_right(firsts, start) - 1), len(firsts)):
            if firsts[index] >= stop:
                return
            entry = entries.get(firsts[index])
            if entry is not None and entry.stop > start:
                yield Extent(entry.first, entry.stop, entry.size)

    def discard(self, first: int) -> None:
        """See ``EntryTable``."""
        entries = self._entries
        entries.pop(first, None)
        if not entries:
            self._firsts = []
        elif len(self._firsts) > MIN_COMPACTED and len(self._firsts) > 2 * len(entries):
            # Numbers only grow, so the dict's order of insertion is the ascending one. A new list: an iteration may have the old.
            self._firsts = list(entries)

    def lost(self, sequence: int) -> StorageError:
        """See ``EntryTable``."""
        return StorageError(f"message {sequence} is stored, and its batch is not in memory: this is a defect")

    def load(self, entry: Entry) -> MessageBatch:
        """Never asked for: an entry in memory has its messages."""
        raise AssertionError(f"{entry} is in memory and does not know its messages")


_NEVER_ASKED = MemoryEntryTable(0)
"""What entries in memory have for a table. With a way back to their own, a queue that is deleted would stay until the collector looks
at everything, which may be never."""


def stored_entry(table: EntryTable, sequence: int) -> Entry:
    """The entry of a message that is stored; what ``table`` calls ``lost`` is raised where there is none."""
    entry = table.at(sequence)
    if entry is None:
        raise table.lost(sequence)
    return entry


def spans_of(
    table: EntryTable, start: int, stop: int, deliveries: int = 0, replayed: bool = False, failures: int = 0
) -> Iterator[Span]:
    """Spans of all the messages of a range, which are stored, with one history, batch by batch."""
    position = start
    while position < stop:
        entry = stored_entry(table, position)
        end = min(stop, entry.stop)
        yield Span(position, end, entry, deliveries, replayed, failures)
        position = end
