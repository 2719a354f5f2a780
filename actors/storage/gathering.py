"""Acknowledgements on their way into the journal: many small ranges become few records, and hardly anybody waits for any of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue.structures.ranges import RangeSet
from actors.queue.vocabulary.events import MessagesAcknowledged
from actors.storage import codec
from actors.storage.failures import storage_error
from actors.storage.options import GATHER_DELAY
from journal import Journal, JournalError, JournalFullError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from actors.errors import StorageError


class GatheredAcknowledgements:
    """What was acknowledged and has no record yet, by queue.

    Args:
        journal: where the records go.
        written: called when records were appended.
        failed: told why none can be.

    Attributes:
        halted: whether nothing is written any more, because the broker has to end.
    """

    __slots__ = ("_failed", "_journal", "_loop", "_ranges", "_written", "halted")

    def __init__(self, journal: Journal, written: Callable[[], None], failed: Callable[[StorageError], None]) -> None:
        self._journal = journal
        self._written = written
        self._failed = failed
        self._loop: asyncio.AbstractEventLoop | None = None
        self.halted = False
        self._ranges: dict[int, RangeSet] = {}

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """What is gathered is written in a while by itself, on ``loop``."""
        self._loop = loop

    def add(self, number: int, event: MessagesAcknowledged) -> None:
        """Take an event of queue ``number`` in."""
        if not self._ranges:
            self._write_later()
        self._ranges.setdefault(number, RangeSet()).extend(event.ranges)

    def __bool__(self) -> bool:
        """Whether something has no record yet."""
        return bool(self._ranges)

    def forget(self, number: int) -> None:
        """The queue is gone."""
        self._ranges.pop(number, None)

    def write(self, *, lazy: bool = True) -> None:
        """Append what there is; where the journal is full it is kept, and written in a while.

        Unless it is ``lazy`` somebody waits for it.
        """
        if self.halted:
            return
        gathered, self._ranges = self._ranges, {}
        while gathered:
            number, ranges = next(iter(gathered.items()))
            kind, payload = codec.encode(number, MessagesAcknowledged(tuple(ranges)))
            try:
                self._journal.append(kind, [payload], lazy=lazy)
            except JournalFullError:
                self._ranges = gathered
                self._write_later()
                return
            except JournalError as error:
                self._failed(storage_error(error))
                return
            del gathered[number]
            self._written()

    def _write_later(self) -> None:
        if self._loop is not None:
            self._loop.call_later(GATHER_DELAY, self.write)
