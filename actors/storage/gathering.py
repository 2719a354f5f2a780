"""Acknowledgements on their way into the journal: many small ranges become few records, and hardly anybody waits for any of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue.structures.ranges import RangeSet
from actors.queue.vocabulary.events import MessagesAcknowledged
from actors.storage import codec
from actors.storage.options import GATHER_DELAY
from journal import Journal, JournalFullError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class GatheredAcknowledgements:
    """What was acknowledged and has no record yet, by queue.

    Args:
        journal: where the records go.
        written: called when records were appended.
    """

    __slots__ = ("_journal", "_ranges", "_written")

    def __init__(self, journal: Journal, written: Callable[[], None]) -> None:
        self._journal = journal
        self._written = written
        self._ranges: dict[int, RangeSet] = {}

    def add(self, number: int, event: MessagesAcknowledged) -> bool:
        """Take an event of queue ``number`` in; returns whether it is the first, so that ``write`` is to be called in a while."""
        first = not self._ranges
        self._ranges.setdefault(number, RangeSet()).extend(event.ranges)
        return first

    def __bool__(self) -> bool:
        """Whether something has no record yet."""
        return bool(self._ranges)

    def forget(self, number: int) -> None:
        """The queue is gone."""
        self._ranges.pop(number, None)

    def write(self, loop: asyncio.AbstractEventLoop | None, again: Callable[[], None], *, lazy: bool = True) -> None:
        """Append what there is. Where the journal is full it is kept, and ``again`` called on ``loop`` in a while.

        Unless it is ``lazy`` somebody waits for it.

        Raises:
            JournalError: the journal has failed.
        """
        gathered, self._ranges = self._ranges, {}
        while gathered:
            number, ranges = next(iter(gathered.items()))
            kind, payload = codec.encode(number, MessagesAcknowledged(tuple(ranges)))
            try:
                self._journal.append(kind, [payload], lazy=lazy)
            except JournalFullError:
                self._ranges = gathered
                if loop is not None:
                    loop.call_later(GATHER_DELAY, again)
                return
            del gathered[number]
            self._written()
