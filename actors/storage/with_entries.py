"""Events of queues and changes of the durable map in one record: what somebody stores, and how far they are with it.

Whoever is killed has done both or neither. A program from before that refuses the record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.storage.in_turn import EventsInTurn
from actors.storage.together import encode_with_entries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actors.queue.vocabulary.events import Event
    from actors.storage.durable_map import EntryPut, Sections


class EventsWithEntries(EventsInTurn):
    """What a storage does for who has to remember what became of its messages."""

    sections: Sections

    def record_with_entries(self, events: Mapping[int, Event], entries: Sequence[EntryPut]) -> int:
        """Have events of queues happen, by the queues' numbers, and the map be changed, in one instant; as ``record_all``.

        Returns:
            the number of what is recorded; 0 where a queue that was to get messages is not there, and nothing has happened.

        Raises:
            DiskBehindError: more waits for the disk than may wait. Nothing has happened.
            RecordTooLargeError, TooMuchTogetherError: as of ``record_all``. Nothing has happened.
            StorageError: the journal takes nothing more, and the broker, which has been told, is about to end.
        """
        if not self._contents.takes(events):
            return 0
        self._check_pending()
        lsn = self._record_together(encode_with_entries(events, entries))
        self._note_added()
        self._checkpoints.schedule()
        self._contents.apply(events, None, lsn)
        for entry in entries:
            self.sections.apply(entry, lsn)
        return lsn

    def _check_pending(self) -> None:
        """Raise DiskBehindError where more waits for the disk than may wait."""
        raise NotImplementedError

    def _note_added(self) -> None:
        """What may be much is on its way to the disk."""
        raise NotImplementedError
