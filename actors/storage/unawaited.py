"""Events of transient queues: in the journal like any others, so that they page to disk, but nothing waits for them.

They are appended lazily: they cause no sync of their own before a record may wait no longer, and go along with what others have written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue.vocabulary.events import MessagesAcknowledged
from actors.storage.options import UNAWAITED
from actors.storage.together import encode_all, encode_one

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.queue.vocabulary.events import Event
    from actors.storage.checkpoints import Checkpoints
    from actors.storage.contents import Contents
    from actors.storage.gathering import GatheredAcknowledgements
    from actors.storage.together import Encoded
    from journal import Journal


class UnawaitedEvents:
    """What a storage does for its transient queues."""

    _journal: Journal
    _contents: Contents
    _gathered: GatheredAcknowledgements
    _checkpoints: Checkpoints

    @property
    def recorded(self) -> int:
        """The number of the last event of all that was recorded."""
        return self._journal.next_lsn - 1

    def record_unawaited(self, number: int, event: Event) -> int:
        """As ``record``, of a transient queue.

        Returns:
            the number of the last event that stored something in it together with others, which is waited for; not this event's.
        """
        queue = self._contents.queues.get(number)
        if queue is None:
            # It was deleted, and its actor is about to hear of it.
            return 0
        if type(event) is MessagesAcknowledged:
            self._gathered.add(number, event)
        else:
            self._append_unawaited(encode_one(number, event))
        return queue.log.added_by

    def _record_all_unawaited(self, events: Mapping[int, Event]) -> int:
        """As ``record_all``, where every queue is transient."""
        if len(events) == 1:
            ((number, event),) = events.items()
            self.record_unawaited(number, event)
        else:
            self._append_unawaited(encode_all(events, None))
        self._contents.apply(events, None, UNAWAITED)
        return UNAWAITED

    def _append_unawaited(self, encoded: Encoded) -> None:
        self._record_together(encoded, lazy=True)
        if not encoded.held:
            self._checkpoints.schedule()

    def _record_together(self, encoded: Encoded, *, lazy: bool = False) -> int:
        """Have a record appended, and the queues' tables know of it; returns its number."""
        raise NotImplementedError
