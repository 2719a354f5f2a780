"""A queue's stored batches in the journal, and the memory that recent ones are kept in."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakValueDictionary

from actors.errors import QueueGoneError, StorageError
from actors.queue.state.entries import Entry, Extent
from actors.storage.codec import decode_added
from actors.storage.failures import storage_error
from journal import ITEMS_PREFIX_BYTES, RECORD_HEADER_BYTES, ByteBoundedCache, JournalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.batch import MessageBatch
    from actors.errors import ActorError
    from actors.queue.vocabulary.events import MessagesAdded
    from journal import Journal, Located

RECORD_OVERHEAD_BYTES = RECORD_HEADER_BYTES + ITEMS_PREFIX_BYTES
"""What the journal keeps for a record beside its payload: its header, and which messages it holds."""

MEASURED_BYTES = 64 * 1024
"""A record of so many bytes is taken for as large as its batch; of a smaller one the batch is read."""

EntryCache: TypeAlias = "ByteBoundedCache[tuple[int, int], Entry]"
"""Entries that have their messages in memory, of all queues together, by queue number and first message."""


def entry_cache(limit: int) -> EntryCache:
    """A cache of at most ``limit`` bytes of batches; an entry that has to leave forgets its messages."""
    return ByteBoundedCache(limit, on_evict=lambda _key, entry: entry.forget())


class JournalEntry(Entry):
    """An entry that knows what its record takes, and has the cache know when its messages are used.

    Attributes:
        key: what the cache has it under.
        stored: bytes of the record's payload.
    """

    __slots__ = ("_cache", "key", "stored")

    def __init__(
        self, first: int, stop: int, table: JournalEntryTable, key: tuple[int, int], cache: EntryCache, stored: int
    ) -> None:
        super().__init__(first, stop, table)
        self._cache = cache
        self.key = key
        self.stored = stored

    @property
    def most_bytes(self) -> int:
        """See ``Entry``; of a large record without reading it. Beside little the names of its senders could be much."""
        if self.size or self.stored >= MEASURED_BYTES:
            return self.size or self.stored
        return self.batch.nbytes

    @property
    def batch(self) -> MessageBatch:
        """See ``Entry``; what is in the cache stays the longer for it."""
        self._cache.get(self.key)
        batch = self._batch
        return batch if batch is not None else self._table.load(self)


class JournalEntryTable:
    """See ``EntryTable``. It holds an entry only while somebody else does: the cache, a lease, a delivery under way.

    Args:
        journal: where the batches are.
        stream: the queue's number.
        cache: shared by all queues.
        failed: told of the error, before it is raised, when a batch or where it is cannot be read: the broker has to end.
        lost: gives the error for a message of the queue that is stored and that the journal has no record of.

    Attributes:
        replaying: whether batches are only counted, as their events come from the journal itself.
        deleted: whether the queue is gone, and with it what it held.
        appended: bytes of the payload of the record that was appended last for this queue, which ``add`` is about.
    """

    __slots__ = (
        "_cache",
        "_entries",
        "_failed",
        "_journal",
        "_lost",
        "_stream",
        "appended",
        "deleted",
        "overhead",
        "replaying",
    )

    def __init__(
        self,
        journal: Journal,
        stream: int,
        cache: EntryCache,
        failed: Callable[[StorageError], None],
        lost: Callable[[int], StorageError],
    ) -> None:
        self.overhead = RECORD_OVERHEAD_BYTES
        self.replaying = False
        self.deleted = False
        self.appended = 0
        self._journal = journal
        self._stream = stream
        self._cache = cache
        self._failed = failed
        self._lost = lost
        self._entries: WeakValueDictionary[int, JournalEntry] = WeakValueDictionary()

    def add(self, event: MessagesAdded, number: int) -> int:
        """See ``EntryTable``; the event has been appended to the journal already."""
        first = event.first
        if self.replaying:
            located = self._locate(first)
            if located is None:
                raise self._lost(first)
            return located.payload_bytes
        entry = self._entry(first, first + len(event.batch), self.appended)
        entry.know(event.batch, event=number, enqueued_us=event.enqueued_us, ttl_us=event.ttl_us)
        self._entries[first] = entry
        self._cache.put((self._stream, first), entry, entry.size)
        return self.appended

    def at(self, sequence: int) -> Entry | None:
        """See ``EntryTable``."""
        entry = self._entries.get(sequence)
        if entry is not None:
            return entry
        located = self._locate(sequence)
        if located is None:
            return None
        entry = self._entries.get(located.first)
        if entry is None:
            entry = self._entry(located.first, located.stop, located.payload_bytes)
            self._entries[located.first] = entry
        return entry

    def lost(self, sequence: int) -> ActorError:
        """See ``EntryTable``; of a queue that was deleted meanwhile nothing is missing."""
        return QueueGoneError() if self.deleted else self._lost(sequence)

    def extents(self, start: int, stop: int) -> Iterator[Extent]:
        """See ``EntryTable``."""
        entry = self._entries.get(start)
        if entry is not None and stop <= entry.stop:
            # The usual case: what was delivered is acknowledged.
            yield Extent(start, entry.stop, entry.stored)
            return
        try:
            for first, end, size in self._journal.spans(self._stream, start, stop):
                yield Extent(first, end, size)
        except (JournalError, OSError) as error:
            raise self._unreadable(error) from error

    def _locate(self, sequence: int) -> Located | None:
        """Where the record of a message is: that may have to be read too, from a segment's index or from the segment."""
        try:
            return self._journal.locate(self._stream, sequence)
        except (JournalError, OSError) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> StorageError:
        """The error to raise for what the journal cannot read, which the broker is told: no other attempt would do better."""
        failure = error if isinstance(error, StorageError) else storage_error(error)
        self._failed(failure)
        return failure

    def _entry(self, first: int, stop: int, stored: int) -> JournalEntry:
        return JournalEntry(first, stop, self, (self._stream, first), self._cache, stored)

    def discard(self, first: int) -> None:
        """See ``EntryTable``; the disk gets the room back when the journal finds nothing alive beside it."""
        self._cache.discard((self._stream, first))

    def load(self, entry: Entry) -> MessageBatch:
        """See ``EntryTable``.

        Raises:
            QueueError: the queue was deleted meanwhile.
            StorageError: it cannot be read, which the broker has been told.
        """
        if self.deleted:
            raise QueueGoneError
        first = entry.first
        try:
            stored = self._journal.read(self._stream, first)
            event = decode_added(first, entry.stop - first, stored.payload)
        except (JournalError, OSError, StorageError) as error:
            raise self._unreadable(error) from error
        # The names of many senders may be in front of few messages, and are not counted.
        batch = entry.know(event.batch.compact(), event=stored.lsn, enqueued_us=event.enqueued_us, ttl_us=event.ttl_us)
        self._cache.put((self._stream, first), entry, entry.size)
        return batch
