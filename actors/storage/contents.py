"""What a store holds beside its batches: its queues and the writers' versions, as the recorded events make them.

The first execution and a start go through the same lines here, so that what is recorded is what is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from actors.queue.state.log import QueueLog
from actors.queue.state.staged import CommittedVersions
from actors.queue.vocabulary.events import MessagesAdded, MessagesMoved
from actors.storage.snapshot import Snapshot, StoredQueue, decode_snapshot, encoded

if TYPE_CHECKING:
    from actors.queue.vocabulary.events import Event
    from actors.queue.vocabulary.settings import QueueSettings
    from actors.queue.vocabulary.stages import WriterVersion
    from actors.storage.table import JournalEntryTable


class Contents:
    """Every queue of a store by its number, and what they share.

    Args:
        new_table: makes the table of a queue's batches, by its number.

    Attributes:
        store_id: chosen when the directory was made; 0 before that.
        next_queue: the number that the next queue gets; none is given twice.
        queues: every queue that was declared and not deleted.
        tables: the tables of their batches.
        versions: the last committed version of each writer.
    """

    def __init__(self, new_table: Callable[[int], JournalEntryTable]) -> None:
        self._new_table = new_table
        self.store_id = 0
        self.next_queue = 0
        self.queues: dict[int, StoredQueue] = {}
        self.tables: dict[int, JournalEntryTable] = {}
        self.versions = CommittedVersions()

    def restore(self, payload: bytes) -> None:
        """Have what a checkpoint has; raises StorageError for one that cannot be read."""
        snapshot = decode_snapshot(payload, self._table)
        self.store_id = snapshot.store_id
        self.next_queue = snapshot.next_queue
        self.queues.update((queue.number, queue) for queue in snapshot.queues)
        self.versions = snapshot.versions

    def snapshot(self) -> Iterator[bytes]:
        """All of it, encoded piece by piece (``snapshot.encoded``)."""
        return encoded(Snapshot(self.store_id, self.next_queue, self.in_order(), self.versions))

    def in_order(self) -> list[StoredQueue]:
        """The queues by number."""
        return sorted(self.queues.values(), key=lambda queue: queue.number)

    def logs(self) -> dict[int, QueueLog]:
        """The durable part of each queue."""
        return {number: queue.log for number, queue in self.queues.items()}

    def live(self, stream: int, first: int, stop: int) -> int:
        """How many of these messages of a queue are still wanted, as `Journal.checkpoint` asks."""
        queue = self.queues.get(stream)
        return 0 if queue is None else stop - first - queue.log.acknowledged.count_within(first, stop)

    def declared(self, number: int, name: str, settings: QueueSettings | None) -> StoredQueue:
        """A queue was declared."""
        queue = self.queues[number] = StoredQueue(number, name, settings, QueueLog(self._table(number)))
        self.next_queue = number + 1
        return queue

    def deleted(self, number: int) -> bool:
        """A queue was deleted; returns whether there was one."""
        if self.queues.pop(number, None) is None:
            return False
        self.tables.pop(number).deleted = True
        return True

    def takes(self, events: Mapping[int, Event]) -> bool:
        """Whether every queue is there that gets messages by these events."""
        return all(number in self.queues for number, event in events.items() if type(event) is MessagesAdded)

    def apply(self, events: Mapping[int, Event], version: WriterVersion | None, lsn: int) -> None:
        """Let events of several queues have happened in one instant, with the version that is committed by them.

        An event of a queue that is not there is passed over. But messages leave for no queue that is not there.
        """
        if version is not None and not self.versions.covers(*version):
            self.versions.note(*version, lsn)
        moves = self.takes(events)
        for number, event in events.items():
            queue = self.queues.get(number)
            if queue is not None and (moves or type(event) is not MessagesMoved):
                queue.log.apply(event, lsn)

    def _table(self, number: int) -> JournalEntryTable:
        table = self.tables[number] = self._new_table(number)
        return table
