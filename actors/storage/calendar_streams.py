"""The streams of the journal that a queue's calendar has: new ones, and what is in them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from actors.errors import StorageError
from actors.queue.vocabulary.events import MessagesScheduled
from actors.storage.codec import decode_added
from journal import JournalError, UnknownItemError

if TYPE_CHECKING:
    from collections.abc import Callable

    from journal import Journal


class CalendarStreams:
    """The streams of one queue's calendar.

    Args:
        number: the queue's.
        journal: where their messages are.
        new_stream: gives the number of a stream that nobody has had, which is the queue's from then on.
        unreadable: tells the broker of what cannot be read, which has to end, and gives the error to raise.

    Attributes:
        number, new_stream: as given.
    """

    __slots__ = ("_journal", "_unreadable", "new_stream", "number")

    def __init__(
        self,
        number: int,
        journal: Journal,
        new_stream: Callable[[], int],
        unreadable: Callable[[Exception], StorageError],
    ) -> None:
        self.number = number
        self.new_stream = new_stream
        self._journal = journal
        self._unreadable = unreadable

    def read(self, stream: int, position: int) -> MessagesScheduled | None:
        """The batch of a stream that holds a position, or else the next one; None where there is none.

        Raises:
            StorageError: it cannot be read, which the broker has been told.
        """
        journal = self._journal
        try:
            first = journal.nearest(stream, position)
            if first is None:
                return None
            stored = journal.read(stream, first)
            event = decode_added(stored.first, stored.stop - stored.first, stored.payload)
        except UnknownItemError:
            return None
        except (JournalError, OSError, StorageError) as error:
            raise self._unreadable(error) from error
        if isinstance(event, MessagesScheduled):
            scheduled = event.scheduled.waiting_in(stream)
            if scheduled.place is not None:
                return replace(event, scheduled=scheduled)
        raise self._unreadable(StorageError(f"message {first} of stream {stream} does not wait there"))
