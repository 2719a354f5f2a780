"""A queue's stored batches in the journal, and the memory that recent ones are kept in."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from actors.errors import QueueGoneError, StorageError
from actors.queue.state.entries import Extent
from actors.storage.calendar_streams import CalendarStreams
from actors.storage.codec import decode_added
from actors.storage.entry_cache import JournalEntry
from actors.storage.failures import storage_error
from journal import ITEMS_PREFIX_BYTES, RECORD_HEADER_BYTES, JournalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from actors.batch import MessageBatch
    from actors.errors import ActorError
    from actors.queue.state.entries import Entry
    from actors.queue.vocabulary.events import MessagesAdded
    from actors.storage.entry_cache import EntryCache
    from actors.storage.large_batches import Table
    from journal import Journal, Located, RecordPlace

RECORD_OVERHEAD_BYTES = RECORD_HEADER_BYTES + ITEMS_PREFIX_BYTES
"""What the journal keeps for a record beside its payload: its header, and which messages it holds."""


class JournalEntryTable:
    """See ``EntryTable``. It holds an entry only while somebody else does: the cache, a lease, a delivery under way.

    Args:
        journal: where the batches are.
        stream: the queue's number.
        cache: shared by all queues.
        failed: told of the error, before it is raised, when a batch or where it is cannot be read: the broker has to end.
        lost: gives the error for a message of the queue that is stored and that the journal has no record of.

    Attributes:
        stream: as given.
        wake: tells the queue that a batch may be had that could not be; None where nobody asks.
        replaying: whether batches are only counted, as their events come from the journal itself.
        deleted: whether the queue is gone, and with it what it held.
        appended: bytes of the payload of the record that was appended last for this queue, or is replayed, which ``add`` is about.
        shared: where that record is, and the queues that it gives these messages to, ascending; None where this one alone gets them.
        calendar: what the queue's calendar has in the journal.
    """

    __slots__ = (
        "_cache",
        "_entries",
        "_failed",
        "_journal",
        "_large",
        "_lost",
        "appended",
        "calendar",
        "deleted",
        "overhead",
        "replaying",
        "shared",
        "stream",
        "wake",
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
        self.shared: tuple[RecordPlace, Sequence[int]] | None = None
        self.calendar: CalendarStreams | None = None
        self._journal = journal
        self.stream = stream
        self._cache = cache
        self._large = cache.large
        self.wake: Callable[[], None] | None = None
        self._failed = failed
        self._lost = lost
        self._entries: WeakValueDictionary[int, JournalEntry] = WeakValueDictionary()

    def keep_calendar(self, new_stream: Callable[[], int]) -> None:
        """What waits long for its time may wait in streams of their own, of which ``new_stream`` gives the queue another."""
        self.calendar = CalendarStreams(self.stream, self._journal, new_stream, self._unreadable)

    def add(self, event: MessagesAdded, number: int) -> int:
        """See ``EntryTable``; the event has been appended to the journal already."""
        first = event.first
        if self.replaying:
            return self.appended
        entry = self._entry(first, first + len(event.batch), self.appended)
        entry.know(
            event.batch,
            event=number,
            enqueued_us=event.enqueued_us,
            ttl_us=event.ttl_us,
            published=event.published,
        )
        self._entries[first] = entry
        if entry.large:
            self._large.fresh[self.stream, first] = event, number
            entry.forget()
            self.shared = None
        elif self.shared is None:
            self._cache.keep(entry, event.batch)
        else:
            self._cache.share(*self.shared, self.stream, entry, event.batch)
            self.shared = None
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
            for first, end, size in self._journal.spans(self.stream, start, stop):
                yield Extent(first, end, size)
        except (JournalError, OSError) as error:
            raise self._unreadable(error) from error

    def at_hand(self, entry: Entry) -> bool:
        """See ``EntryTable``."""
        assert isinstance(entry, JournalEntry)
        return self._large.at_hand(self._whose(entry), entry.first, entry.stored)

    def _whose(self, entry: Entry) -> Table:  # noqa: ARG002 - of a queue with levels it is one of them
        """What says which stream has an entry's record."""
        return self

    def _locate(self, sequence: int) -> Located | None:
        """Where the record of a message is: that may have to be read too, from a segment's index or from the segment."""
        try:
            return self._journal.locate(self.stream, sequence)
        except (JournalError, OSError) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> StorageError:
        """The error to raise for what the journal cannot read, which the broker is told: no other attempt would do better."""
        failure = error if isinstance(error, StorageError) else storage_error(error)
        self._failed(failure)
        return failure

    def _entry(self, first: int, stop: int, stored: int) -> JournalEntry:
        return JournalEntry(first, stop, self, (self.stream, first), self._cache, stored)

    def discard(self, first: int) -> None:
        """See ``EntryTable``; the disk gets the room back when the journal finds nothing alive beside it."""
        cache, large = self._cache, self._large
        if large.fresh or large.read:
            large.discard((self.stream, first))
        cache.discard(self.stream, first, self._entries.get(first) if cache.shares else None)

    def end(self) -> None:
        """The queue is deleted: what the cache has of it leaves as other batches come."""
        self.deleted = True
        if self._entries:
            self._cache.leave(self)

    def leave(self) -> bool:
        """Have one batch leave the cache, now that nobody will ask for it; returns whether there was one."""
        try:
            first, entry = self._entries.popitem()
        except KeyError:
            return False
        self._cache.discard(self.stream, first, entry)
        return True

    def load(self, entry: Entry) -> MessageBatch:
        """See ``EntryTable``.

        Raises:
            QueueError: the queue was deleted meanwhile.
            StorageError: it cannot be read, which the broker has been told.
        """
        if self.deleted:
            raise QueueGoneError
        assert isinstance(entry, JournalEntry)
        first, whose = entry.first, self._whose(entry)
        stream = whose.stream
        try:
            if self._cache.shares and (place := self._journal.place(stream, first)) is not None:
                batch = self._cache.join(place, stream, entry)
                if batch is not None:
                    return batch
            if entry.large and (kept := self._large.fresh.get((stream, first))) is not None:
                event, number = kept
                return self._known(entry, event, event.batch, number)
            stored = (self._large.take(whose, first, entry.stop) if entry.large else None) or self._journal.read(
                stream, first
            )
            event = decode_added(first, entry.stop - first, stored.payload)
        except (JournalError, OSError, StorageError) as error:
            raise self._unreadable(error) from error
        # The names of many senders may be in front of few messages, and are not counted.
        batch = self._known(entry, event, event.batch.compact(), stored.lsn)
        if entry.large:
            return batch
        if len(stored.alike) > 1:
            self._cache.share(stored.place, stored.alike, stream, entry, batch)
        else:
            self._cache.keep(entry, batch)
        return batch

    @staticmethod
    def _known(entry: JournalEntry, event: MessagesAdded, batch: MessageBatch, number: int) -> MessageBatch:
        """Have an entry know what it is; a large one keeps no messages, for a receiver may hold it for long."""
        entry.know(batch, event=number, enqueued_us=event.enqueued_us, ttl_us=event.ttl_us, published=event.published)
        if entry.large:
            entry.forget()
        return batch
