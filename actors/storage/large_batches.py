"""Messages that are larger than any frame, as AMQP lets them be: how many are in memory at a time, and who reads them.

All other batches are read where they are wanted, within the turn of the loop. One of these would take a tenth of a second, and a hundred
consumers that each wait for one would have all of them in memory. So before such a batch leaves a queue there has to be room for it; then a
thread reads it, and its queue is told to look again. The room is free when nobody has the bytes any more: they are on their way to a socket
meanwhile. What was just stored is in memory for the journal's sake until it is written, and is taken from there.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import ref

from journal import StoredItems, taken_in

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from mmap import mmap

    from actors.batch import MessageBatch
    from actors.queue.vocabulary.events import MessagesAdded
    from journal import Journal

LARGE_BYTES: Final = 16 << 20
"""Of a record's payload, above which its batch is one of these: what a frame has at most."""
MOST_LARGE_BYTES: Final = 256 << 20
"""That are in memory of them, beside what is being stored, but for one in any case."""
TAKEN_SECONDS: Final = 5.0
"""In which what was read is taken by its queue; nobody may want it any more."""

Key = tuple[int, int]


class Table(Protocol):
    """A queue's table, or a level of one."""

    @property
    def stream(self) -> int:
        """The stream of the journal that has its records: the queue's number, or its level's."""

    @property
    def wake(self) -> Callable[[], None] | None:
        """Tells the queue that a batch may be had that could not be; None where nobody asks."""


class LargeBatches:
    """Those of one broker. Lives on its loop.

    Args:
        journal: where they are.

    Attributes:
        bytes: in memory, or being read.
        limit: of these; a larger one has it to itself.
        fresh: what was just stored, by queue number and first message, each with the number of its event.
        read: what was read, and not taken yet.
    """

    def __init__(self, journal: Journal, limit: int = MOST_LARGE_BYTES) -> None:
        self.bytes = 0
        self.limit = limit
        self._journal = journal
        self.fresh: dict[Key, tuple[MessagesAdded, int]] = {}
        self.read: dict[Key, mmap] = {}
        self._reading: set[Key] = set()
        # What could not be read so, be it that it was copied elsewhere: the next attempt says why.
        self._failed: set[Key] = set()
        # Queues that wait for room, in order.
        self._line: dict[int, Table] = {}
        # What is in memory, by its place there: what tells of its end, and bytes.
        self._kept: dict[int, tuple[ref[Any], int]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """The loop that it lives on."""
        self._loop = loop

    def written(self, durable: int) -> None:
        """All is on the disk up to this event: what was just stored need not be in memory any more."""
        if self.fresh:
            self.fresh = {key: kept for key, kept in self.fresh.items() if kept[1] > durable}

    def discard(self, key: Key) -> None:
        """Nobody wants a batch any more."""
        self.fresh.pop(key, None)
        self.read.pop(key, None)
        self._failed.discard(key)

    def at_hand(self, table: Table, first: int, size: int) -> bool:
        """Whether a batch of ``size`` bytes can be had within this turn; where it cannot, its queue is told when to look again."""
        key = (table.stream, first)
        if key in self.read or key in self._reading:
            return key in self.read
        owner = _owner(self.fresh[key][0].batch) if key in self.fresh else None
        if owner is not None and self._is_kept(owner):
            return True
        if self.bytes and self.bytes + size > self.limit:
            self._line[table.stream] = table
            return False
        if owner is not None:
            self._keep(owner, size)
            return True
        apart = None if key in self._failed else self._journal.apart(*key)
        if apart is None:
            # It is not written yet, or is read as all others are.
            self._failed.discard(key)
            return True
        self._reading.add(key)
        self.bytes += size
        assert self._loop is not None, "what leaves a queue leaves it on the loop"
        reading = self._loop.run_in_executor(None, apart.read)
        reading.add_done_callback(lambda done: self._came(table, key, size, done))
        return False

    def take(self, table: Table, first: int, stop: int) -> StoredItems | None:
        """The record of a batch that was read; None where it was not."""
        data = self.read.pop((table.stream, first), None)
        return None if data is None else taken_in(data, table.stream, first, stop)

    # Inside

    def _came(self, table: Table, key: Key, size: int, done: asyncio.Future[mmap | None]) -> None:
        self._reading.discard(key)
        self.bytes -= size
        data = None if done.cancelled() else done.result()
        if data is None:
            self._failed.add(key)
        else:
            self._keep(data, size)
            self.read[key] = data
            # No cycle: it is free once nobody has it.
            assert self._loop is not None, "as above"
            self._loop.call_later(TAKEN_SECONDS, self._untaken, key, ref(data))
        if table.wake is not None:
            table.wake()

    def _untaken(self, key: Key, data: ref[mmap]) -> None:
        if data() is not None and self.read.get(key) is data():
            del self.read[key]

    def _keep(self, owner: Any, size: int) -> None:
        """Count some memory as long as anybody has it."""
        if self._is_kept(owner):
            return
        try:
            told = ref(owner, self._freed)
        except TypeError:
            # Nobody can be told of its end: it came in one frame, which is no more than others have.
            return
        self._kept[id(owner)] = told, size
        self.bytes += size

    def _is_kept(self, owner: Any) -> bool:
        """Whether it is counted; what is gone may have left its place in memory to another."""
        kept = self._kept.get(id(owner))
        return kept is not None and kept[0]() is owner

    def _freed(self, told: ref[Any]) -> None:
        """On whichever thread has let go of it last; where the loop is closed, nobody waits any more."""
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._note_freed, told)

    def _note_freed(self, told: ref[Any]) -> None:
        for place, (each, size) in list(self._kept.items()):
            if each is told:
                del self._kept[place]
                self.bytes -= size
        line, self._line = self._line, {}
        # Each that has no room even so stands in line again.
        for table in line.values():
            if table.wake is not None:
                table.wake()


def _owner(batch: MessageBatch) -> Any:
    """What has the memory of a batch's payloads."""
    return batch.payloads.data.obj
