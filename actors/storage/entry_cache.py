"""The memory that recent batches are kept in, of all queues together: one that several queues hold alike is kept, and counted, once."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol, TypeAlias

from actors.queue.state.entries import Entry
from actors.storage.large_batches import LARGE_BYTES, LargeBatches
from journal import ByteBoundedCache

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.batch import MessageBatch
    from actors.queue.state.entries import EntryTable
    from journal import Journal, RecordPlace

Key: TypeAlias = "tuple[int, int] | tuple[int, int, int]"
"""Of one queue's batch the queue's number and the first message; of a shared one the record's place and the lowest of the queues."""


ENTRY_BYTES = 640
"""What an entry in the cache takes beside its batch's bytes: objects, and places in tables, on CPython 3.11-3.13."""
COLUMN_BYTES = 832
"""What each column of a batch takes likewise: a single message of 20 bytes over AMQP, with key and properties, has 3 KiB."""
QUEUE_BYTES = 512
"""What each queue takes that a shared batch is known to."""
LEAVE_A_BATCH = 8
"""Batches of queues that are deleted which leave as one comes: a queue may have had a hundred thousand, too many for one turn."""
MEASURED_BYTES = 64 * 1024
"""A record of so many bytes is taken for as large as its batch; of a smaller one the batch is read."""


class Leaving(Protocol):
    """What has batches in the cache of a queue that is deleted: its table."""

    def leave(self) -> bool:
        """Have one of them leave; returns whether there was one."""


class JournalEntry(Entry):
    """An entry that knows what its record takes, and has the cache know when its messages are used.

    Attributes:
        key: what the cache has it under.
        stored: bytes of the record's payload.
    """

    __slots__ = ("_cache", "key", "large", "stored")

    def __init__(self, first: int, stop: int, table: EntryTable, key: Key, cache: EntryCache, stored: int) -> None:
        super().__init__(first, stop, table)
        self._cache = cache
        self.key = key
        self.stored = stored
        self.large = stored > LARGE_BYTES

    @property
    def most_bytes(self) -> int:
        """See ``Entry``; of a large record without reading it. Beside little the names of its senders could be much."""
        if self.size or self.stored >= MEASURED_BYTES:
            return self.size or self.stored
        return self.batch.nbytes

    @property
    def extent_bytes(self) -> int:
        """See ``Entry``."""
        return self.stored

    @property
    def batch(self) -> MessageBatch:
        """See ``Entry``; what is in the cache stays the longer for it."""
        self._cache.use(self.key)
        batch = self._batch
        return batch if batch is not None else self._table.load(self)


class SharedBatch:
    """A batch that several queues hold alike, by one record.

    Attributes:
        key: what the cache has it under.
        queues: the numbers of the queues that the record gives it to.
        entries: of those queues that have been asked for it and still hold some of it, by queue number.
    """

    __slots__ = ("batch", "enqueued_us", "entries", "event", "key", "published", "queues", "ttl_us")

    def __init__(self, place: RecordPlace, queues: Sequence[int], entry: JournalEntry, batch: MessageBatch) -> None:
        self.key = (*place, queues[0])
        self.queues = queues
        self.entries: dict[int, JournalEntry] = {}
        self.batch = batch
        self.event = entry.event
        self.enqueued_us = entry.enqueued_us
        self.ttl_us = entry.ttl_us
        self.published = entry.published

    def forget(self) -> None:
        """Have it in memory no more: see ``Entry.forget``."""
        for entry in self.entries.values():
            entry.forget()


class EntryCache:
    """Entries that have their messages in memory, of at most ``limit`` bytes of batches; one that has to leave forgets them.

    Attributes:
        large: those that are too large to be kept.
    """

    __slots__ = ("_leaving", "_shared", "_values", "large")

    def __init__(self, limit: int, journal: Journal) -> None:
        self.large = LargeBatches(journal)
        self._values: ByteBoundedCache[Key, JournalEntry | SharedBatch] = ByteBoundedCache(limit, self._evicted)
        # By the record's place and each of the queues.
        self._shared: dict[tuple[int, int, int], SharedBatch] = {}
        # Tables of queues that are deleted.
        self._leaving: deque[Leaving] = deque()

    def statistics(self) -> dict[str, int]:
        """What the kept batches take, and how often one was asked for that was kept, and that was not."""
        values = self._values
        return {"cache_bytes": values.bytes, "cache_hits": values.hits, "cache_misses": values.misses}

    @property
    def limit(self) -> int:
        """Bytes; see ``ByteBoundedCache``."""
        return self._values.limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._values.limit = limit

    @property
    def shares(self) -> bool:
        """Whether it has a batch that several queues hold. Where it has none, no place of a record need be looked up."""
        return bool(self._shared)

    def use(self, key: Key) -> None:
        """A batch was asked for: it stays the longer for it."""
        self._values.get(key)

    def keep(self, entry: JournalEntry, batch: MessageBatch) -> None:
        """Keep an entry's batch, which is its queue's alone."""
        if self._leaving:
            self._let_leave()
        self._values.put(entry.key, entry, _bytes_of(entry, batch))

    def share(
        self, place: RecordPlace, queues: Sequence[int], number: int, entry: JournalEntry, batch: MessageBatch
    ) -> None:
        """Keep the batch of an entry of queue ``number``, which the record at ``place`` gives to all of ``queues``, ascending."""
        if self._leaving:
            self._let_leave()
        shared = self._shared.get((*place, number))
        if shared is None:
            shared = SharedBatch(place, queues, entry, batch)
            self._values.put(shared.key, shared, _bytes_of(entry, batch) + QUEUE_BYTES * len(queues))
            if shared.key in self._values:
                self._shared.update(((*place, queue), shared) for queue in queues)
        shared.entries[number] = entry
        entry.key = shared.key

    def join(self, place: RecordPlace, number: int, entry: JournalEntry) -> MessageBatch | None:
        """Have an entry of queue ``number`` know the batch that another queue has of the record at ``place``; None where none has it."""
        shared = self._shared.get((*place, number))
        if shared is None:
            return None
        self._values.get(shared.key)
        shared.entries[number] = entry
        entry.key = shared.key
        return entry.know(
            shared.batch,
            event=shared.event,
            enqueued_us=shared.enqueued_us,
            ttl_us=shared.ttl_us,
            published=shared.published,
        )

    def discard(self, number: int, first: int, entry: JournalEntry | None) -> None:
        """Nobody wants the batch of queue ``number`` any more that begins with ``first``; ``entry`` is its, where there is one."""
        if entry is None or len(entry.key) == 2:
            self._values.discard((number, first))
            return
        shared = self._shared.get((*entry.key[:2], number))
        if shared is None or shared.entries.get(number) is not entry:
            return
        del shared.entries[number]
        if not shared.entries:
            self._values.discard(shared.key)
            self._leave(shared)

    def leave(self, table: Leaving) -> None:
        """A queue is deleted: nobody asks for its batches any more."""
        self._leaving.append(table)

    def _let_leave(self) -> None:
        for _ in range(LEAVE_A_BATCH):
            if not self._leaving[0].leave():
                self._leaving.popleft()
                if not self._leaving:
                    return

    def _evicted(self, _key: Key, value: JournalEntry | SharedBatch) -> None:
        value.forget()
        if type(value) is SharedBatch:
            self._leave(value)

    def _leave(self, shared: SharedBatch) -> None:
        for queue in shared.queues:
            self._shared.pop((*shared.key[:2], queue), None)


def _bytes_of(entry: JournalEntry, batch: MessageBatch) -> int:
    """What a batch and its entry take in memory."""
    columns = 1 + (batch.ids is not None) + (batch.keys is not None) + (batch.headers is not None)
    return entry.size + ENTRY_BYTES + COLUMN_BYTES * columns
